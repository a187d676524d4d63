"""What values an expression can take, from the ranges of its features: plain interval arithmetic.

Used twice: a relation whose sides can never meet is reported before any attack, and the width of a
non-linear side tells in what units its violation should be measured. An interval is an outer bound:
`a - a` gets twice the width of `a`, and what cannot be bounded is (-inf, inf).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

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
_ALL: Interval = (-math.inf, math.inf)


def interval(e: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """Bounds on the value of `e` over all records within the features' ranges."""
    match e:
        case Const():
            return (float(e.value), float(e.value))
        case Column():
            return ranges[e.name]
        case Count():
            return (0.0, float(len(e.operands)))
        case Where():
            return _hull([interval(e.yes, ranges), interval(e.no, ranges)])
        case Op():
            return _operate(e.op, [interval(a, ranges) for a in e.args])
    return _ALL


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


def _hull(intervals: list[Interval]) -> Interval:
    return (min(i[0] for i in intervals), max(i[1] for i in intervals))


def _corners(f: Callable[[float, float], float], a: Interval, b: Interval) -> Interval:
    """The range of a function that is monotone in each argument."""
    values = []
    for u, v in product(a, b):
        try:
            value = f(u, v)
        except (OverflowError, ZeroDivisionError, ValueError):
            return _ALL
        if isinstance(value, complex) or math.isnan(value):
            return _ALL
        values.append(value)
    return (min(values), max(values))


def _times(u: float, v: float) -> float:
    return 0.0 if u == 0 or v == 0 else u * v


def _operate(op: str, args: list[Interval]) -> Interval:
    a = args[0]
    match op:
        case "neg":
            return (-a[1], -a[0])
        case "+":
            return (sum(i[0] for i in args), sum(i[1] for i in args))
        case "*":
            return _corners(_times, a, args[1])
        case "/":
            b = args[1]
            return _ALL if b[0] <= 0 <= b[1] else _corners(lambda u, v: u / v, a, b)
        case "divide":
            # Away from 0 the quotient is unbounded; counts and amounts meet 0 or at least 1.
            b = args[1]
            return _ALL if b[0] <= 0 <= b[1] else _corners(lambda u, v: u / v, a, b)
        case "fill":
            return _hull([a, args[1]])
        case "**":
            return _ALL if a[0] <= 0 else _corners(lambda u, v: u**v, a, args[1])
        case "%":
            b = args[1]
            return (0.0, b[1]) if b[0] > 0 else _ALL
        case "abs":
            low = 0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
            return (low, max(abs(a[0]), abs(a[1])))
        case "min":
            return (min(i[0] for i in args), min(i[1] for i in args))
        case "max":
            return (max(i[0] for i in args), max(i[1] for i in args))
        case "floor":
            return tuple(math.floor(v) if math.isfinite(v) else v for v in a)  # type: ignore[return-value]
        case "log":
            inside = (
                math.log(a[0]) if a[0] > 0 else -math.inf,
                math.log(a[1]) if a[1] > 0 else 0.0,
            )
            return _hull([inside, args[1]]) if len(args) == 2 else inside
    return _ALL
