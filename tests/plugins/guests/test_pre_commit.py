"""The hook in a sample project, by the real pre-commit (requirements/guests.sh pre-commit)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.heavy
pytest.importorskip("pre_commit", reason="requirements/guests.sh pre-commit", exc_type=ImportError)

ROOT = Path(__file__).parents[3]
NET = """import torch
net = torch.nn.Linear(2, 2)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[1.0, 0], [-1.0, 0]]))
    net.bias.copy_(torch.tensor([-0.5, 0.5]) * SCALE)
"""
GATE = """data.path = "d.npz"
model.python = "net.py:net"
space = {type = "Linf", eps = 0.1}
attack = {type = "PGD", steps = 2}
[gate]
criteria = ["robust >= 0.8"]
"""


def git(place: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *words], cwd=place, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_push_is_stopped_until_the_gate_passes(tmp_path: Path) -> None:
    hooks, project, bin_ = tmp_path / "hooks", tmp_path / "project", tmp_path / "bin"
    for place in (hooks, project, bin_):
        place.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)  # the repository, as far as it is read
    git(hooks, "init", "-q")
    git(hooks, "add", ".")
    git(hooks, "commit", "-qm", "hooks")
    x = np.random.default_rng(0).random((300, 2)).astype(np.float32)
    x[:, 0] = 0.58
    np.savez(project / "d.npz", x=x, y=np.zeros(300, int))
    (project / "gate.toml").write_text(GATE)
    (project / ".gitignore").write_text("runs/\n")  # pre-commit fails on a hook that changes files
    config = f"repos:\n- repo: {hooks}\n  rev: {git(hooks, 'rev-parse', 'HEAD')}\n"
    (project / ".pre-commit-config.yaml").write_text(config + "  hooks: [{id: durometer-gate}]\n")
    launcher = bin_ / "durometer"
    launcher.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m durometer \"$@\"\n")
    launcher.chmod(0o755)
    env = os.environ | {
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    git(project, "init", "-q")
    codes, said = [], ""
    for scale in ("1.0", "0.2"):  # every row is broken, then none
        (project / "net.py").write_text(NET.replace("SCALE", scale))
        git(project, "add", "-A")
        words = ["run", "--all-files", "--hook-stage", "pre-push"]
        done = subprocess.run([sys.executable, "-m", "pre_commit", *words], cwd=project, env=env,
                              capture_output=True, text=True)  # fmt: skip
        codes.append(done.returncode)
        said += done.stdout
    assert codes == [1, 0], said
    assert "exit code: 1" in said and "gate: failed" in said and "Passed" in said
