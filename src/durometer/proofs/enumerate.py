"""Enumerate: where a row has few valid points, ask the model about every one of them.

No search and no bound: what is found is broken, and a row all of whose points were asked without
success is proven, for any model at all. A region that can be listed says how many points a row has
(`sizes`) and lists them (`points`); rows with more than `most` are left open.

What a reader would get wrong: "no success" is not yet a proof. A point within the model's own
rounding of a tie may be a success tomorrow, so a row with such a point stays open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.goals.goal import gap
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.region import Region

BLOCK = 8192  # points asked at a time


@runtime_checkable
class Listed(Region, Protocol):
    """A region whose points can be counted and listed."""

    def sizes(self) -> Tensor:
        """(n,) float64: how many points each row has."""
        ...

    def points(self, row: int) -> Tensor:
        """(m, ...): all points of one row that are worth asking; each valid one is among them."""
        ...


@noun
class Enumerate:
    """Asks the model about every valid point of a row: rows are proven or broken, for any model.

    It works where points can be listed: in tables of discrete features, `Text` and `Symbols`
    spaces. Rows with too many points stay open.

    Args:
        most: Largest number of points of a row that is listed.

    Raises:
        DurometerError: `most` is below 1.

    >>> import torch
    >>> import durometer as du
    >>> likes = lambda texts: torch.tensor([[float("good" in t), 0.5] for t in texts])
    >>> film = du.wrap(likes, inputs="text")
    >>> data = du.Dataset(["a good film", "such a good and good film"], [0, 0])
    >>> space = du.Text(du.Synonyms({"good": ("fine",)}), most=0.3)
    >>> report = du.evaluate(film, data, space=space, attack=du.Enumerate())
    >>> report.table["verdict"].tolist()
    ['broken', 'proven']
    """

    most: int = 100_000
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs(ANY, is_proof=True)

    def __call__(self, problem: Problem) -> None:
        problem = replace(problem, stand_in=None)  # its own answers are the proof
        rows = problem.undecided
        region = problem.region(rows)
        if not isinstance(region, Listed):
            raise Unsupported(
                f"{self!r} lists the points of a space, which {type(region).__name__} cannot; "
                "it works in tables and du.Text spaces"
            )
        few = (region.sizes() <= self.most).nonzero()[:, 0]
        for part, place, x in _blocks(region, few[region.sizes()[few].argsort()]):
            self._ask(problem, rows[part], rows[part][place], x)

    def _ask(self, problem: Problem, rows: Tensor, of: Tensor, x: Tensor) -> None:
        """Ask about all points x of the rows (`of` says whose each is), then prove."""
        near = torch.zeros(int(rows.max()) + 1, dtype=torch.bool)
        for start in range(0, len(x), BLOCK):
            now = of[start : start + BLOCK]
            some = x[start : start + BLOCK]
            valid = problem.region(now).contains(some)
            now, some = now[valid], some[valid]
            if not len(now):
                continue
            logits = problem.query(now, some)
            lead = gap(logits, problem.goal[now])
            slack = problem.model.slack * logits.abs().amax(1).clamp_min(1.0)
            # A NaN was not asked. A model without rounding of its own decides its ties itself.
            close = ~(lead < -slack) if problem.model.slack else lead.isnan()
            near[now[close]] = True
        left = rows[~problem.solved[rows]]
        left = left[~near[left]]
        region = problem.region(left)
        fixed = region.fixed if isinstance(region, SubstitutionRegion) else None
        problem.prove(left, fixed, passes=0)  # its queries are counted


def _blocks(region: Listed, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some rows, then for each of their points whose it is (a place among them), and the points."""
    part: list[int] = []
    held: list[Tensor] = []
    for row in rows.tolist():
        part.append(row)
        held.append(region.points(row))
        if sum(map(len, held)) >= BLOCK:
            yield _joined(part, held)
            part, held = [], []
    if part:
        yield _joined(part, held)


def _joined(part: list[int], held: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    counts = torch.tensor([len(x) for x in held])
    place = torch.arange(len(part)).repeat_interleave(counts)
    return torch.tensor(part), place, torch.cat(held)
