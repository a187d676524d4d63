"""Mirror: search by labels in tables, through copies of the victim fitted to its labels.

Every label that is known goes into a pool: those of the rows themselves, of the donors, and of
every record asked. In each round

    1. a committee of copies is fitted to the pool: boosted trees, and extremely randomised ones
    2. for each open row an evolution climbs the copies' log odds of the goal inside its region;
       every child is projected, decoded and valid, or it ranks last
    3. the best records that were never asked are asked of the victim: 5, 5, 10, 10, 20, ... of a
       row; a hit closes the row, and every answer joins the pool

so that the copies are wrong where the search goes only once.

What a reader would get wrong: the rows of a batch share the copies, so that a row's fate depends
on the batch it is played in (`Needs.shares_answers`). Batches are part of a run's plan: workers,
shards and a run that goes on after a kill play the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.streams import derive
from durometer.core.validation import noun
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import Region
from durometer.tables.region import TableRegion

_ROUNDS = (5, 5, 10, 10, 20, 20, 30, 50, 50, 100)  # records asked of a row; the last one repeats
_POPULATION, _GENERATIONS = 30, 20
_BROKEN = 1e6  # taken off what breaks a relation
_FLOOR = 1e-9  # the least probability of a class that a copy has not seen


@noun
class Mirror:
    """Search that sees labels only, through copies of the model; for tables and any Lp ball.

    Args:
        queries: Labels asked for one row, at most. 300 is the default of `Standard`. Donors (up to
            256 rows of the data) are asked once for all rows.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.3), attack=du.Mirror(40))
    >>> report.metric("robust").value < 0.5
    True
    """

    queries: int = 300
    on_host: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs(ANY, donors=True, shares_answers=True)

    def __call__(self, problem: Problem) -> None:
        pool = _Pool(problem)
        kept: Tensor | None = None  # (N, P, D) changes that the copies liked best, of all rows
        for turn, wanted in enumerate(_rounds(self.queries)):
            rows = problem.open
            if not len(rows):
                return
            copies = pool.copies(derive(problem.random.seed, "mirror", turn))
            start = None if kept is None else kept[rows]
            change, value = _climb(problem, rows, copies, start)
            if kept is None:
                kept = change.new_zeros(len(problem.y), *change.shape[1:])
            kept[rows] = change
            pool.ask(problem, rows, change, value, wanted)


def _rounds(queries: int) -> Iterator[int]:
    """How many records are asked of a row in each round."""
    turn = 0
    while queries > 0:
        now = min(queries, _ROUNDS[min(turn, len(_ROUNDS) - 1)])
        yield now
        queries, turn = queries - now, turn + 1


class _Pool:
    """Records and the victim's labels, and which records were asked of which row."""

    def __init__(self, problem: Problem) -> None:
        start = problem.kept(torch.arange(len(problem.y)))
        self.classes = problem.clean.shape[1]
        self.x: list[Floats] = [_flat(start)]
        self.y: list[Ints] = [problem.clean.argmax(1).numpy()]
        if problem.donors is not None:
            self.x.append(_flat(problem.donors.x))
            self.y.append(problem.donors.label.numpy())
        self.asked = np.empty(0, dtype=np.uint64)

    def copies(self, seed: int) -> Any:
        """A function of records (n, d): logits (n, C), the mean of a committee's."""
        from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

        x, y = np.concatenate(self.x), np.concatenate(self.y)
        seen = np.unique(y)
        if len(seen) < 2:  # nothing to learn yet: all records are alike
            return lambda z: np.zeros((len(z), self.classes))
        seed %= 2**31
        members = [
            HistGradientBoostingClassifier(
                max_iter=100, max_depth=6, min_samples_leaf=2, early_stopping=False,
                learning_rate=0.2, random_state=seed,
            ),
            ExtraTreesClassifier(50, min_samples_leaf=2, n_jobs=1, random_state=seed),
        ]  # fmt: skip
        for member in members:
            member.fit(x, y)

        def logits(z: Floats) -> Floats:
            out = np.zeros((len(z), self.classes))
            for member in members:
                p = np.full((len(z), self.classes), _FLOOR)
                p[:, seen] = member.predict_proba(z)
                out += np.log(np.maximum(p, _FLOOR))
            return np.asarray(out / len(members))

        return logits

    def ask(
        self, problem: Problem, rows: Tensor, change: Tensor, value: Tensor, wanted: int
    ) -> None:
        """Ask the victim about the best records of each row that are valid and new."""
        n, size, _ = change.shape
        at = rows.repeat_interleave(size)
        region = problem.regions.take(at)
        x = region.decode(region.origin + change.flatten(0, 1))
        fine = region.contains(x).numpy()
        key = _keys(_flat(x), at.numpy()).reshape(n, size)
        fine = (fine & ~np.isin(key.ravel(), self.asked)).reshape(n, size)
        order = np.argsort(-value.numpy(), axis=1, kind="stable")
        fine, key = np.take_along_axis(fine, order, 1), np.take_along_axis(key, order, 1)
        fine &= _first(key)
        fine &= np.cumsum(fine, axis=1) <= wanted
        row, place = np.nonzero(fine)
        if not len(row):
            return
        chosen = torch.from_numpy(row * size + order[row, place])
        answers = problem.query(at[chosen], x[chosen])
        known = answers.isfinite().all(1)
        self.asked = np.concatenate([self.asked, key[row, place]])
        self.x.append(_flat(x[chosen[known]]))
        self.y.append(answers[known].argmax(1).numpy())


