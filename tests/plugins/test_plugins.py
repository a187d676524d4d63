"""durometer inside other tools, tried for real: pytest in a process of its own, the action's
steps."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import durometer as du

ROOT = Path(__file__).parents[2]
PROJECT = """
import numpy as np, torch, pytest
import durometer as du
x = np.random.default_rng(0).random((400, 2)).astype(np.float32)
x[:, 0] = np.where(np.arange(400) % 10 < 8, 0.8, 0.55)
data = du.Dataset(x, np.zeros(400, int))
model = du.wrap(lambda x: torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], 1), name="line")
how = dict(space=du.Linf(0.1), attack=du.PGD(2))

def test_pass(robust):
    assert robust(model, data, **how) >= 0.5

def test_fail(robust):
    assert robust(model, data, **how) >= 0.95

@pytest.mark.durometer
def test_undecided(robust):
    assert robust(model, data, **how) >= 0.79

def test_no_bound(robust):
    with pytest.raises(TypeError, match="compare it with a bound"):
        assert robust(model, data, **how)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "test_model.py").write_text(PROJECT)
    return tmp_path


def outer(project, *words):
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "durometer.plugins.pytest", "-q", *words]
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)


def test_pytest_says_pass_fail_and_undecided_with_the_report(project):
    made = outer(project, "--durometer")
    assert made.returncode == 1, made.stdout + made.stderr
    assert "2 passed" in made.stdout and "2 failed" in made.stdout
    assert "gate: fail" in made.stdout and "gate: undecided" in made.stdout
    assert "further rows would probably decide it" in made.stdout
    reports = list((project / "runs/pytest").glob("*/report.html"))
    assert len(reports) == 3 and all(str(r.relative_to(project)) in made.stdout for r in reports
                                     if "test_pass" not in str(r))  # fmt: skip


def test_gates_are_skipped_unless_asked_for(project):
    made = outer(project)
    assert made.returncode == 0 and "4 skipped" in made.stdout


def test_the_plugin_is_found_by_its_entry_point():
    import tomllib

    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {"durometer": "durometer.plugins.pytest"}


def test_a_model_card_reads_as_yaml_with_the_interval_in_words():
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    (entry,) = yaml.safe_load(du.model_card(report, 'a: "b" # c').strip("-\n"))["model-index"]
    assert entry["name"] == 'a: "b" # c'
    metrics = {m["type"]: m for m in entry["results"][0]["metrics"]}
    assert metrics["robust_accuracy"]["value"] == pytest.approx(
        report.metric("robust").value, abs=1e-4
    )
    assert "95 % interval" in metrics["robust_accuracy"]["name"]


NET = """import torch
net = torch.nn.Linear(2, 2)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[1.0, 0], [-1.0, 0]]))
    net.bias.copy_(torch.tensor([-0.5, 0.5]))
def breaks(x):
    raise ValueError("out of order")
"""
GATE = """data.path = "d.npz"
model.python = "net.py:MODEL"
space = {type = "Linf", eps = 0.1}
attack = {type = "PGD", steps = 2}
[gate]
criteria = ["robust >= BOUND"]
"""


@pytest.fixture
def gated(tmp_path, monkeypatch):
    """A project with a gate: of its 300 rows 80 % are robust. `durometer` is this package's."""
    x = np.random.default_rng(0).random((300, 2)).astype(np.float32)
    x[:, 0] = np.where(np.arange(300) % 10 < 8, 0.8, 0.55)
    np.savez(tmp_path / "d.npz", x=x, y=np.zeros(300, int))
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "durometer"
    launcher.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m durometer \"$@\"\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tmp_path


def write_gate(project, bound, model="net"):
    text = GATE.replace("BOUND", str(bound)).replace("MODEL", model)
    (project / "gate.toml").write_text(text)


def played_action(project, **environment):
    """The script of the action's gate, as the runner calls it; what it wrote for the runner."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(s for s in action["runs"]["steps"] if s.get("id") == "gate")
    asked = {"FILE": "gate.toml", "OUT": "runs/gate", "GITHUB_STEP_SUMMARY": "summary",
             "GITHUB_OUTPUT": "output", **environment}  # fmt: skip
    assert {*step["env"]} == {"FILE", "OUT"}
    made = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=project, env=os.environ | asked, capture_output=True, text=True,
    )  # fmt: skip
    told = dict(line.split("=") for line in (project / "output").read_text().splitlines())
    summary = (project / "summary").read_text()
    (project / "output").unlink()
    (project / "summary").unlink()
    return made.returncode, told, summary


@pytest.mark.parametrize(
    ("bound", "model", "code", "outcome", "first"),
    [
        (0.5, "net", 0, "pass", "passed"),
        (0.95, "net", 1, "fail", "failed"),
        (0.79, "net", 2, "undecided", "undecided"),
        (0.5, "breaks", 3, "broken", "could not run"),
        (0.5, "gone", 3, "broken", "could not run"),
    ],
)
def test_the_action_tells_four_outcomes_apart(gated, bound, model, code, outcome, first):
    write_gate(gated, bound, model)
    returned, told, summary = played_action(gated)
    assert returned == code
    assert told == {"outcome": outcome, "exit-code": str(code)}
    assert first in summary.splitlines()[0]
    assert (gated / "runs/gate/gate.sarif").exists() and (gated / "runs/gate/gate.xml").exists()


def test_an_action_without_durometer_could_not_run(gated):
    write_gate(gated, 0.5)
    (gated / "bin" / "durometer").write_text("#!/bin/sh\nexit 127\n")
    returned, told, summary = played_action(gated)
    assert (returned, told["outcome"]) == (3, "broken")
    assert "could not run" in summary.splitlines()[0]


def test_the_action_keeps_what_it_wrote_whatever_came_of_it():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    last = action["runs"]["steps"][-1]
    assert last["uses"].startswith("actions/upload-artifact@")
    assert last["if"].startswith("always()")
    assert last["with"]["path"] == "${{ inputs.out }}"
    for said in action["outputs"].values():
        assert said["value"].startswith(("${{ steps.gate.outputs.", "${{ inputs.out }}"))


def test_the_hook_is_a_command_that_decides(gated):
    """What `pre-commit` reads and calls; tests/plugins/guests plays it with the real pre-commit."""
    import shlex

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    words = [*shlex.split(hook["entry"]), *hook["args"]]
    assert hook["language"] == "system" and not hook["pass_filenames"] and hook["always_run"]
    for bound, code in ((0.5, 0), (0.95, 1), (0.5, 0)):
        write_gate(gated, bound)
        assert subprocess.run(words, cwd=gated, capture_output=True).returncode == code


def test_a_folder_called_durometer_is_no_gate(tmp_path):
    """Keywords of a test hold the names of its folders: our own doctests were skipped by that."""
    (tmp_path / "durometer").mkdir()
    (tmp_path / "durometer" / "test_plain.py").write_text("def test_plain():\n    pass\n")
    made = outer(tmp_path)
    assert made.returncode == 0 and "1 passed" in made.stdout, made.stdout
