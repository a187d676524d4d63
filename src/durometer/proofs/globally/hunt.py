"""What every search of pairs is asked for, and what it comes to, whatever the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from durometer.kernels.arrays import Bools, Floats, Ints

Judge = Callable[[Floats, Floats], float | None]  # the value of a pair, None where it is none
Counts = Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Costs:
    """Minimise the largest of several costs, each base + what terms of x and of x' add."""

    first: Floats  # (terms, costs)
    second: Floats
    base: Floats  # (costs,)


@dataclass(frozen=True, eq=False)
class Hunt:
    """What the runs of one question came to; `high` is in the units of the sums."""

    pair: tuple[Floats, Floats] | None
    low: float | None
    high: float
    closed: bool  # every box was closed
    nodes: int
    seconds: float


class Search(Protocol):
    """A way to look through all pairs."""

    @property
    def weights(self) -> Floats:
        """(terms, outputs) what each term adds to each score."""

    def hunt(
        self, costs: list[Costs], stop: float, judge: Judge, counts: Counts,
        known: Hunt | None = None,
    ) -> Hunt:  # fmt: skip
        """Search until a pair counts, or every pair is excluded, or the time is over."""


class Reading(Protocol):
    """A model as scores of records: with one output the class is 1 above `cut`."""

    @property
    def source(self) -> str: ...

    @property
    def classes(self) -> Any: ...

    @property
    def outputs(self) -> int: ...

    @property
    def n_classes(self) -> int: ...

    @property
    def base(self) -> Floats: ...

    @property
    def cut(self) -> float: ...

    @property
    def missing(self) -> bool: ...

    @property
    def never_missing(self) -> tuple[int, ...]: ...

    def scores(self, x: Floats) -> Floats:
        """(n, outputs)."""

    def decide(self, x: Floats) -> Ints:
        """(n,) the class."""

    def near_tie(self, x: Floats) -> Bools:
        """(n,) is the class a matter of rounding?"""

    def slack(self) -> float:
        """What rounding may add to a difference of two scores."""
