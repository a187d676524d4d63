"""Runs to be tampered with: a finished one, its shards, one that is half done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from durometer.cli.app import app

MODEL = """
import torch
net = torch.nn.Linear(4, 3)
with torch.no_grad():
    net.weight.copy_(torch.eye(4)[:3] * 5)
    net.bias.zero_()
"""
CONFIG = """\
batch = 8
also = [{type = "Targeted", target = 1}]
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


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, its two shards and a run that is half done, beside model and data."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    x = rng.random((24, 4)).astype(np.float32) * 0.5
    x[np.arange(24), y] += np.linspace(0, 0.5, 24, dtype=np.float32)
    np.savez(folder / "d.npz", x=x, y=y)
    (folder / "net.py").write_text(MODEL)
    (folder / "run.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shares = (("whole",), ("part1", "--shard", "1/2"), ("part2", "--shard", "2/2"))
        for name, *share in shares:
            words = ["run", "run.toml", "-q", "--out", f"runs/{name}", *share]
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
    shutil.copytree(folder / "runs/part1", folder / "runs/half")
    (folder / "runs/half/records.parquet").unlink()
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of them, which the test may change."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    yield tmp_path / "copy" / "runs"
