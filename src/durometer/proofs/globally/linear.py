"""Linear models, exactly: box by box in closed form, and by a mixed-integer program with the rules.

Without `near` there is one box, the whole table; near records there is one around each. Boxes are
looked at by how low the closed form says the costs fall there; one whose bound is no better than a
pair that was found is closed.

What a reader would get wrong: rules that are not linear are left out of the program, so its point
may break them. Then points are looked for that surely keep the others, then among drawn records;
what is handed back passes the schema itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.globally.additive import Additive
from durometer.proofs.globally.boxes import LOOSE, TIGHT, Box, Pairs, Sum
from durometer.proofs.globally.hunt import Costs, Counts, Hunt, Judge
from durometer.proofs.globally.kernel import NEVER
from durometer.proofs.globally.points import Near, valid

_TRIED = 30  # of the drawn pairs, the best

Draw = Callable[[], tuple[Floats, Floats]]  # some valid pairs
Pair = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class LinearSearch:
    """Pairs of records for sums of single features."""

    reading: Additive
    pairs: Pairs
    box: Box
    near: Near | None
    draw: Draw
    seconds: float
    gap: float

    @property
    def weights(self) -> Floats:
        """(terms, outputs) what each term adds to each score."""
        return self.reading.weights

    def hunt(
        self, costs: list[Costs], stop: float, judge: Judge, counts: Counts,
        known: Hunt | None = None,
    ) -> Hunt:  # fmt: skip
        """Search until a pair counts, or every box is closed, or the time is over."""
        deciding = stop > NEVER
        pair, low = (None, None) if known is None else (known.pair, known.low)
        high, closed, nodes, begin = -np.inf, True, 0, time.process_time()
        for c in costs:
            one = _One(self, c, deciding, judge, counts, begin + self.seconds)
            found, least = one.run(stop, low)
            nodes += one.nodes
            if found is not None and (low is None or found[1] > low):
                pair, low = found
            high, closed = max(high, -least), closed and least > stop
            if deciding and pair is not None:
                high = high if c is costs[-1] else np.inf
                break
        closed = closed and (pair is None or not deciding)
        return Hunt(pair, low, high, closed, nodes, time.process_time() - begin)


@dataclass(eq=False)
class _One:
    """One question: the largest of a few sums as low as it gets."""

    search: LinearSearch
    costs: Costs
    deciding: bool
    judge: Judge
    counts: Counts
    until: float
    nodes: int = 0

    def run(self, stop: float, low: float | None) -> tuple[tuple[Pair, float] | None, float]:
        """The best pair with its value, and a bound on how low the costs fall."""
        s = self.search
        sums = [
            s.pairs.sum(self.costs.first[:, j], self.costs.second[:, j], float(b))
            for j, b in enumerate(self.costs.base)
        ]
        mixed = _mixed(sums) if len(sums) > 1 else []
        boxes = [s.box] if s.near is None else list(s.pairs.near(s.box, s.near))
        ranked = sorted(
            ((*self._closed_form([*sums, *mixed], box), k) for k, box in enumerate(boxes)),
            key=lambda entry: (entry[0], entry[2]),
        )
        best: tuple[Pair, float] | None = None
        least = np.inf
        for bound, corners, k in ranked:
            floor = low if best is None else best[1]
            if self.deciding and bound > stop:
                least = min(least, bound)
                continue
            if not self.deciding and floor is not None and bound >= -floor - s.gap / 2:
                least = min(least, bound)
                continue
            found, bound = self._box(boxes[k], sums, bound, corners)
            least = min(least, bound)
            if found is not None and (best is None or found[1] > best[1]):
                best = found
            if self.deciding and best is not None:
                return best, min(least, *(b for b, _, j in ranked if j != k), np.inf)
        return best, least

    def _closed_form(self, sums: list[Sum], box: Box) -> tuple[float, list[Floats]]:
        each = [self.search.pairs.least(total, box) for total in sums]
        size = 1e-12 * sum(abs(b) for b, _ in each if np.isfinite(b))  # of these sums themselves
        return max(b for b, _ in each) - size, [at for _, at in each]

    def _box(
        self, box: Box, sums: list[Sum], bound: float, corners: list[Floats]
    ) -> tuple[tuple[Pair, float] | None, float]:
        """The best pair of a box, and how low the costs fall there."""
        self.nodes += 1
        best = self._best(corners)
        near_enough = best is not None and -best[1] - bound <= self.search.gap / 2
        if near_enough or (self.deciding and best is not None):
            return best, bound
        left = self.until - time.process_time()
        if left <= 0:
            return best, bound
        program = self.search.pairs.program(box, LOOSE)
        least, at = program.least(sums, max(left, 0.05))
        bound = max(bound, least)
        points = [] if at is None else [at]
        best = _better(best, self._best(points))
        for share in TIGHT:
            left = self.until - time.process_time()
            if (best is not None and -best[1] - bound <= self.search.gap / 2) or left <= 0:
                break
            _, inner = self.search.pairs.program(box, share).least(sums, max(left, 0.05))
            best = _better(best, self._best([] if inner is None else [inner]))
        if best is None:
            best = self._drawn()
        return best, bound

    def _best(self, points: list[Floats]) -> tuple[Pair, float] | None:
        """The best of these points that is valid and counts."""
        s, d = self.search, len(self.search.pairs.schema)
        best: tuple[Pair, float] | None = None
        for point in points:
            at = s.pairs.inside(point)
            x = at[:d].copy()
            y = x.copy()
            y[list(s.pairs.moves.of)] = at[d:]
            if np.isinf(at).any() or not _allowed(s, x[None], y[None])[0]:
                continue
            value = self.judge(x, y)
            if value is not None and self.counts(value) and (best is None or value > best[1]):
                best = (x, y), value
        return best

    def _drawn(self) -> tuple[Pair, float] | None:
        """The best of some valid pairs that are no corners."""
        x, y = self.search.draw()
        if not len(x):
            return None
        terms = self.search.reading.terms
        cost = (terms(x) @ self.costs.first + terms(y) @ self.costs.second + self.costs.base).max(1)
        best = None
        for k in np.argsort(cost, kind="stable")[:_TRIED]:
            value = self.judge(x[k], y[k])
            if value is not None and self.counts(value):
                best = _better(best, ((x[k], y[k]), value))
        return best


def _allowed(s: LinearSearch, x: Floats, y: Floats) -> Bools:
    schema = s.pairs.schema
    good = valid(schema, x) & valid(schema, y) & s.pairs.moves.allows(x, y)
    return np.asarray(good & s.near.holds(x) if s.near is not None else good)


def _better(
    one: tuple[Pair, float] | None, two: tuple[Pair, float] | None
) -> tuple[Pair, float] | None:
    if one is None or two is None:
        return two if one is None else one
    return two if two[1] > one[1] else one


def _mixed(sums: list[Sum]) -> list[Sum]:
    """Their mean: no larger than the largest of them, and what they share cancels in it."""
    n = len(sums)
    tables = [
        None if each[0] is None else sum(t for t in each if t is not None) / n
        for each in zip(*(s.table for s in sums), strict=True)
    ]
    slope = np.mean([s.slope for s in sums], axis=0)
    gone = np.mean([s.gone for s in sums], axis=0)
    return [Sum(slope, tuple(tables), gone, sum(s.base for s in sums) / n)]
