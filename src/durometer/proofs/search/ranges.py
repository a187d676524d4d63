"""What values an expression can take in each row's box: interval arithmetic, all rows at once.

`relations.intervals` does the same once for a whole table; here every row has its own box, and the
original record is known. An interval is an outer bound; what cannot be bounded is (-inf, inf).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.relations.expression import Column, Const, Count, Expr, Op, Where

Range = tuple[Floats, Floats]


def span(e: Expr, place: Mapping[str, int], x0: Floats, low: Floats, high: Floats) -> Range:
    """(n,) lowest and highest value of `e` for records between low and high (n, d)."""
    n = len(x0)
    match e:
        case Const():
            return np.full(n, float(e.value)), np.full(n, float(e.value))
        case Column():
            i = place[e.name]
            return (x0[:, i], x0[:, i]) if e.clean else (low[:, i], high[:, i])
        case Count():
            return np.zeros(n), np.full(n, float(len(e.operands)))
        case Where():
            (a, b), (c, d) = (span(v, place, x0, low, high) for v in (e.yes, e.no))
            return np.minimum(a, c), np.maximum(b, d)
        case Op():
            with np.errstate(all="ignore"):
                return _operate(e.op, [span(a, place, x0, low, high) for a in e.args])
    return np.full(n, -np.inf), np.full(n, np.inf)


def _operate(op: str, args: list[Range]) -> Range:
    (a, b) = args[0]
    everything = np.full_like(a, -np.inf), np.full_like(a, np.inf)
    match op:
        case "neg":
            return -b, -a
        case "+":
            return sum(i[0] for i in args), sum(i[1] for i in args)  # type: ignore[return-value]
        case "*":
            return _corners([u * v for u in (a, b) for v in args[1]])
        case "/" | "divide":
            c, d = args[1]
            low, high = _corners([u / v for u in (a, b) for v in (c, d)])
            through = (c <= 0) & (d >= 0)
            return np.where(through, -np.inf, low), np.where(through, np.inf, high)
        case "**" if (
            (args[1][0] == args[1][1]).all()
            and (args[1][0] % 2 == 0).all()
            and (args[1][0] > 0).all()
        ):
            least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(abs(a), abs(b)))
            return least ** args[1][0], np.maximum(abs(a), abs(b)) ** args[1][0]
        case "**":
            low, high = _corners([u**v for u in (a, b) for v in args[1]])
            return np.where(a > 0, low, -np.inf), np.where(a > 0, high, np.inf)
        case "abs":
            least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(abs(a), abs(b)))
            return least, np.maximum(abs(a), abs(b))
        case "min":
            return np.minimum.reduce([i[0] for i in args]), np.minimum.reduce([i[1] for i in args])
        case "max":
            return np.maximum.reduce([i[0] for i in args]), np.maximum.reduce([i[1] for i in args])
        case "floor":
            return np.floor(a), np.floor(b)
        case "%":
            c, d = args[1]
            same = (c == d) & (c > 0) & (np.floor(a / c) == np.floor(b / c))
            at = np.floor(a / c) * c
            positive = c > 0
            low, high = np.where(positive, 0.0, -np.inf), np.where(positive, d, np.inf)
            return np.where(same, a - at, low), np.where(same, b - at, high)
        case "log" if len(args) == 1:
            return np.where(a > 0, np.log(a), -np.inf), np.where(b > 0, np.log(b), np.inf)
    return everything


def _corners(values: list[Floats]) -> Range:
    """The range of a function monotone in each argument; NaN (0 * inf) is anything."""
    stacked = np.stack(values)
    bad = np.isnan(stacked).any(axis=0)
    return np.where(bad, -np.inf, stacked.min(axis=0)), np.where(bad, np.inf, stacked.max(axis=0))
