"""The command line, as a user meets it: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import durometer
from durometer.cli.app import app
from durometer.report.report import Report

MODEL = """
import torch
net = torch.nn.Linear(4, 3)
with torch.no_grad():
    net.weight.copy_(torch.eye(4)[:3] * 5)
    net.bias.zero_()
calls = 0
def breaks(x):
    global calls
    calls += 1
    if calls > {limit}:
        raise ValueError("out of order")
    return net(x)
"""
CONFIG = """\
batch = 8
[data]
path = "d.npz"
[model]
python = "net.py:net"
[space]
type = "Linf"
eps = "1/10"
[attack]
type = "PGD"
steps = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    x = rng.random((24, 4)).astype(np.float32) * 0.5
    x[np.arange(24), y] += np.linspace(0, 0.5, 24, dtype=np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    (tmp_path / "net.py").write_text(MODEL.format(limit=10**9))
    (tmp_path / "run.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_run_prints_and_saves_what_evaluate_gives(folder):
    out = call("run", "run.toml").output
    assert "robust accuracy" in out and "saved in runs/run" in out
    saved = Report.load("runs/run")
    assert len(saved.records) == 24
    assert saved.spec.space == {"type": "Linf", "eps": 0.1}
    call("run", "runs/run/config.toml", "--out", "again")  # it knows where its files stand
    assert Report.load("again").metric("robust") == saved.metric("robust")


def test_run_takes_seed_rows_and_out(folder):
    out = call("run", "run.toml", "--rows", 5, "--seed", 3, "--out", "here", "--quiet").output
    assert out == "saved in here\n"
    saved = Report.load("here")
    assert (len(saved.records), saved.spec.seed) == (5, 3)


def test_show_and_show_by(folder):
    call("run", "run.toml", "-q")
    assert "clean accuracy" in call("show", "runs/run").output
    by = call("show", "runs/run", "--by", "y").output
    assert by.count("0.") >= 3 and "robust accuracy" in by
    error = call("show", "runs/run", "--by", "winer", code=2).stderr
    assert "did you mean 'winner'" in error


def test_compare(folder):
    call("run", "run.toml", "-q")
    call("run", "run.toml", "-q", "--rows", 12, "--out", "b")
    out = call("compare", "runs/run", "b").output
    assert "rows compared" in out and "12" in out and "McNemar" in out


@pytest.mark.parametrize("kind", ["attacks", "spaces", "goals", "losses", "datasets"])
def test_list(kind):
    out = call("list", kind).output
    from durometer.config.registry import names

    for name in names(kind):
        assert name in out


def test_list_of_noises_has_what_their_parts_are_made_of():
    out = call("list", "noises").output
    for name in ("Normal", "Copula", "lognormal", "no_noise", "Confusion"):
        assert name in out


def test_list_shows_parameters_with_defaults():
    out = call("list", "attacks").output
    assert "queries=5000" in out and "attacks=[...]" in out
    assert "<factory>" not in out


def test_version_and_help():
    assert call("--version").output == f"durometer {durometer.__version__}\n"
    for words in (["--help"], ["run", "--help"], ["compare", "--help"]):
        assert "durometer" in call(*words).output.lower()
    assert "Example" in call("run", "--help").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nowhere.toml"], "cannot read 'nowhere.toml'"),
        (["show", "nowhere"], "no saved report in 'nowhere'"),
        (["compare", "nowhere", "else"], "no saved report in 'nowhere'"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr(folder, words, said):
    result = call(*words, code=2)
    assert result.stdout == ""
    assert said in result.stderr and result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


def test_a_wrong_key_names_file_line_and_nearest(folder):
    (folder / "run.toml").write_text(CONFIG.replace("steps", "stepps"))
    said = call("run", "run.toml", code=2).stderr
    assert (
        "run.toml, line 11 [attack]: PGD has no parameter 'stepps'; did you mean 'steps'?" in said
    )
    assert not (folder / "runs").exists()


def test_debug_shows_the_traceback(folder):
    result = CliRunner().invoke(app, ["--debug", "run", "nowhere.toml"])
    assert isinstance(result.exception, durometer.DurometerError)


def test_unsupported_is_said_like_any_mistake(folder):
    (folder / "run.toml").write_text(CONFIG.replace('"Linf"', '"L0"').replace(
        'type = "PGD"\nsteps = 3', 'type = "Square"'))  # fmt: skip
    said = call("run", "run.toml", code=2).stderr
    assert "Square" in said and "L0" in said


def test_a_model_that_breaks_down_leaves_what_was_finished(folder):
    (folder / "net.py").write_text(MODEL.format(limit=13))
    (folder / "run.toml").write_text(CONFIG.replace("net.py:net", "net.py:breaks"))
    said = call("run", "run.toml", code=1).stderr
    assert "ValueError: out of order" in said and "saved in runs/run" in said
    assert 0 < len(Report.load("runs/run").records) < 24


def test_ctrl_c_says_what_was_saved(folder):
    text = MODEL.format(limit=13).replace('ValueError("out of order")', "KeyboardInterrupt")
    (folder / "net.py").write_text(text)
    (folder / "run.toml").write_text(CONFIG.replace("net.py:net", "net.py:breaks"))
    result = call("run", "run.toml", code=130)
    done = len(Report.load("runs/run").records)
    assert 0 < done < 24
    assert f"stopped by hand after {done} of 24 rows" in result.stderr
    assert "saved in runs/run" in result.stdout


def test_ctrl_c_before_the_first_batch(folder):
    text = MODEL.format(limit=5).replace('ValueError("out of order")', "KeyboardInterrupt")
    (folder / "net.py").write_text(text)
    (folder / "run.toml").write_text(CONFIG.replace("net.py:net", "net.py:breaks"))
    assert "nothing was saved" in call("run", "run.toml", code=130).stderr


def test_ctrl_c_on_a_resumed_run_and_twice(folder, monkeypatch):
    """What is in the folder is safe, and that is what is said, whenever the key was hit."""
    (folder / "net.py").write_text(MODEL.format(limit=13))
    (folder / "run.toml").write_text(CONFIG.replace("net.py:net", "net.py:breaks"))
    call("run", "run.toml", code=1)

    def again(*args):
        raise KeyboardInterrupt

    for name in ("save", "load"):  # while the report is being saved; while the model is loaded
        with monkeypatch.context() as patch:
            owner = (
                durometer.report.report.Report if name == "save" else durometer.config.config.Config
            )
            patch.setattr(owner, name, again)
            said = call("run", "run.toml", "--resume", code=130).stderr
        assert "chunks are finished and safe in runs/run; --resume goes on" in said
        assert "nothing was saved" not in said


def test_pipes_get_plain_text_and_the_module_is_a_command(folder):
    done = subprocess.run(
        [sys.executable, "-m", "durometer", "run", "run.toml"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""
    assert json.loads((folder / "runs/run/spec.json").read_text())["rows"] == 24


def test_help_does_not_load_torch():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom durometer.cli import app\n"
        "CliRunner().invoke(app, ['--help'])\n"
        "print([m for m in ('torch', 'pandas', 'numpy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_shells_can_complete_it(folder):
    assert "--install-completion" in call("--help").output
    env = {"_DUROMETER_COMPLETE": "complete_bash", "COMP_WORDS": "durometer com", "COMP_CWORD": "1"}
    said = CliRunner().invoke(app, [], env=env, prog_name="durometer")
    assert said.output.split() == ["compare"]
