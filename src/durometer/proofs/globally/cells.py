"""A table in cells: each feature cut where a tree or a relation tells two values apart.

What a reader would get wrong: a gap is the first cell of its feature, and trees may send it to
either side; a node that sends gaps right becomes two nodes. Bounds of cells are outer ones, as wide
as what `Schema.validate` forgives, so that a proof over cells is one over all valid records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.globally.kernel import Cells32, Rows, Trees
from durometer.proofs.search.constraint import LINEAR, LOG, OUTSIDE, Constraint, Term
from durometer.proofs.search.expressions import Expressions
from durometer.proofs.search.separable import Separable
from durometer.relations.expression import And, Column, Compare, Or, Relation, walk
from durometer.relations.normal_form import normal_form
from durometer.relations.program import Program
from durometer.tables.schema import Schema
from durometer.tables.validation import BOUND_SLACK
from durometer.trees.ensemble import Ensemble

TOLERANCE = 1e-6  # of relations, as in `Schema.validate`
_VALUES = 512  # whole numbers of a feature that relations name, each in a cell of its own
_LISTED = 50_000  # combinations of cells of a relation that is listed


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of each feature: outer bounds, the first NaN where the feature may be missing."""

    schema: Schema
    low: tuple[Floats, ...]
    high: tuple[Floats, ...]
    gap: Bools  # (d,) is the first cell the gap?
    constraints: tuple[tuple[Constraint, tuple[int, ...]], ...]  # with the features they name
    listed: tuple[Relation, ...]  # not sums, but small enough to be listed
    missed: tuple[Relation, ...]  # neither: left to the check of points

    @staticmethod
    def of(ensemble: Ensemble | None, schema: Schema, barred: Collection[int]) -> Cells:
        """Cut the whole table, by an ensemble's thresholds too. `barred`: features that are asked
        about known values only."""
        gap = np.array([f.missing and i not in barred for i, f in enumerate(schema.features)])
        low, high = _bounds(schema)
        constraints, missed = _read(schema, low, high)
        named = {schema.names.index(n) for r in schema.relations for n in _names(r)}
        parts = [
            _cut(ensemble, schema, i, (low[i], high[i]), _borders(constraints, i), i in named)
            for i in range(len(schema))
        ]
        lows = [np.append(np.nan, a) if g else a for (a, _), g in zip(parts, gap, strict=True)]
        highs = [np.append(np.nan, b) if g else b for (_, b), g in zip(parts, gap, strict=True)]
        size = [
            np.prod([float(len(lows[schema.names.index(n)])) for n in _names(r)]) for r in missed
        ]
        return Cells(
            schema, tuple(lows), tuple(highs), gap, tuple(constraints),
            tuple(r for r, s in zip(missed, size, strict=True) if s <= _LISTED),
            tuple(r for r, s in zip(missed, size, strict=True) if s > _LISTED),
        )  # fmt: skip

    def trees(self, ensemble: Ensemble) -> Trees:
        """The ensemble's trees over these cells."""
        f, n = ensemble.feature, len(ensemble.feature)
        cut = np.full(n, -1, dtype=np.int32)
        for i, high in enumerate(self.high):
            nodes, first = np.flatnonzero(f == i), int(self.gap[i])
            at = np.searchsorted(high[first:], ensemble.threshold[nodes], side="right") - 1
            cut[nodes] = at + first
        # A gap that goes right: the cell 0 goes there first, what is left is tested as before.
        right = np.flatnonzero((f >= 0) & ~ensemble.missing_left & np.where(f >= 0, self.gap[f], 0))
        again = np.arange(n, n + len(right), dtype=np.int32)
        made = [np.append(a, a[right]) for a in (f, cut, ensemble.left, ensemble.right)]
        feature, cuts, lefts, rights = (np.ascontiguousarray(a, dtype=np.int32) for a in made)
        cuts[right], lefts[right], rights[right] = 0, rights[right], again
        origin = np.append(np.arange(n), right).astype(np.int64)
        return Trees(feature, cuts, lefts, rights, ensemble.roots.astype(np.int32), origin)

    def rows(self, copy: Cells32) -> Rows:
        """The relations of x, and again of x' where they name a feature that it has for itself."""
        sums: list[tuple[tuple[tuple[int, Floats], ...], float]] = []
        lists = []
        copies = [np.arange(len(copy), dtype=np.int32), copy]
        for constraint, named in [*self.constraints, *self._groups()]:
            table = self._tables(constraint, named)
            for place in copies if any(copy[i] != i for i in named) else copies[:1]:
                sums.append((tuple((int(place[i]), h) for i, h in table[0]), table[1]))
        for r in self.listed:
            scope = sorted(self.schema.names.index(n) for n in _names(r))
            flag = self._possible(r, scope)
            for place in copies if any(copy[i] != i for i in scope) else copies[:1]:
                lists.append((tuple(int(place[i]) for i in scope), flag))
        rows = Rows(tuple(sums), tuple(lists))
        return Rows(rows.sums, (*rows.lists, *self._together(rows, copy)))

    def _together(
        self, rows: Rows, copy: Cells32
    ) -> Iterator[tuple[tuple[int, ...], NDArray[np.uint8]]]:
        """Which values an asked feature can have in x and in x' at once, by what ties both to one
        shared feature.

        Each relation alone allows too much: `degree` may allow one value of `years` only, so that
        no pair of different `years` exists, whatever the degree.
        """
        d = len(self.schema)
        ties: dict[tuple[int, int], NDArray[np.bool_]] = {}
        listed = [
            ((scope[0], scope[1]), flag.reshape(len(self.low[scope[0]]), -1) > 0)
            for scope, flag in rows.lists
            if len(scope) == 2 and max(scope) < d
        ]
        for scope, allowed in [*_pairwise(rows), *listed]:
            if max(scope) >= d:
                continue
            for i, s in (scope, scope[::-1]):
                if copy[i] != i and copy[s] == s and allowed.size <= _LISTED:
                    table = allowed if (i, s) == scope else allowed.T
                    ties[i, s] = ties.get((i, s), np.ones(table.shape, dtype=bool)) & table
        for i in {i for i, _ in ties}:
            both = np.ones((len(self.low[i]),) * 2, dtype=bool)
            for (j, _), table in ties.items():
                if j == i:
                    both &= (table.astype(np.float32) @ table.T.astype(np.float32)) > 0
            if not both.all():
                yield (i, int(copy[i])), both.astype(np.uint8)

    def cells_of(self, x: Floats) -> Cells32:
        """(n, d) the cell of each value of valid records."""
        found = np.zeros(x.shape, dtype=np.int32)
        for i, high in enumerate(self.high):
            first = int(self.gap[i])
            at = first + np.searchsorted(high[first:], x[:, i])
            found[:, i] = np.where(np.isnan(x[:, i]), 0, np.minimum(at, len(high) - 1))
        return found

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """(d,) the outer bounds of every feature's known values."""
        first = self.gap.astype(int)
        low = np.array([a[k] for a, k in zip(self.low, first, strict=True)])
        return low, np.array([b[-1] for b in self.high])

    def meets(self, low: Floats, high: Floats) -> Bools:
        """(n,) may these boxes hold a record: no gap where there is none, and ends in order?"""
        gone = (np.isnan(low) & ~self.gap).any(axis=1)
        return np.asarray(~gone & ~(low > high).any(axis=1))

    def near(self, low: Floats, high: Floats, copy: Cells32) -> tuple[Cells32, Cells32]:
        """(n, F) the first and the last cell that boxes of values meet; a copy is free."""
        d = len(self.low)
        size = np.array([len(low) for low in self.low] + [0] * (len(copy) - d), dtype=np.int32)
        for i in np.flatnonzero(copy[:d] != np.arange(d)):
            size[copy[i]] = size[i]
        first = np.zeros((len(low), len(copy)), dtype=np.int32)
        last = np.tile(size - 1, (len(low), 1))
        first[:, :d], last[:, :d] = self.cells_of(low), self.cells_of(high)
        free = np.isneginf(low)
        first[:, :d][free], last[:, :d][free] = 0, np.broadcast_to(size[:d] - 1, free.shape)[free]
        known = self.meets(low, high)
        both = np.unique(np.concatenate([first, last], axis=1)[known], axis=0)
        return (np.ascontiguousarray(both[:, : len(copy)], dtype=np.int32),
                np.ascontiguousarray(both[:, len(copy) :], dtype=np.int32))  # fmt: skip

    def _groups(self) -> list[tuple[Constraint, tuple[int, ...]]]:
        """Exactly one column of each one-hot group is 1."""
        one, made = np.ones(1), []
        for members in self.schema.one_hot_groups.values():
            for sign in (1.0, -1.0):
                terms = tuple(Term(i, LINEAR, sign * one) for i in members)
                bound = sign * one + 0.5
                made.append((Constraint(terms, bound, bound), tuple(members)))
        return made

    def _tables(
        self, c: Constraint, named: tuple[int, ...]
    ) -> tuple[list[tuple[int, Floats]], float]:
        """The least that the terms of each feature add in each of its cells, and the bound.

        Where a named feature is missing the constraint says nothing: its table is low enough.
        """
        tables: dict[int, Floats] = {i: np.zeros(len(self.low[i])) for i in named if self.gap[i]}
        for t in c.terms:
            tables.setdefault(t.feature, np.zeros(len(self.low[t.feature])))
            tables[t.feature] = tables[t.feature] + self._least(t)
        bound = min(float(c.outer[0]), 1e300)
        finite = [
            np.where(np.isfinite(h) & (np.abs(h) < 1e300), h, np.nan) for h in tables.values()
        ]
        room = sum(float(np.nanmax(h, initial=0.0)) for h in finite) + max(0.0, -bound) + 1.0
        out = []
        for i, h in tables.items():
            void = ~np.isfinite(h) | (h <= -1e300)
            if self.gap[i] and i in named:
                void[0] = True
            out.append((i, np.ascontiguousarray(np.where(void, -room, h))))
        return out, bound

    def _least(self, t: Term) -> Floats:
        low, high, a = self.low[t.feature], self.high[t.feature], float(t.a[0])
        with np.errstate(all="ignore"):
            if t.phi == LINEAR:
                least = np.minimum(a * low, a * high)
                return least - 1e-12 * np.abs(least)
            if t.phi == LOG:
                positive = [np.log(np.maximum(side, 0.0)) for side in (low, high)]
                least = np.minimum(a * positive[0], a * positive[1])
                return least - 1e-12 * (1 + np.abs(least))
        assert t.phi == OUTSIDE and t.sets is not None
        meets = np.zeros(len(low), dtype=bool)
        for start, end in t.sets[0][:, :2]:
            meets |= (high >= start) & (low <= end)
        return np.where(meets, 0.0, a)

    def _possible(
        self, r: Relation, scope: list[int]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """Which combinations of cells of these features may hold a record that satisfies r."""
        sizes = [len(self.low[i]) for i in scope]
        at = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(
            -1, len(scope)
        )
        low, high = np.zeros((2, len(at), len(self.schema)))
        for k, i in enumerate(scope):
            low[:, i], high[:, i] = self.low[i][at[:, k]], self.high[i][at[:, k]]
        x, layout = torch.from_numpy(low), self.schema.layout
        one = ((low == high) | (np.isnan(low) & np.isnan(high))).all(axis=1)
        holds = Program((r,), layout).holds(x, x, TOLERANCE)[:, 0].numpy()
        around = Expressions(layout, low, low, high, TOLERANCE)
        wide = _may_hold(normal_form(r, layout), around) | np.isnan(low).any(axis=1)
        return np.where(one, holds, wide).astype(np.uint8)


def _pairwise(rows: Rows) -> Iterator[tuple[tuple[int, int], NDArray[np.bool_]]]:
    """The sums over two features, as what they allow."""
    for terms, bound in rows.sums:
        if len(terms) == 2:
            (i, a), (j, b) = terms
            if len(a) * len(b) <= _LISTED:
                yield (i, j), a[:, None] + b[None] <= bound


def _names(r: Relation) -> list[str]:
    return sorted({e.name for e in walk(r) if isinstance(e, Column)})


def _bounds(schema: Schema) -> tuple[Floats, Floats]:
    """(d,) the outer bounds of known values; a record's own value bounds nothing here."""
    any_row = torch.full((1, len(schema)), torch.nan, dtype=torch.float64)
    low, high = (b[0].numpy().copy() for b in schema.bounds(any_row))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            low[i], high[i] = min(f.codes), max(f.codes)
            continue
        for side, sign in ((low, -1.0), (high, 1.0)):
            if np.isfinite(side[i]):
                side[i] += sign * 1.001 * BOUND_SLACK * max(1.0, abs(side[i]))
        if schema.whole[i]:
            low[i], high[i] = np.ceil(low[i]), np.floor(high[i])
    return low, high


def _read(
    schema: Schema, low: Floats, high: Floats
) -> tuple[list[tuple[Constraint, tuple[int, ...]]], list[Relation]]:
    """The relations as sums where they are, with the features named; and the others."""
    for r in schema.relations:
        if any(isinstance(e, Column) and e.clean for e in walk(r)):
            raise Unsupported(
                f"relation '{r}' names an original record, and a question about the whole table "
                "has none; leave it out with Schema(features, relations)"
            )
    inside = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))[None]
    around = Expressions(schema.layout, inside, low[None], high[None], TOLERANCE)
    found, missed = [], []
    for r in schema.relations:
        sums, complete = Separable(around).read((r,))
        named = tuple(sorted(schema.names.index(n) for n in _names(r)))
        found += [(c, named) for c in sums if np.isfinite(c.outer[0]) and c.outer[0] < 1e299]
        if not complete[0] or any(schema.features[i].missing for i in named):
            missed.append(r)
    return found, missed