def _flat(x: Tensor) -> Floats:
    return np.asarray(x.detach().flatten(1).double().numpy())


def _keys(x: Floats, row: Ints) -> Any:
    """A number for each record of each row: a hash, of which two agree only by accident."""
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)
    odd = (
        np.arange(1, x.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ) | np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = (bits ^ (bits >> np.uint64(29))) * odd
        total = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64)
        return (total + row.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)


def _first(key: Any) -> Bools:
    """(n, P): which of a row's keys do not stand further to the left already."""
    order = np.argsort(key, axis=1, kind="stable")
    ordered = np.take_along_axis(key, order, 1)
    new = np.ones_like(key, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    found = np.empty_like(new)
    np.put_along_axis(found, order, new, 1)
    return found


def _climb(
    problem: Problem, rows: Tensor, copies: Any, start: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(n, P, D) changes of each row and the copies' log odds (n, P), best first."""
    region = problem.region(rows)
    look = _Look(problem, rows, region, copies)
    first = look.drawn(2 * _POPULATION)
    if start is not None:
        first = torch.cat([start, first], dim=1)
    change, value = look(first)
    for _ in range(_GENERATIONS):
        child, found = look(look.children(change))
        change, value = torch.cat([change, child], dim=1), torch.cat([value, found], dim=1)
        order = value.argsort(dim=1, descending=True, stable=True)[:, : 4 * _POPULATION]
        change, value = _taken(change, order), value.gather(1, order)
    return change, value


def _taken(change: Tensor, order: Tensor) -> Tensor:
    return change.gather(1, order[..., None].expand(-1, -1, change.shape[2]))


@dataclass(eq=False)
class _Look:
    """The evolution of changes (n, k, D) of these rows, judged by the copies."""

    problem: Problem
    rows: Tensor
    region: Region
    copies: Any

    def __call__(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Changes as they are after projection and decoding, and what the copies say of them."""
        n, k, size = change.shape
        at = torch.arange(n).repeat_interleave(k)
        part = self.region.take(at)
        z = part.project(part.origin + change.flatten(0, 1))
        x = part.decode(z)
        logits = self.copies(_flat(x))
        goal = self.problem.goal[self.rows].numpy()[at.numpy()]
        odds = np.where(goal, logits, -np.inf).max(1) - np.where(goal, -np.inf, logits).max(1)
        value = torch.from_numpy(odds)
        if part.constrained:
            value = value - _BROKEN * (part.penalty(z) > 0)
        moved = part.encode(x) - part.origin
        return moved.reshape(n, k, size), value.reshape(n, k)

    def _uniform(self, *shape: int) -> Tensor:
        origin = self.region.origin
        drawn = self.problem.random.uniform(self.rows, math.prod(shape), origin.dtype)
        return drawn.reshape(len(self.rows), *shape)

    @property
    def _reach(self) -> float:
        return self.region.eps if self.region.p > 0 else 1.0

    def drawn(self, count: int) -> Tensor:
        """Random changes: some features, each to an end of its reach (Linf) or part of the way."""
        size = self.region.origin.shape[1]
        some = self._uniform(count, size) < self._uniform(count, 1)
        way = self._reach * (self._uniform(count, size) - 0.5).sign()
        if self.region.p != math.inf:
            way = way * self._uniform(count, 1)
        return self._recoded(torch.where(some, way, 0.0))

    def children(self, change: Tensor) -> Tensor:
        """Crossed or added parents, with some features redrawn and some undone."""
        size, k = change.shape[2], _POPULATION
        way = self._uniform(k, 5)
        a, b = (
            _taken(change, (u * change.shape[1]).long()) for u in (way[..., 0] ** 2, way[..., 1])
        )
        crossed = torch.where(self._uniform(k, size) < way[..., 3:4], a, b)
        child = torch.where(way[..., 2:3] < 0.5, crossed, a + (way[..., 3:4] < 0.5) * b)
        fate, step = self._uniform(k, size), 2 * self._uniform(k, size) - 1
        step = torch.where(way[..., 4:5] < 0.6, step.sign(), step)
        rate = 3 / max(10, size)
        child = torch.where(fate < rate, self._reach * step, child)
        return self._recoded(torch.where(fate > 1 - 2 * rate, 0.0, child))

    def _recoded(self, change: Tensor) -> Tensor:
        """Now and then another value of a category: one of its coordinates alone moves nothing."""
        origin = self.region.origin
        for places in self.region.blocks if isinstance(self.region, TableRegion) else ():
            u = self._uniform(change.shape[1], 2)
            hot = torch.nn.functional.one_hot((u[..., 0] * len(places)).long(), len(places))
            on = hot.to(change.dtype) * origin[:, places].amax(1)[:, None, None]
            other = on - origin[:, None, places]
            change[..., places] = torch.where(u[..., 1:] < 0.1, other, change[..., places])
        return change
