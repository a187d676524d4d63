"""Boxes of pairs (x, x'): how low a sum of single features falls in one, with and without rules.

Coordinates are the features of x, then the asked features of x'. Without rules the least of a sum
is a closed form: what is shared adds by itself, and an asked feature by its corners, those of the
polygon that "not smaller" and "within eps" leave of the square of both values. With rules it is a
mixed-integer program (HiGHS).

What a reader would get wrong: HiGHS keeps its rules up to tolerances. The set that a bound is about
is larger by as much again as the schema forgives (`LOOSE`), and the bound is lowered by a share of
the sum's range (`TOLERANCE`). The closed form needs neither, so the larger of both bounds counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.proofs.globally.cells import TOLERANCE as RELATIONS
from durometer.proofs.globally.points import Moves, Near
from durometer.proofs.search.milp import Program, impose, rules
from durometer.relations.expression import Column, walk
from durometer.tables.schema import Schema

LOOSE = 2.0  # of the schema's tolerance: the set that bounds are about
TIGHT = (0.0, -4.0)  # of it: sets that points are looked for in
TOLERANCE = 2e-6  # of a sum's range: what HiGHS may be off by


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of both records, and where a value may be missing (1), or is (2)."""

    low: Floats  # (F,)
    high: Floats
    gap: Ints  # (F,)


@dataclass(frozen=True, eq=False)
class Sum:
    """base + first . terms(x) + second . terms(x'): slopes (d,), values of codes, gaps (d,)."""

    slope: Floats  # (F,)
    table: tuple[Floats | None, ...]  # of coordinate k: the value of each code of a category
    gone: Floats  # (F,)
    base: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which pairs a question is about."""

    schema: Schema
    moves: Moves
    codes: tuple[Floats | None, ...]  # (d,) of categories

    @property
    def features(self) -> tuple[int, ...]:
        """(F,) the feature of each coordinate."""
        return (*range(len(self.schema)), *self.moves.of)

    def box(self, low: Floats, high: Floats, gap: Bools) -> Box:
        """All pairs between these bounds (d,), with gaps where they are taken."""
        at = list(self.features)
        return Box(low[at], high[at], gap[at].astype(np.int64))

    def near(self, whole: Box, near: Near) -> Iterator[Box]:
        """The parts of a box that lie near records."""
        d = len(self.schema)
        for a, b in zip(near.low, near.high, strict=True):
            low, high, gap = whole.low.copy(), whole.high.copy(), whole.gap.copy()
            missing = np.isnan(a)
            if (missing & (whole.gap[:d] == 0)).any():
                continue
            free = np.isneginf(a)
            low[:d] = np.where(missing | free, low[:d], np.maximum(low[:d], a))
            high[:d] = np.where(missing | free, high[:d], np.minimum(high[:d], b))
            gap[:d] = np.where(missing, 2, np.where(free, gap[:d], 0))
            if (low <= high).all():
                yield Box(low, high, gap)

    def sum(self, first: Floats, second: Floats, base: float) -> Sum:
        """Of weights of the terms of x and of x' (slopes, codes, gaps); what is shared is added
        before anything is bounded."""
        d, of = len(self.schema), list(self.moves.of)
        copied = np.zeros(d, dtype=bool)
        copied[of] = True
        tables: list[Floats | None] = []
        later: list[Floats | None] = []
        at = d
        for i, codes in enumerate(self.codes):
            if codes is None:
                tables.append(None)
                later.append(None)
                continue
            one, two = first[at : at + len(codes)], second[at : at + len(codes)]
            tables.append(one if copied[i] else one + two)
            later.append(two)
            at += len(codes)
        gone_1, gone_2 = first[at:], second[at:]
        return Sum(
            np.append(np.where(copied, first[:d], first[:d] + second[:d]), second[of]),
            (*tables, *(later[i] for i in of)),
            np.append(np.where(copied, gone_1, gone_1 + gone_2), gone_2[of]), base,
        )  # fmt: skip

    def least(self, total: Sum, box: Box) -> tuple[float, Floats]:
        """How low the sum falls in a box whatever the rules, and where (F,)."""
        d, of = len(self.schema), self.moves.of
        at = np.empty(len(box.low))
        value = total.base
        for i in range(d):
            if i in of:
                continue
            best, at[i] = min(self._single(total, box, i), key=lambda c: c[0])
            value += best
        for k, i in enumerate(of):
            both = min(self._corners(total, box, k, i), key=lambda c: c[0], default=None)
            if both is None:
                return np.inf, at
            best, at[i], at[d + k] = both
            value += best
        return float(value), at

    def _single(self, total: Sum, box: Box, k: int) -> Iterator[tuple[float, float]]:
        """What one coordinate adds at the values where it may add least."""
        if box.gap[k]:
            yield float(total.gone[k]), np.nan
        if box.gap[k] == 2:
            return
        table, codes = total.table[k], self.codes[self.features[k]]
        if table is None or codes is None:
            for v in (box.low[k], box.high[k]):
                yield float(total.slope[k] * v), float(v)
            return
        for c, added in zip(codes, table, strict=True):
            if box.low[k] <= c <= box.high[k]:
                yield float(added), float(c)

    def _corners(
        self, total: Sum, box: Box, k: int, i: int
    ) -> Iterator[tuple[float, float, float]]:
        """What an asked feature adds in x and in x' at the corners of what may be."""
        j = len(self.schema) + k
        eps, ordered = self.moves.within[k], self.moves.ordered == i
        if self.codes[i] is not None or (not np.isfinite(eps) and not ordered):
            for a, v in self._single(total, box, i):
                for b, w in self._single(total, box, j):
                    yield a + b, v, w
            return
        if box.gap[i] and box.gap[j] and not ordered:
            yield float(total.gone[i] + total.gone[j]), np.nan, np.nan
        if 2 in (box.gap[i], box.gap[j]):
            return
        (a, b), (c, e) = (box.low[i], box.high[i]), (box.low[j], box.high[j])
        ends: set[tuple[float, float]] = set()
        for v in (a, b):
            ends |= {(v, w) for w in (c, e, v, v + eps, v - eps)}
        for w in (c, e):
            ends |= {(v, w) for v in (w, w - eps, w + eps)}
        room = 1e-9 * (1 + max(abs(a), abs(b)))
        for v, w in ends:
            inside = a <= v <= b and c <= w <= e and abs(v - w) <= eps + room
            if inside and not (ordered and v > w):
                yield float(total.slope[i] * v + total.slope[j] * w), float(v), float(w)

    def inside(self, at: Floats) -> Floats:
        """(F,) within the schema's own bounds, of which boxes are a little wider."""
        low, high = self._inner
        return np.asarray(np.clip(at, low, high))

    @cached_property
    def _inner(self) -> tuple[Floats, Floats]:
        """(F,) the schema's own bounds."""
        blank = torch.full((1, len(self.schema)), torch.nan, dtype=torch.float64)
        low, high = (b[0].numpy().copy() for b in self.schema.bounds(blank))
        for i, codes in enumerate(self.codes):
            if codes is not None:
                low[i], high[i] = codes[0], codes[-1]
        at = list(self.features)
        return low[at], high[at]

    def program(self, box: Box, share: float) -> _Pair:
        """The rules as a mixed-integer program, with a share of the schema's tolerance."""
        if share <= 0:
            box = replace(box, low=self.inside(box.low), high=self.inside(box.high))
        return _Pair.of(self, box, share)


