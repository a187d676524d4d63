"""A defence and its game from a file, the library's own or somebody else's."""

import pytest

import durometer as du
from durometer.config.config import parse
from durometer.config.registry import names
from durometer.config.writing import to_toml

NET = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
"""
TOML = """
[data]
path = "rows.npz"
[model]
python = "net.py:net"
[space]
type = "Linf"
eps = 0.1
[attack]
type = "FPA"
inner = {type = "PGD", steps = 2}
iterations = 1
[defense]
type = "TENT"
steps = 1
[game]
batch = 16
"""


@pytest.fixture
def folder(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.random((32, 4)).astype("float32")
    np.savez(tmp_path / "rows.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


def test_a_defence_is_played_from_a_file(folder):
    config = parse(TOML, folder / "run.toml")
    game, data = config.load()
    assert isinstance(game, du.Transductive) and game.batch == 16
    assert isinstance(game.defender, du.defenses.TENT)
    space = config.threat(data).space
    report = du.evaluate(game, data, space=space, attack=config.attack, progress=False)
    assert len(report.table) == 32
    assert parse(to_toml(config), folder / "run.toml").defense == config.defense


def test_what_does_not_fit_is_said(folder):
    with pytest.raises(du.DurometerError, match=r"\[defense\].*no parameter 'stepps'.*'steps'"):
        parse(TOML.replace("steps = 1\n[game]", "stepps = 1\n[game]"), folder / "run.toml")
    with pytest.raises(du.DurometerError, match=r"add a table \[defense\]"):
        parse(TOML.replace('[defense]\ntype = "TENT"\nsteps = 1\n', ""), folder / "run.toml").load()


def test_they_are_listed():
    assert {"TENT", "DENT", "RMC"} <= set(names("defenses"))
    assert {"Transductive", "Nature"} <= set(names("games"))
