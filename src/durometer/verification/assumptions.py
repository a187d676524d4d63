"""May a certificate assume what it assumes? Its constraints against the space, in plain numpy.

The search turns a schema's relations into sums by rewriting them. Here nothing is rewritten: each
relation is read as it stands, for one row, and a constraint of a certificate is accepted where one
of the things that hold for every valid point implies it:

    "this and that" implies it if one of the two does; "this or that" if both do
    a sum <= b implies it if their difference, feature by feature, is at most the bounds' difference
    "x is one of these values" implies it if it holds for them and for all values of the others

What a reader would get wrong: a constraint that is not accepted need not be wrong. Where a relation
is beyond these rules, `Space.complete` says so, and the proof is unchecked rather than refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from durometer.verification.domain import Constraint, Floats, Row, Term
from durometer.verification.judge import each
from durometer.verification.relation_parser import NOTHING, Formula, Reader

Intervals = list[tuple[float, float]]
_CATEGORY = {0.0: 1.0, 1.0: 2.0, 2.0: 2.0, np.inf: 1.0}  # another category, to the power of p
_NORMS = {"Linf": np.inf, "L2": 2.0, "L1": 1.0, "L0": 0.0}
KNOWN = (*_NORMS, "TableSpace")


@dataclass(eq=False)
class Space:
    """What a space says of valid points around one row."""

    row: Row
    formulas: list[Formula] = field(default_factory=list)
    complete: bool = True  # every relation was understood

    def implies(self, claim: Constraint) -> bool:
        """Does every valid point satisfy this constraint?"""
        return _trivial(claim, self.row) or any(_implies(s, claim, self.row) for s in self.formulas)


def around(space: Mapping[str, Any], schema: Any, x0: Floats, goal: Any, single: bool) -> Space:
    """The space of a spec (its table) around one row; `single`: inputs are float32."""
    shape, kind = x0.shape, space["type"]
    x0 = x0.reshape(-1)
    d = len(x0)
    none = np.zeros((0, 2))
    if kind in _NORMS:
        p, own = _NORMS[kind], each(space["eps"], shape)
        eps = float(own.max())
        width = own / eps if np.ndim(space["eps"]) else np.ones(d)
        may = width > 0
        unit = float(np.finfo(np.float32 if single else np.float64).eps) * float(np.abs(x0).max())
        rounding = unit * float(np.linalg.norm(1 / width[may], p)) if p > 0 else 0.0
        reach = eps if p == 0 else eps * (1 + 1e-6) + rounding
        low, high = (each(space.get(k, v), shape) for k, v in (("low", 0.0), ("high", 1.0)))
        if p > 0:
            low, high = np.maximum(low, x0 - reach * width), np.minimum(high, x0 + reach * width)
        row = Row(x0, low, high, ("single" if single else "real",) * d, goal).inwards()
        free = [(i, 1 / float(width[i]), 1.0, False) for i in np.flatnonzero(may).tolist()]
        return Space(row, [_ball(p, reach, free, x0)])
    tolerance, money = float(space.get("tolerance", 1e-6)), space.get("cost")
    p = float(space.get("p", 2.0)) if "eps" in space else 1.0
    reach = float(space.get("eps", money)) * (1 + 1e-9)
    priced = "eps" not in space
    low, high = np.empty(d), np.empty(d)
    values: list[Any] = []
    for i, f in enumerate(schema.features):
        unit = 1 / max(f.cost or 0.0, 1e-9) if priced else f.range[1] - f.range[0]
        for to, side, sign in ((low, f.low, -1.0), (high, f.high, 1.0)):
            bound = x0[i] if isinstance(side, str) else sign * np.inf if side is None else side
            to[i] = bound + sign * 1.2e-7 * max(1.0, abs(bound)) if np.isfinite(bound) else bound
        values.append(tuple(sorted(f.codes)) if f.kind == "category" else
                      "real" if f.kind == "real" else "whole")  # fmt: skip
        if f.kind == "boolean":
            low[i], high[i] = 0.0, 1.0
        if f.kind == "category":
            size = (f.cost or 0.0) if priced else _CATEGORY[p]
            far = size > (reach**2 if p == 2 else reach)
            low[i], high[i] = (x0[i], x0[i]) if far else (values[-1][0], values[-1][-1])
        elif p > 0:
            low[i], high[i] = (
                max(low[i], x0[i] - reach * unit),
                min(high[i], x0[i] + reach * unit),
            )
        if not f.mutable or np.isnan(x0[i]):
            low[i] = high[i] = x0[i]
    row = Row(x0, low, high, tuple(values), goal).inwards()
    groups: dict[str, list[int]] = {}
    for i, f in enumerate(schema.features):
        if f.group:
            groups.setdefault(f.group, []).append(i)
    sizes = [(f.range[1] - f.range[0], f.cost or 0.0, f.kind == "category", bool(f.group))
             for f in schema.features]  # fmt: skip
    moves = [i for i in range(d) if row.low[i] < row.high[i]]
    formulas: list[Formula] = []
    if not priced:
        change = [(i, 1 / (sizes[i][0] or 1.0), 0.5 if p == 0 and sizes[i][3] else _CATEGORY[p],
                   sizes[i][2]) for i in moves]  # fmt: skip
        formulas.append(_ball(p, reach, change, x0))
    if money is not None:
        change = [(i, sizes[i][1], sizes[i][1], sizes[i][2]) for i in moves]
        formulas.append(_ball(1.0, float(money) * (1 + 1e-9), change, x0))
    for members in groups.values():
        one = [(i, 0, 1.0, none) for i in members]
        less = [(i, 0, -1.0, none) for i in members]
        formulas += [("sum", one, 1.0), ("sum", less, -1.0)]
    reader = Reader(schema, row, tolerance)
    formulas += [reader.relation(r) for r in schema.relations]
    return Space(row, formulas, reader.complete)


def _ball(
    p: float, reach: float, moves: list[tuple[int, float, float, bool]], x0: Floats
) -> Formula:
    """Moves: feature, 1 / width, what another category (or any change, in L0) counts, is it one."""
    terms: list[Term] = []
    for i, rate, change, code in moves:
        if p == 0 or code:
            terms.append((i, 4, change, np.array([[x0[i], x0[i]]])))
        elif p < np.inf:
            terms.append((i, 2 if p == 1 else 3, rate**p, np.zeros((0, 2))))
    if p == np.inf:
        return NOTHING
    return ("sum", terms, np.floor(reach + 1e-9) if p == 0 else reach**p)


def _implies(formula: Formula, claim: Constraint, row: Row) -> bool:
    if formula[0] == "and":
        return any(_implies(s, claim, row) for s in formula[1])
    if formula[0] == "or":
        return all(_implies(s, claim, row) for s in formula[1])
    bound, terms = claim
    if formula[0] == "sum":
        _, given, most = formula
        if not given:
            return bool(most < 0)  # never holds: everything follows
        less = [(f, phi, -a, sets) for f, phi, a, sets in given]
        return _at_most([*terms, *less], bound - most, row, {})
    return _at_most(terms, bound, row, {formula[1]: formula[2]})


def _trivial(claim: Constraint, row: Row) -> bool:
    return claim[0] >= 1e299 or _at_most(claim[1], claim[0], row, {})


def _at_most(terms: list[Term], bound: float, row: Row, only: dict[int, Intervals]) -> bool:
    """Is the sum at most the bound, for all values in the row's bounds (and these intervals)?"""
    total, size = 0.0, abs(bound)
    for f in {t[0] for t in terms}:
        mine = [t for t in terms if t[0] == f]
        parts = only.get(f, [(-np.inf, np.inf)])
        boxes = [(max(a, row.low[f]), min(b, row.high[f])) for a, b in parts]
        found = [_most(mine, a, b, row, f) for a, b in boxes if a <= b]
        if not found:
            return True  # the feature has no value left: nothing to ask
        total += max(v for v, _ in found)
        size += max(s for _, s in found)
    return bool(total <= bound + 1e-9 * size)


