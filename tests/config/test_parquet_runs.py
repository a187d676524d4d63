"""A run file whose data are larger than memory: `[data] parquet = "folder"`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import durometer as du
from durometer.cli import app
from durometer.config.config import parse, read
from durometer.config.writing import to_toml
from durometer.core.records import FIELDS, TIMES

MODEL = """
import torch
net = torch.nn.Linear(3, 2).double().eval()
net.weight.data = torch.tensor([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.0]]).double()
net.bias.data.zero_()
calls = 0
class Breaks(torch.nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        if calls > 60:
            raise ZeroDivisionError("no more")
        return net(x)
"""
FILE = """
batch = 64
[data]
{data}
[model]
python = "m.py:net"
[space]
type = "Linf"
eps = 0.05
[attack]
type = "PGD"
steps = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """700 rows in two files below `d`, and the same in one table `d.csv`."""
    x = np.random.default_rng(0).random((700, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["paid"] = np.where(x[:, 0] > x[:, 1], "no", "yes")
    frame["branch"] = np.arange(700) % 7
    (tmp_path / "d").mkdir()
    frame[:450].to_parquet(tmp_path / "d" / "1.parquet", row_group_size=200, index=False)
    frame[450:].to_parquet(tmp_path / "d" / "2.parquet", row_group_size=200, index=False)
    frame.to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "m.py").write_text(MODEL)
    data = 'parquet = "d"\nlabel = "paid"\nextra = ["branch"]'
    (tmp_path / "big.toml").write_text(FILE.format(data=data))
    held = data.replace('parquet = "d"', 'path = "d.csv"')
    (tmp_path / "held.toml").write_text(FILE.format(data=held))
    return tmp_path


def durometer(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


def test_the_same_records_as_from_a_file_that_is_held(folder: Path) -> None:
    for name in ("big", "held"):
        said = durometer("run", folder / f"{name}.toml", "--out", folder / name)
        assert said.exit_code == 0, said.output
    big, held = du.Report.load(folder / "big"), du.Report.load(folder / "held")
    assert big.spec.classes == ("no", "yes") and big.spec.data == "d"
    for name in FIELDS:
        if name not in TIMES:
            np.testing.assert_array_equal(
                big.records.columns[name], held.records.columns[name], name
            )
    again = durometer(
        "run", folder / "big.toml", "--out", folder / "big", "--resume", "--workers", 2
    )
    assert again.exit_code == 0 and "700" in durometer("show", folder / "big").output


def test_a_run_on_files_can_be_verified(folder: Path) -> None:
    durometer("run", folder / "big.toml", "--out", folder / "run")
    said = durometer("verify", folder / "run", "--config", folder / "big.toml")
    assert said.exit_code == 0, said.output
    frame = pd.read_parquet(folder / "d" / "2.parquet")
    frame.loc[7, "a"] += 0.2
    frame.to_parquet(folder / "d" / "2.parquet", row_group_size=200, index=False)
    said = durometer("verify", folder / "run", "--config", folder / "big.toml")
    assert said.exit_code == 1 and "1 of 700 clean inputs are not the data's" in said.output


def test_a_breakdown_counts_all_rows_and_not_the_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durometer._evaluate.SHOWN", 100)
    file = folder / "breaks.toml"
    file.write_text((folder / "big.toml").read_text().replace("m.py:net", "m.py:Breaks"))
    said = durometer("run", file, "--out", folder / "run")
    told = re.search(r"(\d+) of 700 rows were finished", said.output)
    assert said.exit_code == 1 and told is not None, said.output
    loaded = du.Report.load(folder / "run")
    assert loaded.metric("clean").n == int(told[1]) > 100 == len(loaded.records)
    assert f"{told[1]} of 700" in str(loaded)


def test_a_goal_names_classes_of_all_files(folder: Path) -> None:
    base = (folder / "big.toml").read_text()
    (folder / "g.toml").write_text(base + '[goal]\ntype = "Targeted"\ntarget = "yes"\n')
    _, data = read(folder / "g.toml").load()
    assert isinstance(data, du.Parquet) and data.labels == ("no", "yes")
    read(folder / "g.toml").threat(data)
    (folder / "g.toml").write_text(base + '[goal]\ntype = "Targeted"\ntarget = "maybe"\n')
    with pytest.raises(du.DurometerError, match=r"\[goal\].*maybe"):
        read(folder / "g.toml").threat(data)


def test_what_is_read_is_written_again(folder: Path) -> None:
    config = read(folder / "big.toml")
    assert parse(to_toml(config), folder / "big.toml") == config


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('parquet = "e"', r"line 4 \[data\]: parquet = 'e': expected a Parquet file, or a folder"),
        ('parquet = "m.py"', "parquet = 'm.py': expected"),
        ('parquet = "empty"', "parquet = 'empty': expected"),
        ('parquet = "d"\npath = "d.csv"', "from a path or from parquet, not from both"),
        ('parquet = "d"\nrows = 5', "rows .*read part by part.*path"),
        ('parquet = "d"\nscale = 2', "scale .*read part by part"),
        ('parquet = "d"\nwhere = {branch = 1}', "where .*read part by part"),
        ('parquet = "d"\ntext = "paid"', "text"),
        ('name = "url"\nextra = ["a"]', "extra"),
    ],
)
def test_refused_before_opening(folder: Path, data: str, said: str) -> None:
    (folder / "empty").mkdir()
    (folder / "w.toml").write_text(FILE.format(data=data))
    with pytest.raises(du.DurometerError, match=said):
        read(folder / "w.toml")


def test_what_needs_all_rows_says_so(folder: Path) -> None:
    for words in (
        ["run", folder / "big.toml", "--rows", 10, "--out", folder / "r"],
        ["run", folder / "big.toml", "--until", 0.1, "--out", folder / "r"],
        ["gate", folder / "big.toml", "-c", "robust >= 0.5", "--out", folder / "r"],
        ["harden", folder / "big.toml"],
    ):
        said = durometer(*words)
        assert said.exit_code == (3 if words[0] == "gate" else 2), (words, said.output)
        assert "error:" in said.output and "rows" in said.output, (words, said.output)
    assert not (folder / "r").exists()


def test_columns_that_are_no_features_are_left_out(folder: Path) -> None:
    data = read(folder / "held.toml").load()[1]
    assert isinstance(data, du.Dataset) and data.x.shape == (700, 3)
    assert torch.is_tensor(data.x) and data.table is not None and "branch" in data.table
