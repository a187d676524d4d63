"""Mirror: search in tables through copies of the victim, fitted to its answers.

Every answer that is known goes into a pool: those of the rows themselves, of the donors, and of
every record asked. In each round

    1. a committee of copies is fitted to the pool: boosted trees, each split of a few features
    2. for each open row an evolution climbs the copies' log odds of the goal inside its region;
       every child is projected, decoded and valid, or it ranks last
    3. the best records that were never asked, and that are not much like one another, are asked of
       the victim: 5, 5, 10, 10, 20, ... of a row; a hit closes the row, every answer joins the pool

so that the copies are wrong where the search goes only once. Of a victim that gives scores the
copies learn the scores.

What a reader would get wrong: rows learn from each other's answers, `GROUP` of them together.
Which rows these are is part of the plan (`Needs.shares_answers`): their places in the data say so,
not the batch, the workers, or what is left after a kill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.streams import derive
from durometer.core.validation import noun
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.answers import ANY
from durometer.problem.needs import GROUP, Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import Region
from durometer.tables.region import TableRegion
from durometer.trees.ensemble import Ensemble

Copies = Callable[[Floats], Floats]  # records (n, d) -> logits (n, C)

_ROUNDS = (5, 5, 10, 10, 20, 20, 30, 50, 50, 100)  # records asked of a row; the last one repeats
_POPULATION, _GENERATIONS = 30, 20
_BROKEN = 1e6  # taken off what breaks a relation
_FLOOR = 1e-9  # the least probability of a class that a copy has not seen
_COPIES = 3
_LEARNT = 50_000  # records of the pool that one copy is fitted to, at most
_STEEP = 15.0  # log odds: more says nothing of where the boundary is
_APART = 2.0  # in log odds: what twice as many other features are worth among records to ask


@noun
class Mirror:
    """Search through copies of the model fitted to its answers, labels or scores; for tables and
    any Lp ball.

    Args:
        queries: Questions asked about one row, at most. 300 is the default of `Standard`. Up to 256
            rows of the data are asked once more, for all rows to learn from.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.3), attack=du.Mirror(40))
    >>> report.metric("robust").value < 0.5
    True
    """

    queries: int = 300
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs(ANY, donors=True, shares_answers=True)

    def __call__(self, problem: Problem) -> None:
        for begin in range(0, len(problem.y), GROUP):
            group = torch.arange(begin, min(begin + GROUP, len(problem.y)))
            self._run(problem, group)

    def _run(self, problem: Problem, group: Tensor) -> None:
        pool = _Pool(problem, group)
        kept: Tensor | None = None  # (g, P, D) changes that the copies liked best, of all rows
        for turn, wanted in enumerate(_rounds(self.queries)):
            mine = problem.alive(group).nonzero()[:, 0]
            if not len(mine):
                return
            rows = group[mine]
            copies = pool.copies(derive(problem.random.seed, "mirror", turn))
            start = None if kept is None else kept[mine]
            change, value = _climb(problem, rows, copies, start)
            if kept is None:
                kept = change.new_zeros(len(group), *change.shape[1:])
            kept[mine] = change
            pool.ask(problem, rows, change, value, wanted)


def _rounds(queries: int) -> Iterator[int]:
    """How many records are asked of a row in each round."""
    turn = 0
    while queries > 0:
        now = min(queries, _ROUNDS[min(turn, len(_ROUNDS) - 1)])
        yield now
        queries, turn = queries - now, turn + 1


class _Pool:
    """Records and the victim's answers, and which records were asked of which row."""

    def __init__(self, problem: Problem, group: Tensor) -> None:
        self.classes = problem.clean.shape[1]
        self.scores = problem.model.answers != "labels"
        self.x: list[Floats] = [_flat(problem.inputs(group))]
        self.y: list[Floats] = [self._read(problem.clean[group])]
        if problem.donors is not None:
            self.x.append(_flat(problem.donors.x))
            self.y.append(self._read(problem.donors.logits))
        self.asked = np.empty(0, dtype=np.uint64)

    def _read(self, logits: Tensor) -> Floats:
        """What the copies learn of answers (n, C): (n,) labels, or (n, k) scores."""
        if not self.scores:
            return logits.argmax(1).double().numpy()
        found = logits.detach().double()
        if self.classes == 2:
            found = found[:, 1:] - found[:, :1]
        else:
            found = found - found.mean(1, keepdim=True)
        return np.asarray(found.clamp(-_STEEP, _STEEP).numpy())

    def copies(self, seed: int) -> Copies:
        """A function of records (n, d): logits (n, C), the mean of a committee's."""
        from threadpoolctl import threadpool_limits

        x, y = np.concatenate(self.x), np.concatenate(self.y)
        if len(np.unique(y, axis=0)) < 2:  # nothing to learn yet: all records are alike
            return lambda z: np.zeros((len(z), self.classes))
        members = []
        with threadpool_limits(1):  # the batches are small: more threads wait for one another
            for k in range(_COPIES):
                draw = np.random.default_rng(derive(seed, "copy", k))
                at = draw.permutation(len(x))[:_LEARNT]
                learn = self._of_scores if self.scores else self._of_labels
                members.append(learn(x[at], y[at], int(draw.integers(2**31))))
        return lambda z: np.asarray(sum(member(z) for member in members) / len(members))

    def _of_labels(self, x: Floats, y: Floats, seed: int) -> Copies:
        from sklearn.ensemble import HistGradientBoostingClassifier

        from durometer.trees.readers.sklearn import read

        seen = np.unique(y).astype(np.int64)
        trees = read(HistGradientBoostingClassifier(**_fitted(seed)).fit(x, y))

        def logits(z: Floats) -> Floats:
            out = np.full((len(z), self.classes), math.log(_FLOOR))
            odds = trees.scores(z).clip(-_STEEP, _STEEP)
            out[:, seen] = np.concatenate([-odds / 2, odds / 2], 1) if len(seen) == 2 else odds
            return out

        return logits

    def _of_scores(self, x: Floats, y: Floats, seed: int) -> Copies:
        from sklearn.ensemble import HistGradientBoostingRegressor

        from durometer.trees.readers.sklearn import read_regressor

        trees: list[Ensemble] = [
            read_regressor(HistGradientBoostingRegressor(**_fitted(seed)).fit(x, y[:, c]))
            for c in range(y.shape[1])
        ]

        def logits(z: Floats) -> Floats:
            out = np.concatenate([t.scores(z) for t in trees], 1)
            return np.concatenate([-out / 2, out / 2], 1) if self.classes == 2 else out

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
        fine &= _first(key)  # the best of equals: changes come best first
        row, place = _spread(change, value.numpy(), fine, wanted)
        if not len(row):
            return
        chosen = torch.from_numpy(row * size + place)
        answers = problem.query(at[chosen], x[chosen])
        known = answers.isfinite().all(1)
        self.asked = np.concatenate([self.asked, key[row, place]])
        self.x.append(_flat(x[chosen[known]]))
        self.y.append(self._read(answers[known]))