def _most(terms: list[Term], low: float, high: float, row: Row, f: int) -> tuple[float, float]:
    """The most that functions of one feature reach on [low, high], and the size of their parts."""
    smooth = {phi: sum(t[2] for t in terms if t[1] == phi) for phi in range(4)}
    scale = {phi: max((abs(t[2]) for t in terms if t[1] == phi), default=0.0) for phi in range(4)}
    smooth = {phi: 0.0 if abs(a) <= 1e-12 * scale[phi] else a for phi, a in smooth.items()}
    steps = [t for t in terms if t[1] == 4]
    ends = sorted({low, high, *(e for t in steps for e in t[3].ravel() if low < e < high)})
    pieces = [(e, e) for e in ends] + [(a, b) for a, b in pairwise(ends)]
    best, size = -np.inf, 0.0
    for a, b in pieces:
        middle = (
            a
            if a == b
            else a + (b - a) / 2
            if np.isfinite(b - a)
            else (b - 1 if np.isfinite(b) else a + 1)
        )
        if not _some(row, f, a, b):
            continue
        value = 0.0
        for phi, k in smooth.items():
            if k:
                shown = [_phi(phi, v, row.x0[f]) for v in (a, b)]
                if phi >= 2 and a < row.x0[f] < b:
                    shown.append(0.0)
                value += max(k * v for v in shown)
                size = max(size, *(abs(k * v) for v in shown))
        for _, _, w, sets in steps:
            inside = any(s0 <= middle <= s1 for s0, s1 in sets)
            value += 0.0 if inside else w
            size = max(size, abs(w))
        best = max(best, value)
    return best, size


def _phi(phi: int, v: float, x0: float) -> float:
    if phi == 0:
        return v
    return float(np.log(v)) if phi == 1 else abs(v - x0) ** (phi - 1)


def _some(row: Row, f: int, a: float, b: float) -> bool:
    """Does the feature take a value at a (a == b) or strictly between a and b?"""
    kind = row.values[f]
    if isinstance(kind, str):
        if kind != "whole" or not (np.isfinite(a) and np.isfinite(b)):
            return True
        return a == np.floor(a) if a == b else bool(np.floor(a) + 1 < b)
    return any(c == a if a == b else a < c < b for c in kind)
