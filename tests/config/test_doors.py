"""A package of somebody else: registered by entry points or named in full, and used like ours."""

import sys

import pytest

import durometer as du
from durometer.config.config import parse
from durometer.config.registry import names

MODULE = '''
from dataclasses import dataclass
import torch
import durometer as du
from durometer.extend import Goal, Needs, Problem, Splits


@dataclass(frozen=True)
class Corner:
    """The corners of the region, drawn at random."""

    tries: int = 4

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.tries):
            rows = problem.open
            if not len(rows):
                return
            region = problem.region(rows)
            sign = problem.random.sign(rows, region.origin.shape[1], region.origin.dtype)
            problem.submit(rows, region.project(region.origin + region.eps * sign))


@dataclass(frozen=True)
class NextClass(Goal):
    """The class after the true one."""

    def targets(self, y, clean, index, names=None):
        n = clean.shape[1]
        return torch.nn.functional.one_hot((y + 1) % n, n).bool()


def squares() -> Splits:
    """Points of the unit square, by the side they lie on."""
    x = torch.linspace(0.01, 0.99, 40, dtype=torch.float64).reshape(20, 2)
    data = du.Dataset(x, (x[:, 0] > 0.5).long(), name="squares")
    return Splits(data, data)


def net():
    return lambda x: torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], dim=1)
'''
TOML = """
data.name = "squares"
model.python = "MODULE:net"
space = {type = "Linf", eps = 0.1}
goal = {type = "NextClass"}
attack = {type = "ATTACK", tries = 2}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "corners.py").write_text(MODULE)
    info = tmp_path / "corners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: corners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[durometer.attacks]\nCorner = corners:Corner\n"
        "[durometer.goals]\nNextClass = corners:NextClass\n"
        "[durometer.datasets]\nsquares = corners:squares\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    names.cache_clear()
    yield tmp_path
    names.cache_clear()
    sys.modules.pop("corners", None)


@pytest.mark.parametrize("attack", ["Corner", "corners:Corner", "corners.py:Corner"])
def test_a_package_is_used_from_a_file(package, attack):
    text = TOML.replace("ATTACK", attack).replace("MODULE", "corners.py")
    config = parse(text, package / "run.toml")
    assert repr(config.attack) == "Corner(tries=2)"
    report = config.play(progress=False)
    assert report.spec.attacks == ("corners:Corner",)
    assert 0 < report.table["success"].sum() < len(report.table)


@pytest.mark.parametrize(
    ("name", "said"),
    [("corners:Korner", "did you mean 'Corner'"), ("corners:net", "is no attack"),
     ("nowhere:Corner", "cannot be imported")],
)  # fmt: skip
def test_what_is_not_there_is_said(package, name, said):
    with pytest.raises(du.DurometerError, match=said):
        parse(TOML.replace("ATTACK", name).replace("MODULE", "corners.py"), package / "run.toml")


def test_what_cannot_be_made_is_not_listed():
    assert not {"Order", "Joint", "Noise", "fit"} & {*names("orders"), *names("noises")}
