"""Relations between features, evaluated a second time: over their text's tree, in plain numpy.

The package's own way is a compiled program with intervals and repair; this one walks the tree. An
undefined number (a division by zero, a logarithm of nothing) breaks the relation it stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.relations.conditional import Count, Where
from assay.relations.expression import And, Column, Compare, Const, In, Op, Or

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def relations_hold(
    relations: Sequence[Any], names: Sequence[str], was: Floats, now: Floats, tolerance: float
) -> Bools:
    """(n,) whether every relation holds in a row."""
    place = {name: j for j, name in enumerate(names)}
    walk = _Walk(place, was, now, tolerance)
    good = np.ones(len(now), bool)
    with np.errstate(all="ignore"):
        for relation in relations:
            good &= walk.holds(relation)
    return good


class _Walk:
    def __init__(self, place: dict[str, int], was: Floats, now: Floats, tolerance: float) -> None:
        self.place, self.was, self.now, self.tolerance = place, was, now, tolerance

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
                a, b = self.number(r.left), self.number(r.right)
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
