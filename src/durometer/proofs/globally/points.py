"""From cells to records: a valid pair of points in given cells, judged by the schema itself.

A cell is a range; a valid point in it must satisfy relations that the search knew by their bounds
only. Tried in turn: one typical value of each cell, a small mixed-integer program over the
relations that are linear, repaired and random values. What is handed back passes `valid`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.globally.cells import TOLERANCE, Cells
from durometer.proofs.globally.kernel import Cells32
from durometer.proofs.search.constraint import LINEAR, OUTSIDE
from durometer.tables.schema import Schema
from durometer.tables.validation import bounded, one_hot, typed

_DRAWS = 256
_BOXES = 8  # around records, that a point is looked for in


def valid(schema: Schema, x: Floats) -> Bools:
    """(n,) does each record satisfy types, bounds, one-hot groups and every relation?"""
    t = torch.from_numpy(np.ascontiguousarray(x))
    good = typed(schema, t).all(1) & bounded(schema, t, t).all(1) & one_hot(schema, t).all(1)
    return np.asarray((good & schema.program.valid(t, t, TOLERANCE)).numpy())


@dataclass(frozen=True, eq=False)
class Near:
    """Boxes around records: (n, d) ends, NaN for a gap, infinite where a feature is asked for."""

    low: Floats
    high: Floats

    @staticmethod
    def of(schema: Schema, x: Floats, eps: float, asked: tuple[int, ...]) -> Near:
        """What lies within a share `eps` of each feature's range; categories and gaps stay."""
        low, high = x.copy(), x.copy()
        for i, f in enumerate(schema.features):
            if i in asked:
                low[:, i], high[:, i] = -np.inf, np.inf
            elif f.kind != "category" and eps > 0:
                a, b = f.range
                low[:, i], high[:, i] = x[:, i] - eps * (b - a), x[:, i] + eps * (b - a)
                if schema.whole[i]:
                    low[:, i], high[:, i] = np.ceil(low[:, i]), np.floor(high[:, i])
        both = np.unique(np.concatenate([low, high], axis=1), axis=0, equal_nan=False)
        return Near(both[:, : x.shape[1]], both[:, x.shape[1] :])

    def holds(self, x: Floats) -> Bools:
        """(n,) does each point lie in one of the boxes?"""
        found = np.zeros(len(x), dtype=bool)
        for k, row in enumerate(x):
            inside = (self.low <= row) & (row <= self.high)
            inside |= np.isnan(row) & (np.isnan(self.low) | np.isneginf(self.low))
            found[k] = inside.all(axis=1).any()
        return found

    def meeting(self, low: Floats, high: Floats) -> Iterator[tuple[Floats, Floats]]:
        """The parts of these boxes that lie between these ends: of some that do."""
        with np.errstate(invalid="ignore"):
            apart = (self.low > high) | (self.high < low)
        gone, gap = np.isnan(self.low), np.isnan(low)
        apart |= (gone != gap) & ~np.isneginf(self.low)
        for k in np.flatnonzero(~apart.any(axis=1))[:_BOXES]:
            a, b = np.fmax(low, self.low[k]), np.fmin(high, self.high[k])
            yield np.where(gap, low, a), np.where(gap, high, b)