def _fitted(seed: int) -> dict[str, Any]:
    """The settings of a copy, for scikit-learn."""
    return {
        "max_iter": 100, "max_depth": 4, "min_samples_leaf": 2, "early_stopping": False,
        "learning_rate": 0.1, "max_features": 0.3, "random_state": seed,
    }  # fmt: skip


def _spread(change: Tensor, value: Floats, fine: Bools, wanted: int) -> tuple[Ints, Ints]:
    """Rows and places of up to `wanted` changes of each row (n, P, D), one after the other: that of
    the highest value, where being unlike those that are chosen is worth something too."""
    largest = change.abs().amax((1, 2), keepdim=True).clamp_min(1e-12)
    coarse = (change / largest * 4).round().to(torch.int8)
    every, worth = np.arange(len(fine)), np.where(fine, value, -np.inf)
    apart = np.full(fine.shape, float(change.shape[2]))
    rows, places = [], []
    for _ in range(min(wanted, fine.shape[1])):
        best = (worth + _APART * np.log(np.maximum(apart, 0.01))).argmax(1)
        some = every[np.isfinite(worth[every, best])]
        if not len(some):
            break
        rows.append(some)
        places.append(best[some])
        worth[every, best] = -np.inf
        other = (coarse != coarse[torch.arange(len(best)), torch.from_numpy(best)][:, None]).sum(2)
        apart = np.minimum(apart, other.numpy())
    if not rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(rows), np.concatenate(places)


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
    problem: Problem, rows: Tensor, copies: Copies, start: Tensor | None
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
    copies: Copies

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
