"""`durometer gate` as a build meets it: exit codes, no more rows than needed, files for other
tools."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
from xsd import Schema

sys.path.pop(0)

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
    rows = len(du.Report.load(folder / "runs" / "run").table)
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
    from durometer.run.job import Chunk
    from durometer.run.run import _in_order

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
    assert log["version"] == "2.1.0" and log["runs"][0]["tool"]["driver"]["name"] == "durometer"
    (alert,) = log["runs"][0]["results"]
    assert alert["level"] == "error" and alert["message"]["text"]
    assert alert["ruleId"] in [r["id"] for r in log["runs"][0]["tool"]["driver"]["rules"]]
    place = alert["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "run.toml"
    assert place["region"]["startLine"] == CONFIG.splitlines().index("criteria = ['CRITERION']") + 1
    summary = (folder / "o/s.md").read_text()
    assert "❌ fail" in summary and "✅ pass" in summary and "<img" not in summary


SCHEMA = Path(__file__).parents[1] / "data" / "sarif-2.1.0.json.gz"


def check_sarif(file):
    """Against the schema of the standard, its formats included."""
    import gzip

    from jsonschema import Draft7Validator

    log = json.loads(Path(file).read_text())
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    wrong = [f"{list(e.absolute_path)}: {e.message}" for e in
             Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
             .iter_errors(log)]  # fmt: skip
    assert not wrong, wrong
    return log


JUNIT = Schema(SCHEMA.with_name("junit-10.xsd"))


def check_junit(file):
    """Against the schema of Jenkins' xUnit plugin: JUnit itself publishes none."""
    root = Xml.parse(file).getroot()
    assert not JUNIT.wrong(root), JUNIT.wrong(root)
    return root


@pytest.mark.parametrize("criterion", ["robust >= 0.5", "robust >= 0.95", "robust >= 0.79"])
def test_junit_is_valid_by_its_schema(folder, criterion):
    write(folder, criterion)
    call("run.toml", "-q", "--junit", "o.xml")
    root = check_junit("o.xml")
    assert root.tag == "testsuites"
    text = (folder / "o.xml").read_text()
    for change in (
        (' errors="', ' erors="'), ("<testcase ", '<testcase outcome="good" '),
        ("system-out", "verdict"), ("<testsuite ", '<testsuite time="soon" '),
    ):  # fmt: skip
        (folder / "spoilt.xml").write_text(text.replace(*change))
        with pytest.raises(AssertionError):
            check_junit("spoilt.xml")


@pytest.mark.parametrize("criterion", ["robust >= 0.5", "robust >= 0.95", "robust >= 0.79"])
def test_sarif_is_valid_by_its_schema(folder, criterion):
    write(folder, criterion)
    call("run.toml", "-q", "--sarif", "o.sarif")
    log = check_sarif("o.sarif")
    assert len(log["runs"][0]["results"]) == (criterion != "robust >= 0.5")
    log["runs"][0]["results"].append({"level": "dreadful"})  # the check can fail
    (folder / "o.sarif").write_text(json.dumps(log))
    with pytest.raises(AssertionError, match="message"):
        check_sarif("o.sarif")


def test_what_broke_is_said_in_every_file(folder):
    broken = CONFIG.replace("net.py:net", "net.py:breaks")
    files = ("--summary", "o/s.md", "--junit", "o/j.xml", "--sarif", "o/g.sarif")
    for text, said, line in (
        (broken, "out of order", 1),
        (CONFIG.replace("PGD", "PGB"), "PGB", 10),
    ):
        write(folder, "robust >= 0.5", text)
        assert call("run.toml", "-q", *files).exit_code == 3
        assert (
            "could not run" in (folder / "o/s.md").read_text()
            and said in (folder / "o/s.md").read_text()
        )
        suite = check_junit("o/j.xml")[0]
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
        assert said in suite[0].find("error").get("message")
        run = check_sarif("o/g.sarif")["runs"][0]
        (done,) = run["invocations"]
        assert (done["executionSuccessful"], done["exitCode"]) == (False, 3)
        assert said in done["toolExecutionNotifications"][0]["message"]["text"]
        (alert,) = run["results"]  # with none, the alerts of the run before would be closed
        assert said in alert["message"]["text"] and alert["level"] == "error"
        assert alert["locations"][0]["physicalLocation"]["region"]["startLine"] == line
    (folder / "o").rename(folder / "p")
    (folder / "o").write_text("in the way")
    assert call("run.toml", "-q", "--summary", "o/s.md", "--junit", "j.xml").exit_code == 3
    assert Path("j.xml").exists()  # what can be written is


