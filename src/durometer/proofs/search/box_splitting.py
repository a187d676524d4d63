"""Relations that are no sums of functions of one feature: boxes cut until intervals decide.

The kernel leaves such relations out of its bound, so a counterexample that it finds may break one.
Then the row's box is cut in two at a feature of a broken relation, again and again. A part is
closed when some relation holds nowhere in it, when the kernel proves it (relations
are read again on the part: smaller boxes make more of them separable), or when it is a single
record that is invalid. A row all of whose parts are closed is proven; a valid counterexample in any
part breaks it; when the time is over, it stays open.

What a reader would get wrong: parts must cover the box. Whole numbers are cut between two of them,
reals share the cut.

Is a relation broken by every record of a box? By intervals, all boxes at once.

    a <= b    broken everywhere if the least of a is above the most of b, tolerance added
    a == b    ... or the other way round          and: one part is      or: all parts are

What a reader would get wrong: "not refuted" says nothing. Intervals forget that the same feature
stands on both sides, and what is undefined somewhere in the box is never refuted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.proofs.search.box import CODES, WHOLE, Box, Kinds
from durometer.proofs.search.constraint import Term
from durometer.proofs.search.kernel import BROKEN, OPEN, PROVEN
from durometer.relations.expression import (
    And,
    Compare,
    Count,
    Expr,
    Or,
    Relation,
    changing,
    columns,
)
from durometer.relations.intervals import Range, spans
from durometer.relations.normal_form import Layout, is_whole, normal_form, scale
from durometer.tables.region import TableRegion

_NARROW = 1e-7  # of a feature's range: such a part of a real feature is not cut again
_AT_ONCE = 2048  # parts
_SHARE = 0.02  # seconds of the kernel for one part

# Boxes, whose they are, seconds for each: verdicts (broken: by a valid point) and points.
Play = Callable[[Box, Ints, float], tuple[Ints, Floats]]
Ask = Callable[[Floats, Ints], Bools]  # records, whose they are: is each a valid success?


@dataclass(frozen=True, eq=False)
class Parts:
    """A region in a table, the kernel as a function of boxes, and the judge of single records."""

    region: TableRegion
    play: Play
    ask: Ask

    def decide(self, box: Box, rows: Ints, seconds: float) -> tuple[Ints, Floats]:
        """Verdicts and points of these rows, within about `seconds` for each."""
        ends = time.process_time() + seconds * len(rows)
        verdict = np.full(len(box.x0), PROVEN, dtype=np.int64)
        point = box.x0.copy()
        of, low, high = rows.copy(), box.low[rows], box.high[rows]
        while len(of):
            if time.process_time() > ends:
                left = np.unique(of)
                verdict[left[verdict[left] != BROKEN]] = OPEN
                break
            now, later = slice(None, _AT_ONCE), slice(_AT_ONCE, None)
            parts = of[now], low[now], high[now]
            more = self._round(box, *parts, verdict, point)
            of, low, high = (
                np.concatenate([m, rest[later]])
                for m, rest in zip(more, (of, low, high), strict=True)
            )
            keep = verdict[of] == PROVEN  # nothing more to ask of a row that is broken or given up
            of, low, high = of[keep], low[keep], high[keep]
        return verdict[rows], point[rows]

    def _round(
        self, box: Box, of: Ints, low: Floats, high: Floats, verdict: Ints, point: Floats
    ) -> tuple[Ints, Floats, Floats]:
        """Look at some parts; the halves of those that stay."""
        x0 = box.x0[of]
        stays = ~self._refuted(x0, low, high)
        of, low, high, x0 = of[stays], low[stays], high[stays], x0[stays]
        if not len(of):
            return of, low, high
        part = replace(
            box, x0=x0, low=low, high=high,
            low_in=np.maximum(box.low_in[of], low), high_in=np.minimum(box.high_in[of], high),
            budget=tuple(replace(c, terms=tuple(_of(t, of) for t in c.terms), outer=c.outer[of],
                                 inner=c.inner[of]) for c in box.budget),
        )  # fmt: skip
        found, at = self.play(part, of, _SHARE)
        single = ((low == high) | np.isnan(x0)).all(1)
        found[single] = np.where(self.ask(low[single], of[single]), BROKEN, PROVEN)
        at[single] = low[single]
        broken = found == BROKEN
        verdict[of[broken]], point[of[broken]] = BROKEN, at[broken]
        going = (found == OPEN) & (verdict[of] == PROVEN)
        of = of[going]
        low, high, at, x0 = (v[going] for v in (low, high, at, x0))
        if not len(of):
            return of, low, high
        feature = self._where(at, x0, low, high, box.kind)
        stuck = feature < 0
        verdict[of[stuck]] = OPEN
        on = ~stuck
        return _bisect(of[on], low[on], high[on], feature[on], box.kind)

    def _refuted(self, x0: Floats, low: Floats, high: Floats) -> Bools:
        space = self.region.space
        boxes = Boxes(space.schema.layout, x0, low, high, float(space.tolerance))
        out = np.zeros(len(x0), dtype=bool)
        for r in self._relations:
            out |= boxes.refute(r)
        return out

    @cached_property
    def _relations(self) -> list[Relation]:
        schema = self.region.space.schema
        return [normal_form(r, schema.layout) for r in schema.relations]

    @cached_property
    def _places(self) -> list[Ints]:
        """The features whose present value each relation reads."""
        place = self.region.space.schema.layout.place
        return [np.array([place[name] for name in changing(r)], int) for r in self._relations]

    def _where(self, at: Floats, x0: Floats, low: Floats, high: Floats, kind: Kinds) -> Ints:
        """(n,) the feature to cut: the widest one of relations that the point breaks; -1: none."""
        space = self.region.space
        width = np.array([space.schema.layout.width(n) for n in space.schema.names])
        size = (high - low) / width
        room = np.where(kind == WHOLE, high > low, size > _NARROW) & (kind != CODES)
        room &= np.isfinite(size)  # no end, no middle
        size = np.where(room, size, 0.0)
        x, program = torch.from_numpy(at), space.schema.program
        held = program.holds(x, torch.from_numpy(x0), space.tolerance)
        named = np.zeros(low.shape, dtype=bool)
        for k, places in enumerate(self._places):
            named[np.ix_(~held[:, k].numpy(), places)] = True
        mine = np.where(named, size, 0.0)
        mine = np.where(mine.max(1)[:, None] > 0, mine, size)
        best: Ints = mine.argmax(1)
        return np.where(mine.max(1) > 0, best, -1)


def _of(term: Term, rows: Ints) -> Term:
    """A term of these rows."""
    return replace(term, a=term.a[rows], sets=None if term.sets is None else term.sets[rows])


def _bisect(
    of: Ints, low: Floats, high: Floats, feature: Ints, kind: Kinds
) -> tuple[Ints, Floats, Floats]:
    each = np.arange(len(of))
    a, b = low[each, feature], high[each, feature]
    middle = (a + b) / 2
    whole = kind[feature] == WHOLE
    first, second = high.copy(), low.copy()
    first[each, feature] = np.where(whole, np.floor(middle), middle)
    second[each, feature] = np.where(whole, np.floor(middle) + 1, middle)
    return np.concatenate([of, of]), np.concatenate([low, second]), np.concatenate([first, high])


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes [low, high] around records x0, all (n, d)."""

    layout: Layout
    x0: Floats
    low: Floats
    high: Floats
    tolerance: float

    def refute(self, r: Relation) -> Bools:
        """(n,) does a relation in normal form hold nowhere in the box?"""
        match r:
            case And():
                return np.asarray(np.any([self.refute(p) for p in r.operands], axis=0))
            case Or():
                return np.asarray(np.all([self.refute(p) for p in r.operands], axis=0))
            case Compare():
                with np.errstate(all="ignore"):
                    return self._compare(r) & self._known(r)
        return np.zeros(len(self.x0), dtype=bool)

    def _known(self, r: Compare) -> Bools:
        """(n,) is no value missing? A comparison with one is unknown, and accepted."""
        names = {c.name for c in columns(r)}
        places = sorted(self.layout.place[n] for n in names)
        return np.asarray(~np.isnan(self.x0[:, places]).any(axis=1))

    def _span(self, e: Expr) -> Range:
        """Intervals of expressions; a count by which of its parts can hold, and can fail."""
        if isinstance(e, Count):
            fails = [self.refute(p) for p in e.operands]
            holds = [self.refute(normal_form(~p, self.layout)) for p in e.operands]
            never, always = (np.asarray(np.sum(p, axis=0), dtype=float) for p in (fails, holds))
            return always, len(e.operands) - never
        return spans(e, self.layout.place, self.x0, self.low, self.high)

    def _compare(self, r: Compare) -> Bools:
        (a, b), (c, d) = self._span(r.left), self._span(r.right)
        size = np.maximum.reduce([abs(a), abs(b), abs(c), abs(d)])
        blur = 1e-12 * np.where(np.isfinite(size), size, 0.0)
        least, most = a - d - blur, b - c + blur  # of left - right
        whole = is_whole(r.left, self.layout) and is_whole(r.right, self.layout)
        unit = min(1.0, scale(r, self.layout))
        loose, tight = self.tolerance * np.maximum(unit, size), self.tolerance * unit
        if whole:
            loose, tight = np.minimum(loose, 0.49), min(tight, 0.49)
        if r.tolerance is not None:
            loose, tight = np.full_like(loose, r.tolerance), r.tolerance
        match r.op:
            case "<=":
                return np.asarray(least > loose)
            case "<":
                return np.asarray(least > (-0.75 if whole and r.tolerance is None else 0.0))
            case "==":
                return np.asarray((least > loose) | (most < -loose))
        return np.asarray((least >= -tight) & (most <= tight))
