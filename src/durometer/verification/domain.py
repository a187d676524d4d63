"""What constraints leave of a box of values, feature by feature, in plain numpy.

A constraint is a sum of functions of one feature each that is at most a bound:
a x, a log x, a |x - x0|, a (x - x0)^2, a [x outside a set].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Term = tuple[int, int, float, Floats]  # feature, phi (0 to 4, in the order above), a, sets (k, 2)
Constraint = tuple[float, list[Term]]  # bound, terms
FUZZ = 1e-12  # of everything that is added up


class Refused(Exception):
    """The certificate proves nothing; the reason."""


@dataclass(frozen=True, eq=False)
class Row:
    """One row: its values, the bounds of every valid point, and what values a feature takes."""

    x0: Floats
    low: Floats
    high: Floats
    values: tuple[Any, ...]  # of each feature: "real", "whole", "single" (float32) or its codes
    goal: NDArray[np.bool_]  # (classes,) which count as success

    def inwards(self) -> Row:
        """With bounds that are values of their features."""
        low, high = self.low.copy(), self.high.copy()
        for f in np.flatnonzero(~np.isnan(self.x0)).tolist():
            high[f] = self.floor(f, high[f])
            if (down := self.floor(f, low[f])) < low[f]:
                low[f] = self.after(f, down)
        return replace(self, low=low, high=high)

    def floor(self, f: int, t: float) -> float:
        """The largest value that is not above t."""
        kind = self.values[f]
        if isinstance(kind, str):
            if kind == "single":
                s = np.float32(t)
                return float(s if s <= t else np.nextafter(s, np.float32(-np.inf)))
            return float(np.floor(t)) if kind == "whole" else t
        below = [c for c in kind if c <= t]
        return max(below) if below else -np.inf

    def after(self, f: int, v: float) -> float:
        """The next value after v."""
        kind = self.values[f]
        if isinstance(kind, str):
            return v + 1 if kind == "whole" else float(np.nextafter(v, np.inf))
        above = [c for c in kind if c > v]
        return min(above) if above else np.inf

    def before(self, f: int, v: float) -> float:
        """A number that is below v and not below the value before it."""
        kind = self.values[f]
        if kind == "whole":
            return v - 1
        if kind == "single":
            return float(np.nextafter(np.float32(v), np.float32(-np.inf)))
        return float(np.nextafter(v, -np.inf))


def least(term: Term, x0: Floats, low: Any, high: Any) -> Any:
    """The smallest value of a term on [low, high]; arrays of bounds give arrays."""
    f, phi, a, sets = term
    if phi == 0:
        return a * (low if a > 0 else high)
    if phi == 1:
        with np.errstate(divide="ignore"):
            return a * np.log(np.maximum(low if a > 0 else high, 0.0))
    if phi < 4:
        off = np.maximum(np.maximum(low - x0[f], x0[f] - high), 0.0)
        return a * off ** (phi - 1)
    met = [(s0 <= high) & (low <= s1) for s0, s1 in sets]
    return a * (1.0 - np.any(met, axis=0)) if met else a * np.ones_like(low)


def tighten(row: Row, constraints: list[Constraint], low: Floats, high: Floats) -> bool:
    """Take away values, in place, that the constraints leave no room for; is any left?"""
    for _ in range(10):
        before = float((high - low).sum())
        for bound, terms in constraints:
            parts = [float(least(t, row.x0, low[t[0]], high[t[0]])) for t in terms]
            if not np.isfinite(total := sum(parts)):
                continue
            room = bound - total + FUZZ * (abs(bound) + sum(map(abs, parts)))
            if room < 0:
                return False
            for term, part in zip(terms, parts, strict=True):
                if not _shrink(row, term, part + room, low, high):
                    return False
        if not before - float((high - low).sum()) > 1e-3 * before:
            break
    return True


def _shrink(row: Row, term: Term, limit: float, low: Floats, high: Floats) -> bool:
    """Values of the term's feature where the term is at most `limit`."""
    f, phi, a, sets = term
    lo, hi, x0 = low[f], high[f], row.x0[f]
    if a == 0 or not np.isfinite(limit):
        return True
    if phi <= 1:
        with np.errstate(over="ignore"):
            edge = limit / a if phi == 0 else float(np.exp(limit / a))
        edge += (1 if a > 0 else -1) * 1e-11 * abs(edge)
        lo, hi = (lo, min(hi, edge)) if a > 0 else (max(lo, edge), hi)
    elif phi < 4:
        far = max(limit / a, 0.0) ** (1 / (phi - 1)) * (1 + 1e-11)
        lo, hi = max(lo, x0 - far - 1e-11 * abs(x0)), min(hi, x0 + far + 1e-11 * abs(x0))
    elif limit < a:
        met = [(max(lo, s0), min(hi, s1)) for s0, s1 in sets if s0 <= hi and lo <= s1]
        if not met:
            return False
        lo, hi = min(m[0] for m in met), max(m[1] for m in met)
    if row.values[f] == "whole":
        lo, hi = np.ceil(lo - 1e-9), np.floor(hi + 1e-9)
        if phi < 4:  # that tolerance may let in one number too many: asked by itself
            lo += bool(float(least(term, row.x0, lo, lo)) > limit)
            hi -= bool(float(least(term, row.x0, hi, hi)) > limit)
    elif not isinstance(row.values[f], str):
        inside = [c for c in row.values[f] if lo - 1e-9 <= c <= hi + 1e-9]
        if not inside:
            return False
        lo, hi = min(inside), max(inside)
    low[f], high[f] = max(low[f], lo), min(high[f], hi)
    return bool(low[f] <= high[f])
