"""The pytest plugin: `pytest --durometer`, the marker `durometer` and the fixture `robust`.

    @pytest.mark.durometer
    def test_my_model_holds(robust):
        assert robust(model, data, space=du.Linf(8 / 255)) >= 0.8

Comparing is what plays: rows come in random order and stop as soon as the comparison is decided. A
bound that is not cleared fails the test, and so does one that cannot be decided; both say where the
report is. Without --durometer such tests are skipped, since they cost more than others.

What a reader would get wrong: the figure is only known against a bound. `robust(...) == 0.8` or a
number by itself is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "runs/pytest"
WHY = "a robustness gate: run with pytest --durometer"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--durometer and --durometer-out."""
    group = parser.getgroup("durometer", "robustness")
    group.addoption("--durometer", action="store_true", help="run the tests marked durometer")
    group.addoption("--durometer-out", default=FOLDER, help="folder of their reports")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "durometer: plays a robustness gate; run by pytest --durometer"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gates are played where they are asked for."""
    if config.getoption("--durometer"):
        return
    for item in items:
        if item.get_closest_marker("durometer") is not None:  # its keywords also hold folder names
            item.add_marker(pytest.mark.skip(reason=WHY))


@dataclass(frozen=True, eq=False)
class Asked:
    """A figure that is found when it is compared with a bound."""

    target: Any
    data: Any
    options: dict[str, Any]
    folder: Path
    figure: str = "robust"

    def __ge__(self, bound: float) -> bool:
        return self._clears(f"{self.figure} >= {bound:g}")

    def __le__(self, bound: float) -> bool:
        return self._clears(f"{self.figure} <= {bound:g}")

    def __eq__(self, other: object) -> bool:
        raise TypeError("a figure is known up to an interval: compare it with >= or <=")

    def __bool__(self) -> bool:
        raise TypeError("a figure is no test: compare it with a bound, e.g. robust(...) >= 0.8")

    __gt__ = __lt__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def _clears(self, criterion: str) -> bool:
        from durometer._gate import gate
        from durometer.run.job import Job
        from durometer.run.run import Run

        options = dict(self.options)
        progress = options.pop("progress", False)
        job = Job(self.target, self.data, **options)
        outcome = gate(job, criterion, run=Run(self.folder, force=True), progress=progress)
        assert outcome.report is not None
        outcome.report.save(self.folder)
        if not outcome:
            pytest.fail(f"{outcome}\nreport: {self.folder / 'report.html'}", pytrace=False)
        return True


@pytest.fixture
def robust(request: pytest.FixtureRequest) -> Callable[..., Asked]:
    """`robust(model, data, space=...) >= 0.8`: passes, or fails saying why and where."""
    if not request.config.getoption("--durometer"):
        pytest.skip(WHY)
    count = 0

    def ask(target: Any, data: Any, figure: str = "robust", **options: Any) -> Asked:
        nonlocal count
        count += 1
        name = re.sub(r"[^\w.-]+", "-", request.node.nodeid).strip("-")
        out = Path(request.config.getoption("--durometer-out"))
        return Asked(target, data, options, out / f"{name}-{count}", figure)

    return ask