def _borders(constraints: list[tuple[Constraint, tuple[int, ...]]], i: int) -> Floats:
    """Values at which a relation changes for a feature by itself."""
    sets = [
        t.sets[0] for c, _ in constraints for t in c.terms if t.feature == i and t.sets is not None
    ]
    ends = np.concatenate([s.ravel() for s in sets]) if sets else np.zeros(0)
    return np.asarray(ends[np.isfinite(ends)])


def _cut(
    ensemble: Ensemble | None, schema: Schema, i: int, ends: tuple[float, float], borders: Floats,
    named: bool,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Low and high of each cell of the feature's known values."""
    f, (low, high) = schema.features[i], ends
    if f.kind == "category":
        codes = np.sort(np.asarray(f.codes, dtype=np.float64))
        return codes, codes
    cuts = np.zeros(0) if ensemble is None else ensemble.threshold[ensemble.feature == i]
    cuts = np.concatenate([cuts[np.isfinite(cuts)], borders])
    if schema.whole[i]:
        cuts = np.concatenate([np.floor(cuts), np.floor(borders) - 1])
        if named and high - low < _VALUES:
            cuts = np.arange(low, high)
        cuts = np.unique(cuts[(cuts >= low) & (cuts < high)])
        return np.append(low, cuts + 1), np.append(cuts, high)
    cuts = np.unique(np.concatenate([cuts, np.nextafter(borders, -np.inf)]))
    cuts = cuts[(cuts >= low) & (cuts < high)]
    return np.append(low, np.nextafter(cuts, np.inf)), np.append(cuts, high)


def _may_hold(r: Relation, around: Expressions) -> Bools:
    """(n,) False only where no record of the row's box satisfies r."""
    match r:
        case And():
            return np.asarray(np.all([_may_hold(p, around) for p in r.operands], axis=0))
        case Or():
            return np.asarray(np.any([_may_hold(p, around) for p in r.operands], axis=0))
        case Compare():
            (a, b), (c, d) = around.span(r.left), around.span(r.right)
            with np.errstate(all="ignore"):
                sizes = np.max([np.abs(v) for v in (a, b, c, d)], axis=0)
                room = 1.01 * around.tolerance * np.maximum(1.0, sizes) + 1e-12 * sizes
                if r.tolerance is not None:
                    room = np.full(len(a), 1.01 * r.tolerance) + 1e-12 * sizes
                above, below = a - d > room, c - b > room
            if r.op == "!=":
                return np.ones(len(a), dtype=bool)
            return np.asarray(~(above | below) if r.op == "==" else ~above)
    return np.ones(len(around.x0), dtype=bool)