@dataclass(frozen=True, eq=False)
class Moves:
    """What may change between x and x': which features, by how much, in which direction."""

    of: tuple[int, ...] = ()
    within: tuple[float, ...] = ()  # the largest change of each; inf: any
    ordered: int | None = None  # a feature that is not smaller in x' than in x

    def allows(self, x: Floats, y: Floats) -> Bools:
        """(n,) is each pair (x, y) one that the question is about?"""
        rest = np.setdiff1d(np.arange(x.shape[1]), self.of)
        a, b = x[:, rest], y[:, rest]
        good = ((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1)
        for i, eps in zip(self.of, self.within, strict=True):
            if np.isfinite(eps):
                both = np.isnan(x[:, i]) & np.isnan(y[:, i])
                good &= both | (np.abs(x[:, i] - y[:, i]) <= eps)
        if self.ordered is not None:
            good &= x[:, self.ordered] <= y[:, self.ordered]
        return np.asarray(good)


@dataclass(frozen=True, eq=False)
class Points:
    """Builds valid pairs in given cells."""

    cells: Cells
    moves: Moves
    copy: Cells32  # (F,) as in the program
    typical: Floats  # (d,) a usual value of each feature, NaN where none is known
    near: Near | None = None

    def pair(self, c: Cells32) -> tuple[tuple[Floats, Floats] | None, bool]:
        """A valid pair in these cells, or None; and then, whether it is certain that none is."""
        low, high = self._ends(c)
        if self.near is None:
            return self._within(c, low, high)
        d, certain = len(self.cells.schema), True
        for a, b in self.near.meeting(low[:d], high[:d]):
            found, none = self._within(c, np.append(a, low[d:]), np.append(b, high[d:]))
            if found is not None:
                return found, False
            certain &= none
        return None, certain and self._single(c)

    def _within(
        self, c: Cells32, low: Floats, high: Floats
    ) -> tuple[tuple[Floats, Floats] | None, bool]:
        """`pair`, between these ends."""
        first = self._pairs(self._middle(low, high)[None])
        if (found := self._first(first)) is not None:
            return found, False
        if self._single(c):
            return None, True
        solved = self._solved(c, low, high)
        if solved is not None and (found := self._first(self._pairs(solved[None]))) is not None:
            return found, False
        a, b = self._finite(low, high)
        rng = np.random.default_rng(0)
        drawn = a + rng.random((_DRAWS, len(a))) * (b - a)
        drawn = np.clip(np.where(self._whole(), np.rint(drawn), drawn), low, high)
        drawn[:, self._twins(c)] = drawn[:, self._sources(c)]
        x, y = self._pairs(drawn)
        if (found := self._first((x, y))) is not None:
            return found, False
        return self._first(self._repaired(x, y)), False

    def inside(self, c: Cells32, x: Floats, y: Floats) -> bool:
        """Is this pair in these cells? What was repaired may have left them."""
        of = list(self.moves.of)
        ours, theirs = self.cells.cells_of(np.stack([x, y]))
        return bool(np.array_equal(np.append(ours, theirs[of]), c))

    def _ends(self, c: Cells32) -> tuple[Floats, Floats]:
        """(F,) the ends of the cells, inside the schema's own bounds."""
        schema = self.cells.schema
        blank = torch.full((1, len(schema)), torch.nan, dtype=torch.float64)
        inner = [b[0].numpy() for b in schema.bounds(blank)]
        low, high = np.empty(len(c)), np.empty(len(c))
        for k, cell in enumerate(c):
            i = self._feature(k)
            low[k], high[k] = self.cells.low[i][cell], self.cells.high[i][cell]
            if schema.features[i].kind == "category" or np.isnan(low[k]):
                continue
            a, b = np.fmax(low[k], inner[0][i]), np.fmin(high[k], inner[1][i])
            if a <= b:
                low[k], high[k] = a, b
        return low, high

    def _single(self, c: Cells32) -> bool:
        """Does each of these cells hold one value, or a gap?"""
        at = [(self._feature(k), cell) for k, cell in enumerate(c)]
        return all(
            self.cells.low[i][k] == self.cells.high[i][k] or np.isnan(self.cells.low[i][k])
            for i, k in at
        )

    def _feature(self, k: int) -> int:
        d = len(self.cells.schema)
        return k if k < d else self.moves.of[k - d]

    def _whole(self) -> Bools:
        whole = self.cells.schema.whole.numpy()
        return np.array([bool(whole[self._feature(k)]) for k in range(len(self.copy))])

    def _twins(self, c: Cells32) -> list[int]:
        """Copies in the same cell as what they are copies of: they take its value."""
        d = len(self.cells.schema)
        return [d + k for k, i in enumerate(self.moves.of) if d + k < len(c) and c[d + k] == c[i]]

    def _sources(self, c: Cells32) -> list[int]:
        return [self._feature(k) for k in self._twins(c)]

    def _finite(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends without infinities, as far out as the other end and what is usual are."""
        usual = np.array([self.typical[self._feature(k)] for k in range(len(low))])
        usual = np.where(np.isnan(usual), 0.0, usual)
        reach = 1.0 + np.abs(usual)
        a = np.where(np.isneginf(low), np.where(np.isposinf(high), usual, high) - reach, low)
        b = np.where(np.isposinf(high), np.maximum(a, usual) + reach, high)
        return np.maximum(a, low), np.minimum(np.maximum(a, b), high)

    def _middle(self, low: Floats, high: Floats) -> Floats:
        """(F,) a usual value where it is in the cell, else the end that is nearer to it."""
        a, b = self._finite(low, high)
        usual = np.array([self.typical[self._feature(k)] for k in range(len(low))])
        value = np.clip(np.where(np.isnan(usual), a + 0.5 * (b - a), usual), low, high)
        return np.clip(np.where(self._whole(), np.rint(value), value), low, high)

    def _pairs(self, values: Floats) -> tuple[Floats, Floats]:
        """(n, F) values as records x and x'."""
        d = len(self.cells.schema)
        x = values[:, :d].copy()
        y = x.copy()
        for k, i in enumerate(self.moves.of):
            y[:, i] = values[:, d + k]
        return x, y

    def _first(self, pairs: tuple[Floats, Floats]) -> tuple[Floats, Floats] | None:
        x, y = pairs
        schema = self.cells.schema
        good = valid(schema, x) & self.moves.allows(x, y)
        if good.any():
            good[good] = valid(schema, y[good])
        if good.any() and self.near is not None:
            good[good] = self.near.holds(x[good])
        if not good.any():
            return None
        k = int(good.argmax())
        return x[k], y[k]

    def _solved(self, c: Cells32, low: Floats, high: Floats) -> Floats | None:
        """(F,) a solution of the linear relations in these cells; others are left out."""
        n, d = len(c), len(self.cells.schema)
        rows: list[Floats] = []
        most: list[float] = []
        copies: list[Cells32] = [np.arange(n, dtype=np.int32), self.copy]
        for constraint, named in self.cells.constraints:
            for place in copies if any(self.copy[i] != i for i in named) else copies[:1]:
                if any(np.isnan(low[place[i]]) for i in named):
                    continue
                row, bound = np.zeros(n), float(constraint.inner[0])
                for t in constraint.terms:
                    k = int(place[t.feature])
                    if t.phi == LINEAR:
                        row[k] += float(t.a[0])
                    elif t.phi == OUTSIDE and t.sets is not None:
                        within = (t.sets[0][:, 2] <= low[k]) & (high[k] <= t.sets[0][:, 3])
                        bound -= 0.0 if within.any() else float(t.a[0])
                    else:
                        bound = np.inf
                if np.isfinite(bound) and row.any():
                    rows.append(row)
                    most.append(bound)
        for k, i in enumerate(self.moves.of):
            eps = self.moves.within[k]
            step = np.zeros(n)
            if d + k < n:
                step[i], step[d + k] = 1.0, -1.0
                if np.isfinite(eps) and not np.isnan(low[[i, d + k]]).any():
                    rows += [step, -step]
                    most += [eps, eps]
                if self.moves.ordered == i:
                    rows.append(step)
                    most.append(0.0)
        a, b = self._finite(low, high)
        gone = np.isnan(a)
        if not rows:
            return None
        found = milp(
            np.zeros(n), integrality=self._whole().astype(np.int64),
            bounds=Bounds(np.where(gone, 0.0, a), np.where(gone, 0.0, b)),
            constraints=LinearConstraint(np.stack(rows), -np.inf, np.array(most)),
            options={"time_limit": 1.0},
        )  # fmt: skip
        if found.x is None:
            return None
        value = np.where(self._whole(), np.rint(found.x), found.x)
        return np.where(gone, np.nan, np.clip(value, low, high))

    def _repaired(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Pairs whose computed features are computed anew; what is shared stays shared."""
        schema = self.cells.schema
        blank = torch.full((len(x), len(schema)), torch.nan, dtype=torch.float64)
        low, high = schema.bounds(blank)
        low, high = low.nan_to_num(nan=-torch.inf), high.nan_to_num(nan=torch.inf)
        t = torch.from_numpy(x)
        mended = schema.repair(t, t, low, high, TOLERANCE)[0].numpy()
        after = mended.copy()
        of = list(self.moves.of)
        after[:, of] = y[:, of]
        return mended, after
