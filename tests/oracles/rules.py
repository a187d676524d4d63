"""A second opinion on relations in plain Python: no tensors, no shapes, one record at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from durometer.relations.expression import And, Column, Compare, Const, Count, In, Op, Or, Where


class Undefined(Exception):
    pass


def number(e: Any, now: dict[str, float], was: dict[str, float]) -> float:
    match e:
        case Const():
            return float(e.value)
        case Column():
            return (was if e.clean else now)[e.name]
        case Count():
            return float(sum(holds(p, now, was) for p in e.operands))
        case Where():
            return number(e.yes if holds(e.test, now, was) else e.no, now, was)
        case Op():
            return _operate(e.op, [number(a, now, was) for a in e.args])
    raise AssertionError(e)


def _operate(op: str, a: list[float]) -> float:
    if op == "+":
        return sum(a)
    if op == "*":
        return a[0] * a[1]
    if op == "neg":
        return -a[0]
    if op in ("/", "%", "divide") and a[1] == 0:
        if op == "divide":
            return a[2]
        raise Undefined
    if op in ("/", "divide"):
        return a[0] / a[1]
    if op == "%":
        return a[0] - a[1] * math.floor(a[0] / a[1])
    if op == "**":
        if (a[0] < 0 and not float(a[1]).is_integer()) or (a[0] == 0 and a[1] < 0):
            raise Undefined
        return float(np.float64(a[0]) ** np.float64(a[1]))
    if op == "log":
        if a[0] <= 0 and len(a) == 1:
            raise Undefined
        return a[1] if a[0] <= 0 else math.log(a[0])
    if op == "fill":
        return a[1] if math.isnan(a[0]) else a[0]
    return {"abs": lambda: abs(a[0]), "min": lambda: min(a), "max": lambda: max(a),
            "floor": lambda: float(math.floor(a[0]))}[op]()  # fmt: skip


def holds(r: Any, now: dict[str, float], was: dict[str, float], tolerance: float = 1e-6) -> bool:
    match r:
        case And():
            return all(holds(p, now, was) for p in r.operands)
        case Or():
            return any(holds(p, now, was) for p in r.operands)
        case In():
            if r.negated:
                return all(holds(Compare("!=", r.item, v), now, was) for v in r.values)
            return any(holds(Compare("==", r.item, v), now, was) for v in r.values)
        case Compare():
            try:
                a, b = number(r.left, now, was), number(r.right, now, was)
            except Undefined:
                return False
            if not (math.isfinite(a) and math.isfinite(b)):
                return False
            slack = tolerance * max(1.0, abs(a), abs(b)) if r.tolerance is None else r.tolerance
            same = abs(a - b) <= slack
            return {"<=": a < b or same, "<": a < b and not same, ">=": a > b or same,
                    ">": a > b and not same, "==": same, "!=": not same}[r.op]  # fmt: skip
    raise AssertionError(r)
