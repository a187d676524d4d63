"""durometer inside other tools, tried for real: pytest in a process of its own, the action's
steps."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_the_action_s_steps_run_as_a_script(tmp_path):
    """Each step's script with its inputs, as the runner calls it; red, then green."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(s for s in action["runs"]["steps"] if s.get("id") == "gate")
    (tmp_path / "d.py").write_text(
        "import numpy as np\nx = np.random.default_rng(0).random((300, 2)).astype('float32')\n"
        "x[:, 0] = 0.58\nnp.savez('d.npz', x=x, y=np.zeros(300, int))\n"
    )
    subprocess.run([sys.executable, "d.py"], cwd=tmp_path, check=True)
    (tmp_path / "run.toml").write_text(
        'data.path = "d.npz"\nmodel.python = "net.py:net"\nspace = {type = "Linf", eps = 0.1}\n'
        'attack = {type = "PGD", steps = 2}\n[gate]\ncriteria = ["robust >= 0.8"]\n'
    )
    net = ("import torch\nnet = torch.nn.Linear(2, 2)\nwith torch.no_grad():\n"
           "    net.weight.copy_(torch.tensor([[1.0, 0], [-1.0, 0]]))\n"
           "    net.bias.copy_(torch.tensor([-0.5, 0.5]) * SCALE)\n")  # fmt: skip
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "durometer"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m durometer "$@"\n')
    launcher.chmod(0o755)
    env = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"),
        "FILE": "run.toml", "OUT": "runs/gate", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    codes = []
    for scale in ("1.0", "0.2"):
        (tmp_path / "net.py").write_text(net.replace("SCALE", scale))
        made = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=env,
                              capture_output=True, text=True)  # fmt: skip
        codes.append(made.returncode)
    assert codes == [1, 0], made.stdout + made.stderr
    assert "fail" in (tmp_path / "summary").read_text()
    assert "outcome=fail" in (tmp_path / "output").read_text()
    assert (tmp_path / "runs/gate/gate.sarif").exists()


def test_a_folder_called_durometer_is_no_gate(tmp_path):
    """Keywords of a test hold the names of its folders: our own doctests were skipped by that."""
    (tmp_path / "durometer").mkdir()
    (tmp_path / "durometer" / "test_plain.py").write_text("def test_plain():\n    pass\n")
    made = outer(tmp_path)
    assert made.returncode == 0 and "1 passed" in made.stdout, made.stdout