def test_the_summary_says_what_was_played_and_where_it_was_decided(folder):
    write(folder, "robust >= 0.5")
    call("run.toml", "-q", "--summary", "s.md", "-c", "robust >= 0.5", "-c", "robust >= 0.7")
    head, _, row = [
        line.split("|") for line in Path("s.md").read_text().splitlines() if "|" in line
    ][:3]
    cells = dict(zip([h.strip() for h in head], [c.strip() for c in row], strict=True))
    kept = json.loads(Path("runs/run/evidence.json").read_text())["criterion"]["decisions"][0]
    played = len(du.Report.load("runs/run").table)
    assert cells["rows played"] == str(played) and kept["n"] == played
    assert int(cells["decided after row"]) == kept["decided after row"] < played


def repeated(folder, run, monkeypatch):
    """The command that the evidence of a run names, called; the evidence of what it makes."""
    kept = json.loads((folder / run / "evidence.json").read_text())
    place, _, command = kept["integrity"]["repeat"].partition(" && ")
    with monkeypatch.context() as moved:
        moved.chdir(folder / run / shlex.split(place)[1])
        made = CliRunner().invoke(app, shlex.split(command)[1:])
    again = folder / f"{run}-again" / "evidence.json"
    assert again.exists(), (kept["integrity"]["repeat"], made.output)
    return kept, json.loads(again.read_text()), made.exit_code


def called(folder, run):
    """The same in a process of its own, by a shell, as somebody would who reads the document."""
    kept = json.loads((folder / run / "evidence.json").read_text())
    launcher = folder / "bin" / "durometer"
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m durometer \"$@\"\n")
    launcher.chmod(0o755)
    env = os.environ | {"PATH": f"{launcher.parent}:{os.environ['PATH']}"}
    made = subprocess.run(kept["integrity"]["repeat"], shell=True, cwd=folder / run, env=env,
                          capture_output=True, text=True)  # fmt: skip
    again = folder / f"{run}-again" / "evidence.json"
    assert again.exists(), (kept["integrity"]["repeat"], made.stdout, made.stderr)
    return kept, json.loads(again.read_text()), made.returncode


def test_the_command_that_repeats_a_gate_gives_the_same_figures(folder):
    (folder / "sub").mkdir()
    for name in ("net.py", "d.npz"):
        (folder / name).rename(folder / "sub" / name)
    (folder / "sub" / "run.toml").write_text(CONFIG.replace("CRITERION", "robust >= 0.95"))
    words = ("--rows", "400", "-c", "robust >= 0.9", "--alpha", "0.1", "--out", "runs/a b/first")
    assert call("sub/run.toml", "-q", *words).exit_code == 1
    kept, again, code = called(folder, "runs/a b/first")
    assert code == 1
    for group in ("threat", "criterion", "figures", "slices", "limits"):
        assert again[group] == kept[group], group
    assert again["integrity"]["model_hash"] == kept["integrity"]["model_hash"]


def test_the_command_that_repeats_a_run_gives_the_same_figures(folder, monkeypatch):
    write(folder, "robust >= 0.5")
    words = ["run", "run.toml", "-q", "--seed", "3", "--until", "0.06", "--out", "runs/first"]
    assert CliRunner().invoke(app, words).exit_code == 0
    kept, again, code = repeated(folder, "runs/first", monkeypatch)
    assert code == 0 and again["figures"] == kept["figures"]
    assert 0 < again["limits"]["rows"] == kept["limits"]["rows"] < 600


def test_the_command_that_repeats_a_merged_run_plays_all_of_it(folder, monkeypatch):
    write(folder, "robust >= 0.5")
    for k in (1, 2):
        words = ["run", "run.toml", "-q", "--shard", f"{k}/2", "--out", f"parts/{k}"]
        assert CliRunner().invoke(app, words).exit_code == 0
    words = ["merge", "parts/1", "parts/2", "--out", "runs/whole"]
    assert CliRunner().invoke(app, words).exit_code == 0
    kept, again, code = repeated(folder, "runs/whole", monkeypatch)
    assert code == 0 and again["figures"] == kept["figures"]
    assert again["limits"]["rows"] == 600


def look(*words):
    return CliRunner().invoke(app, ["verify", *map(str, words)])


def test_verify_asks_a_model_that_is_named(folder):
    write(folder, "robust >= 0.95")
    assert call("run.toml", "-q", "--out", "runs/r").exit_code == 1
    whole = look("runs/r", "--model", "net.py:net")
    assert whole.exit_code == 0 and "adversarial examples" in whole.output, whole.output
    (folder / "net.py").rename(folder / "moved.py")  # the run's own config.toml cannot find it
    assert look("runs/r", "--model", "moved.py:net").exit_code == 0
    (folder / "other.py").write_text(MODEL.replace("[-0.5, 0.5]", "[-0.72, 0.72]"))
    other = look("runs/r", "--model", "other.py:net")
    assert other.exit_code == 1 and "another one" in other.output
    assert look("runs/r", "--model", "moved.py:nett").exit_code == 2
    assert look("runs/r", "--model", "gone.onnx").exit_code == 2


