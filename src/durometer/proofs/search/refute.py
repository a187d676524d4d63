"""Is a relation broken by every record of a box? By intervals, all boxes at once.

    a <= b    broken everywhere if the least of a is above the most of b, tolerance added
    a == b    ... or the other way round          and: one part is      or: all parts are

What a reader would get wrong: "not refuted" says nothing. Intervals forget that the same feature
stands on both sides, and what is undefined somewhere in the box is never refuted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.search.ranges import Range, span
from durometer.relations.conditional import Count
from durometer.relations.expression import And, Column, Compare, Expr, Or, Relation
from durometer.relations.normal_form import Layout, is_whole, normal_form, scale
from durometer.relations.tree import walk


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
        names = {c.name for c in walk(r) if isinstance(c, Column)}
        places = sorted(self.layout.place[n] for n in names)
        return np.asarray(~np.isnan(self.x0[:, places]).any(axis=1))

    def _span(self, e: Expr) -> Range:
        """Intervals of expressions; a count by which of its parts can hold, and can fail."""
        if isinstance(e, Count):
            fails = [self.refute(p) for p in e.operands]
            holds = [self.refute(normal_form(~p, self.layout)) for p in e.operands]
            never, always = (np.asarray(np.sum(p, axis=0), dtype=float) for p in (fails, holds))
            return always, len(e.operands) - never
        return span(e, self.layout.place, self.x0, self.low, self.high)

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
