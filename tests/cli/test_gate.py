"""`assay gate` as a build meets it: exit codes, no more rows than needed, files for other tools."""

import json
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from typer.testing import CliRunner

import assay as ay
from assay.cli.app import app

MODEL = """
import torch
net = torch.nn.Linear(4, 2)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
    net.bias.copy_(torch.tensor([-0.5, 0.5]))
def breaks(x):
    raise ValueError("out of order")
"""
CONFIG = """\
batch = 16
[data]
path = "d.npz"
[model]
python = "net.py:net"
[space]
type = "Linf"
eps = "1/10"
[attack]
type = "PGD"
steps = 2
[gate]
criteria = ['CRITERION']
[evidence]
purpose = "test <b>bold</b>"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rows whose robustness is known: all further than 0.1 from the boundary are robust."""
    rng = np.random.default_rng(0)
    x = rng.random((600, 4)).astype(np.float32)
    x[:, 0] = np.where(np.arange(600) % 10 < 8, 0.8, 0.55)  # 80 % robust
    y = np.zeros(600, int)
    np.savez(tmp_path / "d.npz", x=x, y=y, classes=np.array(["go|<img>", "stop"]))
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, criterion, text=CONFIG):
    (folder / "run.toml").write_text(text.replace("CRITERION", criterion))


def call(*words):
    return CliRunner().invoke(app, ["gate", *map(str, words)])


@pytest.mark.parametrize(
    "criterion, code, said",
    [
        ("robust >= 0.5", 0, "gate: pass"),
        ("robust >= 0.95", 1, "gate: fail"),
        ("robust >= 0.79", 2, "further rows would probably decide it"),
    ],
)
def test_pass_fail_and_undecided_have_their_exit_codes(folder, criterion, code, said):
    write(folder, criterion)
    result = call("run.toml", "-q")
    assert result.exit_code == code, result.output
    assert said in result.output
    rows = len(ay.Report.load(folder / "runs" / "run").table)
    assert rows == 600 if code == 2 else rows < 200  # no more than needed
    again = call("runs/run")  # the kept run is decided as it was
    assert again.exit_code == code and again.output.splitlines()[0] in result.output


def test_what_is_broken_is_not_undecided(folder):
    write(folder, "robust >= 0.5", CONFIG.replace("net.py:net", "net.py:breaks"))
    assert call("run.toml", "-q").exit_code == 3
    assert call("run.toml", "--no-such-option").exit_code == 3
    assert call("no.toml").exit_code == 3
    write(folder, "robst >= 0.5")
    result = call("run.toml")
    assert result.exit_code == 3 and "did you mean 'robust'" in " ".join(result.output.split())


def test_a_criterion_cannot_be_changed_after_rows_were_seen(folder):
    write(folder, "robust >= 0.5")
    assert call("run.toml", "-q").exit_code == 0
    write(folder, "robust >= 0.7")
    result = call("run.toml", "-q", "--resume")
    assert result.exit_code == 3 and "robust >= 0.5" in result.output


def test_workers_that_finish_early_do_not_decide(folder):
    from assay.run.job import Chunk
    from assay.run.run import _in_order

    came = [(k, Chunk(None, {})) for k in (2, 0, 3, 1)]
    assert [k for k, _ in _in_order(range(4), came)] == [0, 1, 2, 3]


def test_files_for_other_tools(folder):
    write(folder, "robust >= 0.95")
    result = call("run.toml", "-q", "-c", "robust >= 0.95", "-c", "clean >= 0.5",
                  "--summary", "o/s.md", "--junit", "o/j.xml", "--sarif", "o/g.sarif")  # fmt: skip
    assert result.exit_code == 1, result.output
    suite = Xml.parse("o/j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert [c.find("failure") is not None for c in suite] == [True, False]
    log = json.loads((folder / "o/g.sarif").read_text())
    assert log["version"] == "2.1.0" and log["runs"][0]["tool"]["driver"]["name"] == "assay"
    (alert,) = log["runs"][0]["results"]
    assert alert["level"] == "error" and alert["message"]["text"]
    assert alert["ruleId"] in [r["id"] for r in log["runs"][0]["tool"]["driver"]["rules"]]
    place = alert["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "run.toml"
    assert place["region"]["startLine"] == CONFIG.splitlines().index("criteria = ['CRITERION']") + 1
    summary = (folder / "o/s.md").read_text()
    assert "❌ fail" in summary and "✅ pass" in summary and "<img" not in summary


def test_a_baseline_is_compared_row_by_row(folder):
    write(folder, "clean >= 0.5")
    assert CliRunner().invoke(app, ["run", "run.toml", "-q", "--out", "main"]).exit_code == 0
    weaker = MODEL.replace("[-0.5, 0.5]", "[-0.72, 0.72]")
    (folder / "net.py").write_text(weaker)
    asked = "robust no lower than main by more than 0.02"
    result = call("run.toml", "-q", "-c", asked, "--summary", "s.md")
    assert result.exit_code == 1, result.output
    assert "rows are broken now that were not" in (folder / "s.md").read_text()


def test_evidence_of_a_gate(folder):
    write(folder, "robust >= 0.5")
    assert call("run.toml", "-q").exit_code == 0
    kept = json.loads((folder / "runs/run/evidence.json").read_text())
    assert kept["criterion"]["fixed beforehand"] == ["robust >= 0.5"]
    assert kept["criterion"]["decision"] == "pass"
    page = (folder / "runs/run/evidence.html").read_text()
    assert "<b>bold</b>" not in page and "test &lt;b&gt;bold" in page
    assert "(empty)" in page  # nobody said who the owner is