def test_verify_of_a_run_made_in_python_takes_its_rows_by_name(folder):
    import torch

    x = np.load(folder / "d.npz")["x"]
    net = torch.jit.script(torch.nn.Linear(4, 2))
    torch.jit.save(net, folder / "net.pt")
    data = du.Dataset(x, np.zeros(600, int), classes=["go|<img>", "stop"])
    du.evaluate(torch.jit.load("net.pt"), data, space=du.Linf(0.2), attack=du.PGD(3)).save("runs/p")
    asked = look("runs/p", "--model", "net.pt")
    assert asked.exit_code == 2 and "--data" in asked.output
    found = look("runs/p", "--model", "net.pt", "--data", "d.npz")
    assert found.exit_code == 0 and "adversarial examples" in found.output, found.output
    again = json.loads((folder / "runs/p/evidence.json").read_text())["integrity"]["repeat"]
    assert (
        again.startswith("made in Python: du.evaluate(MODEL, DATA, space=Linf(") and "PGD(" in again
    )


def test_a_gate_on_a_baseline_that_was_itself_stopped_early(folder):
    write(folder, "robust >= 0.5")
    assert call("run.toml", "-q", "--out", "runs/main").exit_code == 0
    rows = len(du.Report.load("runs/main").table)
    assert rows < 200
    write(folder, "robust no lower than runs/main by more than 0.3")
    result = call("run.toml", "-q", "--summary", "s.md")
    assert result.exit_code == 0, result.output
    write(folder, "robust no lower than runs/main by more than 0.001")
    result = call("run.toml", "-q", "--summary", "s.md", "--out", "runs/second")
    assert result.exit_code == 2, result.output
    said = f"{600 - rows} rows are not in runs/main"
    assert said in " ".join(result.output.split())
    assert f"{600 - rows} rows are not in" in Path("s.md").read_text().replace("\\", "")


def test_a_run_is_verified_where_its_baseline_is_not(folder, monkeypatch):
    write(folder, "clean >= 0.5")
    assert CliRunner().invoke(app, ["run", "run.toml", "-q", "--out", "runs/main"]).exit_code == 0
    write(folder, "robust no lower than runs/main by more than 0.02")
    assert call("run.toml", "-q", "--out", "runs/next").exit_code == 0
    assert look("runs/next").exit_code == 0
    monkeypatch.chdir(folder / "runs")  # as for whoever was sent the folder alone
    for words in (("next",), ("next", "--model", "../net.py:net")):
        found = look(*words)
        assert found.exit_code == 0 and "not decided again" in found.output, found.output
    monkeypatch.chdir(folder)
    (folder / "runs/main").rename(folder / "runs/gone")
    gone = call("run.toml", "-q", "--out", "runs/third")
    assert gone.exit_code == 3 and "no saved report in 'runs/main'" in " ".join(gone.output.split())


def test_a_gate_on_a_quota_is_refused_before_anything_is_played(folder):
    quota = '[goal]\ntype = "Quota"\nk = 1\nsources = ["stop"]\ntargets = ["go|<img>"]\n[gate]'
    write(folder, "robust >= 0.5", CONFIG.replace("[gate]", quota))
    for made in (call("run.toml", "-q"), CliRunner().invoke(app, ["run", "run.toml", "-q"])):
        assert made.exit_code in (2, 3) and "about bands" in " ".join(made.output.split())
    assert not (folder / "runs").exists()


def test_a_job_is_played_like_the_file_it_comes_from(folder):
    from durometer.config.config import read

    write(folder, "robust >= 0.95")
    by_file = du.gate("run.toml")
    by_job = du.gate(read("run.toml").job(), "robust >= 0.95")
    assert by_job == by_file and by_job.outcome == "fail"
    with pytest.raises(du.DurometerError, match="no criterion"):
        du.gate(read("run.toml").job())
    with pytest.raises(du.DurometerError, match=r"du.Job\(model, data, space\)"):
        du.gate(len, "robust >= 0.5")


def test_alpha_cannot_be_changed_after_rows_were_seen(folder):
    write(folder, "robust >= 0.5")
    assert call("run.toml", "-q").exit_code == 0
    result = call("runs/run", "--alpha", "0.4")
    assert result.exit_code == 3 and "fixed beforehand" in result.output


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
