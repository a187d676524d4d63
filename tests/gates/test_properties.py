"""Claims about whole models: their text, what they decide, and where they are decided."""

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

TEXTS = [
    "sex never flips a decision",
    "sex, race never flip a decision by more than 0.1 where age >= 18; hours <= 99",
    'age never moves the score of ">50K" by more than 0.5',
    "income never lowers the score",
    "debt never raises the score by more than 0.001",
    'nobody gets "yes" by more than 0.2 where age <= 20',
]
MODEL = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier
x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, x[:, 0] > 4)
"""
FILE = """\
[data]
path = "d.csv"
label = "y"
schema = "s.toml"
[model]
python = "m.py:model"
[properties]
claims = ["b never flips a decision", "CLAIM"]
"""


@pytest.mark.parametrize("text", TEXTS)
def test_a_claim_is_read_and_written(text):
    assert str(du.Property.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "sex flips", "nobody gets", "sex never flips a decision by more than x",
             "a, b never lower the score"],
)  # fmt: skip
def test_no_claim(text):
    with pytest.raises(du.DurometerError, match="property"):
        du.Property.parse(text)


def tree():
    from sklearn.tree import DecisionTreeClassifier

    x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, x[:, 0] > 4)
    return model, du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"], ["a + b <= 12"]), x


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("a never flips a decision", "fail"),
        ("b never flips a decision", "pass"),
        ("a never moves the score by more than 0.5", "fail"),
        ("b never moves the score by more than 0.5", "pass"),
        ("a never lowers the score", "pass"),
        ("a never raises the score", "fail"),
        ("nobody gets True where a <= 4", "pass"),
        ("nobody gets True where a <= 5", "fail"),
        ("a never flips a decision where a <= 4", "pass"),
    ],
)
def test_claims_are_decided(claim, outcome):
    model, schema, x = tree()
    report = du.check_properties(model, schema, claim, x)
    assert report.outcome == outcome, str(report)
    answer = report.answers[0]
    assert (answer.audited > 100) == (outcome == "pass")
    assert (answer.pair is not None) == (outcome == "fail")


def test_a_bound_relation_hides_a_flip_and_is_named():
    model, _, x = tree()
    tied = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"], ["a == b"])
    answer = du.flips(model, tied, of=["a"], data=x)
    assert answer.status == "proven"
    assert [b.about for b in answer.beside] == ["without 'a == b'"]
    assert answer.beside[0].low > 0


def test_json_and_page(tmp_path):
    model, schema, x = tree()
    report = du.check_properties(model, schema, ["a never flips a decision"], x)
    page = report.save(tmp_path)
    stored = json.loads((tmp_path / "properties.json").read_text())
    assert stored["properties"][0]["outcome"] == "fail"
    assert len(stored["properties"][0]["pair"]) == 2
    text = page.read_text()
    assert "1 of 1 claims are refuted." in text
    assert "a + b &lt;= 12" in text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, schema, x = tree()
    pd.DataFrame(x.astype(int), columns=list("ab")).assign(y=x[:, 0] > 4).to_csv(
        "d.csv", index=False
    )
    Path("s.toml").write_text(schema.toml())
    Path("m.py").write_text(MODEL)
    return tmp_path


def write(claim, more=""):
    Path("run.toml").write_text(FILE.replace("CLAIM", claim) + more)
    return "run.toml"


def test_the_command(folder):
    run = CliRunner().invoke
    done = run(app, ["properties", write("a never lowers the score"), "--out", "o"])
    assert done.exit_code == 0, done.output
    assert Path("o/properties.html").exists()
    done = run(app, ["properties", write("a never flips a decision")])
    assert done.exit_code == 1
    assert "found: a valid record does" in done.output
    assert run(app, ["properties", "run.toml", "-c", "zz never flips a decision"]).exit_code == 3
    refused = run(app, ["run", "run.toml"])
    assert refused.exit_code == 2
    assert "durometer properties" in " ".join(refused.output.split())


def test_a_wrong_claim_is_said_with_its_line(folder):
    with pytest.raises(du.DurometerError, match=r"\[properties\]: property 'a flips'"):
        du.gate(write("a flips"))


def test_the_gate_decides_claims_beside_rows(folder):
    more = '[space]\ntype = "Linf"\neps = 0.1\nhigh = 9\n[gate]\ncriteria = ["clean >= 0.5"]\n'
    done = CliRunner().invoke(
        app, ["gate", write("a never lowers the score", more), "--out", "o", "--junit", "j.xml",
              "--sarif", "s.sarif", "--summary", "s.md"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    cases = Xml.parse("j.xml").getroot().iter("testcase")
    assert [c.get("name") for c in cases] == [
        "clean >= 0.5", "b never flips a decision", "a never lowers the score",
    ]  # fmt: skip
    assert "a never lowers the score" in Path("s.md").read_text()
    assert Path("o/properties.json").exists()
    failed = CliRunner().invoke(
        app, ["gate", write("a never flips a decision"), "--out", "o2", "--sarif", "s.sarif"]
    )
    assert failed.exit_code == 1, failed.output
    result = json.loads(Path("s.sarif").read_text())["runs"][0]["results"]
    assert [r["ruleId"] for r in result] == ["durometer/property"]
    assert result[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 8


def test_a_file_with_claims_reads_as_written(folder):
    from durometer.config.config import parse, read
    from durometer.config.writing import to_toml

    config = read(write("a never lowers the score"))
    assert parse(to_toml(config)).properties == config.properties


def test_two_asked_features_may_move_together():
    """What ties them to each other allows pairs that no single value of one of them would."""
    model, _, _ = tree()
    tied = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"], ["a == b"])
    assert du.flips(model, tied, of=["a"]).status == "proven"
    assert du.flips(model, tied, of=["a", "b"]).status == "found"