@dataclass(eq=False)
class _Pair:
    """Both records as columns of a program: coordinates, a binary per code, one per gap."""

    pairs: Pairs
    box: Box
    program: Program
    ons: dict[int, list[tuple[int, int]]]  # of coordinate k: (place of the code, column)
    gaps: dict[int, int]  # of coordinate k: the binary that says it is missing

    @staticmethod
    def of(pairs: Pairs, box: Box, share: float) -> _Pair:
        schema = pairs.schema
        program, features = Program(), pairs.features
        ons: dict[int, list[tuple[int, int]]] = {}
        gaps: dict[int, int] = {}
        zero = box.gap > 0  # a missing value stands at 0
        low = np.where(zero, np.minimum(box.low, 0.0), box.low)
        high = np.where(zero, np.maximum(box.high, 0.0), box.high)
        for k, i in enumerate(features):
            program.column(float(low[k]), float(high[k]), bool(schema.whole[i]))
        for k, i in enumerate(features):
            on: dict[int, float] = {}
            if box.gap[k]:
                gaps[k] = on_gap = program.column(float(box.gap[k] == 2), 1, True)
                program.row({k: 1.0, on_gap: float(box.high[k])}, float(box.high[k]))
                program.row({k: -1.0, on_gap: -float(box.low[k])}, -float(box.low[k]))
                on = {on_gap: 1.0}
            codes = pairs.codes[i]
            if codes is not None:
                ons[k] = [
                    (p, program.column(0, 1, True))
                    for p, c in enumerate(codes)
                    if box.low[k] <= c <= box.high[k]
                ]
                program.row({**{o: float(codes[p]) for p, o in ons[k]}, k: -1.0}, 0, 0)
                program.row({**{o: 1.0 for _, o in ons[k]}, **on}, 1, 1)
        made = _Pair(pairs, box, program, ons, gaps)
        made._rules(share, low, high)
        made._moves()
        return made

    def _rules(self, share: float, low: Floats, high: Floats) -> None:
        schema, d = self.pairs.schema, len(self.pairs.schema)
        first = np.arange(d)
        second = first.copy()
        second[list(self.pairs.moves.of)] = d + np.arange(len(self.pairs.moves.of))
        for place, fresh in ((first, False), (second, True)):
            a, b = low[place], high[place]
            blank = np.full(d, np.nan)
            for ruled in rules(schema, RELATIONS, blank, a, b, share):
                named = sorted(
                    {schema.names.index(e.name) for e in walk(ruled.relation)
                     if isinstance(e, Column)}
                )  # fmt: skip
                if fresh and all(place[i] == i for i in named):
                    continue  # asked of x already
                gone = sorted({self.gaps[int(place[i])] for i in named if place[i] in self.gaps})
                impose(self.program, ruled, a, b, place, gone)
            for members in schema.one_hot_groups.values():
                at = [int(place[i]) for i in members]
                if not fresh or at != list(members):
                    self.program.row(dict.fromkeys(at, 1.0), 1, 1)

    def _moves(self) -> None:
        moves, d = self.pairs.moves, len(self.pairs.schema)
        for k, i in enumerate(moves.of):
            j, eps = d + k, moves.within[k]
            if np.isfinite(eps):
                self.program.row({i: 1.0, j: -1.0}, eps)
                self.program.row({i: -1.0, j: 1.0}, eps)
                if i in self.gaps and j in self.gaps:
                    self.program.row({self.gaps[i]: 1.0, self.gaps[j]: -1.0}, 0, 0)
            if moves.ordered == i:
                self.program.row({i: 1.0, j: -1.0}, 0.0)

    def least(
        self, sums: list[Sum], seconds: float, relaxed: bool = False
    ) -> tuple[float, Floats | None]:
        """A bound on how low the largest of the sums falls, and the point found (F,)."""
        program = self.program
        each = []
        for s in sums:
            terms = {int(k): float(s.slope[k]) for k in np.flatnonzero(s.slope)}
            for k, on in self.ons.items():
                terms.pop(k, None)
                table = s.table[k]
                values = s.slope[k] * self._codes(k) if table is None else table
                terms |= {o: float(values[p]) for p, o in on}
            terms |= {o: float(s.gone[k]) for k, o in self.gaps.items()}
            both = [(w * program.low[c], w * program.high[c]) for c, w in terms.items()]
            low, high = sum(min(e) for e in both), sum(max(e) for e in both)
            each.append((terms, s.base, s.base + low, s.base + high))
        unit = max(max(high - low, abs(low), abs(high)) for *_, low, high in each) or 1.0
        top = program.column(
            max(low for *_, low, _ in each) / unit - 1.0, max(e[3] for e in each) / unit + 1.0
        )
        for terms, base, _, _ in each:
            program.row({top: -1.0, **{c: w / unit for c, w in terms.items()}}, -base / unit)
        objective = np.zeros(top + 1)
        objective[top] = -1.0
        bound, point = program.solve(objective, seconds, relaxed, exact=True)
        least = np.inf if bound == -np.inf else -bound * unit - TOLERANCE * unit
        return float(least), None if point is None else self._values(point)

    def _codes(self, k: int) -> Floats:
        codes = self.pairs.codes[self.pairs.features[k]]
        assert codes is not None
        return codes

    def _values(self, point: Floats) -> Floats:
        """(F,) whole numbers whole, codes exact, gaps NaN, within the box."""
        at = np.clip(point[: len(self.box.low)], self.box.low, self.box.high)
        whole = self.pairs.schema.whole.numpy()[list(self.pairs.features)]
        at = np.where(whole, np.rint(at), at)
        for k, on in self.ons.items():
            at[k] = self._codes(k)[max(on, key=lambda o: point[o[1]])[0]]
        for k, o in self.gaps.items():
            if point[o] > 0.5:
                at[k] = np.nan
        return np.asarray(at)


def left_out(schema: Schema, low: Floats, high: Floats) -> tuple[str, ...]:
    """The relations of which a program does not know everything."""
    blank = torch.full((1, len(schema)), torch.nan, dtype=torch.float64)[0].numpy()
    made = rules(schema, RELATIONS, blank, low, high)
    return tuple(str(r.relation) for r in made if not r.whole)
