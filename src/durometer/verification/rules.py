"""Relations between features, evaluated a second time: over their text's tree, in plain numpy.

The package's own way is a compiled program with intervals and repair; this one walks the tree. An
undefined number (a division by zero, a logarithm of nothing) breaks the relation it stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.relations.expression import And, Column, Compare, Const, Count, In, Op, Or, Where

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def relations_hold(
    relations: Sequence[Any], features: Sequence[Any], was: Floats, now: Floats, tolerance: float
) -> Bools:
    """(n,) whether every relation holds in a row."""
    walk = _Walk(features, was, now, tolerance)
    good = np.ones(len(now), bool)
    with np.errstate(all="ignore"):
        for relation in relations:
            good &= walk.holds(relation)
    return good


class _Walk:
    def __init__(self, features: Sequence[Any], was: Floats, now: Floats, tolerance: float) -> None:
        self.place = {f.name: j for j, f in enumerate(features)}
        self.features, self.was, self.now, self.tolerance = features, was, now, tolerance

    def sides(self, r: Compare) -> tuple[Floats, Floats]:
        """Both sides; a label is the code of the category on the other side."""
        left, right = r.left, r.right
        for a, b in ((left, right), (right, left)):
            if isinstance(a, Const) and isinstance(a.value, str) and isinstance(b, Column):
                f = self.features[self.place[b.name]]
                code = dict(zip(map(str, f.values), f.codes, strict=True))[a.value]
                left, right = (Const(code), b) if a is left else (b, Const(code))
                break
        return self.number(left), self.number(right)

    def number(self, e: Any) -> Floats:
        match e:
            case Const():
                return np.full(len(self.now), float(e.value))
            case Column():
                return np.asarray((self.was if e.clean else self.now)[:, self.place[e.name]])
            case Count():
                return np.asarray(sum(self.holds(p).astype(float) for p in e.operands))
            case Where():
                return np.asarray(
                    np.where(self.holds(e.test), self.number(e.yes), self.number(e.no))
                )
            case Op():
                return np.asarray(_operate(e.op, [self.number(a) for a in e.args]))
        raise TypeError(f"{type(e).__name__}: no number")

    def holds(self, r: Any) -> Bools:
        match r:
            case And():
                return np.asarray(np.all([self.holds(p) for p in r.operands], axis=0))
            case Or():
                return np.asarray(np.any([self.holds(p) for p in r.operands], axis=0))
            case In():
                same = [self.holds(Compare("==", r.item, v)) for v in r.values]
                other = [self.holds(Compare("!=", r.item, v)) for v in r.values]
                return np.asarray(np.all(other, axis=0) if r.negated else np.any(same, axis=0))
            case Compare():
                a, b = self.sides(r)
                slack: Any = r.tolerance
                if slack is None:
                    slack = self.tolerance * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
                same, less, more = np.abs(a - b) <= slack, a < b, a > b
                found = {"<=": less | same, "<": less & ~same, ">=": more | same,
                         ">": more & ~same, "==": same, "!=": ~same}[r.op]  # fmt: skip
                return np.asarray(found & np.isfinite(a) & np.isfinite(b))
        raise TypeError(f"{type(r).__name__}: no relation")


def _operate(op: str, a: list[Floats]) -> Any:
    match op:
        case "+":
            return np.sum(a, axis=0)
        case "*":
            return a[0] * a[1]
        case "neg":
            return -a[0]
        case "/":
            return np.where(a[1] == 0, np.nan, a[0] / a[1])
        case "divide":
            return np.where(a[1] == 0, a[2], a[0] / a[1])
        case "%":
            return np.where(a[1] == 0, np.nan, a[0] - a[1] * np.floor(a[0] / a[1]))
        case "**":
            return a[0] ** a[1]
        case "log":
            return np.where(a[0] > 0, np.log(a[0]), a[1] if len(a) > 1 else np.nan)
        case "abs":
            return np.abs(a[0])
        case "floor":
            return np.floor(a[0])
        case "min":
            return np.min(a, axis=0)
        case "max":
            return np.max(a, axis=0)
    raise TypeError(f"{op}: no operation")
