"""What values an expression can take, from the ranges of its features: plain interval arithmetic.

One evaluator serves a whole table (`interval`: a relation whose sides can never meet is reported
before any attack, and the width of a non-linear side tells in what units its violation is
measured) and every row's own box (`spans`: proofs). An interval is an outer bound: `a - a` gets
twice the width of `a`, and what cannot be bounded is (-inf, inf).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.relations.expression import (
    And,
    Column,
    Compare,
    Const,
    Count,
    Expr,
    In,
    Op,
    Or,
    Relation,
    Where,
)

Interval = tuple[float, float]
Range = tuple[Floats, Floats]  # of all rows, (n,), or of one, ()


def interval(e: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """Bounds on the value of `e` over all records within the features' ranges."""

    def of(column: Column) -> Range:
        low, high = ranges[column.name]
        return np.asarray(low, float), np.asarray(high, float)

    with np.errstate(all="ignore"):
        least, most = _bounds(e, of)
    return float(least), float(most)


def spans(e: Expr, place: Mapping[str, int], x0: Floats, low: Floats, high: Floats) -> Range:
    """(n,) lowest and highest value of `e` for records between low and high (n, d), where the
    original records are x0."""

    def of(column: Column) -> Range:
        i = place[column.name]
        return (x0[:, i], x0[:, i]) if column.clean else (low[:, i], high[:, i])

    with np.errstate(all="ignore"):
        least, most = _bounds(e, of)
    return np.broadcast_to(least, len(x0)), np.broadcast_to(most, len(x0))


def impossible(r: Relation, ranges: Mapping[str, Interval], slack: float = 1e-6) -> bool:
    """True only if no record within the ranges can satisfy the relation."""
    match r:
        case And():
            return any(impossible(p, ranges, slack) for p in r.operands)
        case Or():
            return all(impossible(p, ranges, slack) for p in r.operands)
        case In():
            same = [Compare("==", r.item, v) for v in r.values]
            return not r.negated and all(impossible(c, ranges, slack) for c in same)
        case Compare():
            a, b = interval(r.left, ranges), interval(r.right, ranges)
            unit = min(1.0, max(a[1] - a[0], b[1] - b[0]) or 1.0)
            size = max([unit, *(abs(v) for v in (*a, *b) if math.isfinite(v))])
            room = slack * size if r.tolerance is None else r.tolerance
            above, below = a[0] - b[1] > room, b[0] - a[1] > room
            return {"<=": above, "<": above, ">=": below, ">": below, "==": above or below}.get(
                r.op, False
            )
    return False


def _bounds(e: Expr, of: Callable[[Column], Range]) -> Range:
    match e:
        case Const():
            return np.asarray(float(e.value)), np.asarray(float(e.value))
        case Column():
            return of(e)
        case Count():
            return np.asarray(0.0), np.asarray(float(len(e.operands)))
        case Where():
            return _hull(_bounds(e.yes, of), _bounds(e.no, of))
        case Op():
            ends = np.broadcast_arrays(*(v for a in e.args for v in _bounds(a, of)))
            return _operate(e.op, list(zip(ends[::2], ends[1::2], strict=True)))
    return _everything(np.asarray(0.0))


def _everything(like: Floats) -> Range:
    return np.full_like(like, -np.inf), np.full_like(like, np.inf)


def _hull(a: Range, b: Range) -> Range:
    """Of both; a missing value (NaN) is anything."""
    low, high = np.minimum(a[0], b[0]), np.maximum(a[1], b[1])
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _corners(values: list[Floats]) -> Range:
    """The range of a function monotone in each argument; NaN and overflow are anything."""
    low, high = np.min(values, axis=0), np.max(values, axis=0)
    bad = np.isnan(low) | (low == np.inf) | (high == -np.inf)
    return np.where(bad, -np.inf, low), np.where(bad, np.inf, high)


def _times(u: Floats, v: Floats) -> Floats:
    """0 times what cannot be bounded is 0: values are finite."""
    return np.where((u == 0) | (v == 0), 0.0, u * v)


def _operate(op: str, args: list[Range]) -> Range:
    a, b = args[0]
    match op:
        case "neg":
            return -b, -a
        case "+":
            return np.sum([i[0] for i in args], axis=0), np.sum([i[1] for i in args], axis=0)
        case "*":
            return _corners([_times(u, v) for u in (a, b) for v in args[1]])
        case "/" | "divide":
            c, d = args[1]
            low, high = _corners([u / v for u in (a, b) for v in (c, d)])
            through = (c <= 0) & (d >= 0)
            return np.where(through, -np.inf, low), np.where(through, np.inf, high)
        case "fill":
            return _hull(args[0], args[1])
        case "**":
            return _power((a, b), args[1])
        case "%":
            c, d = args[1]
            same = (c == d) & (c > 0) & (np.floor(a / c) == np.floor(b / c))
            at = np.floor(a / c) * c
            low, high = np.where(c > 0, 0.0, -np.inf), np.where(c > 0, d, np.inf)
            return np.where(same, a - at, low), np.where(same, b - at, high)
        case "abs":
            return _size(a, b)
        case "min":
            return np.minimum.reduce([i[0] for i in args]), np.minimum.reduce([i[1] for i in args])
        case "max":
            return np.maximum.reduce([i[0] for i in args]), np.maximum.reduce([i[1] for i in args])
        case "floor":
            return np.floor(a), np.floor(b)
        case "log":
            inside = np.where(a > 0, np.log(a), -np.inf), np.where(b > 0, np.log(b), np.inf)
            return _hull(inside, args[1]) if len(args) == 2 else inside
    return _everything(a)


def _size(a: Floats, b: Floats) -> Range:
    """The range of |v| for v between a and b."""
    least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(abs(a), abs(b)))
    return least, np.maximum(abs(a), abs(b))


def _power(base: Range, power: Range) -> Range:
    low, high = _corners([u**v for u in base for v in power])
    low, high = np.where(base[0] > 0, low, -np.inf), np.where(base[0] > 0, high, np.inf)
    even = (power[0] == power[1]) & (power[0] > 0) & (power[0] % 2 == 0)
    least, most = _corners([end ** power[0] for end in _size(*base)])
    return np.where(even, least, low), np.where(even, most, high)
