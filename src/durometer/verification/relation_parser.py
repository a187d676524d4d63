"""Relations of a schema, read for one row as sums of functions of one feature each.

    ("and", parts) ("or", parts) ("sum", terms, bound) ("values", feature, intervals)

Features that cannot move are constants. Tolerances are those that a comparison is judged with where
it is judged most kindly. What is not such a sum is left out, and `complete` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
)
from durometer.verification.domain import Row, Term

Formula = tuple[Any, ...]
NOTHING: Formula = ("and", [])
_SWAP = {">=": "<=", ">": "<"}


@dataclass(eq=False)
class Reader:
    """Relations of a schema, for one row."""

    schema: Any
    row: Row
    tolerance: float
    complete: bool = True

    def __post_init__(self) -> None:
        self.place = {f.name: i for i, f in enumerate(self.schema.features)}

    def relation(self, r: Relation) -> Formula:
        match r:
            case And():
                return ("and", [self.relation(p) for p in r.operands])
            case Or():
                return ("or", [self.relation(p) for p in r.operands])
            case In():
                op, kind = ("!=", "and") if r.negated else ("==", "or")
                return (kind, [self.relation(Compare(op, r.item, v)) for v in r.values])
            case Compare():
                return self.compare(r.op, r.left, r.right, r.tolerance)
        self.complete = False
        return NOTHING

    def compare(self, op: str, left: Expr, right: Expr, slack: float | None) -> Formula:
        left, right = self._labels(left, right)
        if op in _SWAP:
            return self.compare(_SWAP[op], right, left, slack)
        if op in ("==", "!="):
            under, over = ("<=", "<=") if op == "==" else ("<", "<")
            both = [self.compare(under, left, right, slack), self.compare(over, right, left, slack)]
            if op == "!=":
                return ("or", both)
            values = [v for part in both for s in part[1] if s[0] == "values" for v in s[2]]
            if len(values) == 2:  # of one feature: between the two
                f = next(s[1] for s in both[0][1] if s[0] == "values")
                ends = [(max(a for a, _ in values), min(b for _, b in values))]
                both.append(("values", f, ends))
            return ("and", both)
        whole = self._whole(left) and self._whole(right)
        sums = self._minus(left, right)
        if sums is None:
            return self._ratio(op, left, right, slack)
        terms, constant = sums
        sizes = [self._size(left), self._size(right)]
        unit = min(1.0, float(np.hypot.reduce([t[2] * self._width(t[0]) for t in terms if t[1] == 0]
                                              or [1.0])))  # fmt: skip
        least = self.tolerance * unit if slack is None else slack
        most = self.tolerance * max(unit, *sizes) if slack is None else slack
        if op == "<":
            bound = -1.0 if whole else -least
        else:
            bound = min(most, 0.49) if whole and slack is None else most
        made: list[Formula] = [("sum", terms, bound - constant)]
        if len(terms) == 1 and terms[0][1] == 0:
            f, _, a, _ = terms[0]
            edge = (bound - constant) / a
            made.append(("values", f, [(-np.inf, edge)] if a > 0 else [(edge, np.inf)]))
        return ("and", made)

    def _ratio(self, op: str, left: Expr, right: Expr, slack: float | None) -> Formula:
        """Products and quotients of positive numbers, by their logarithms."""
        a, b = self._powers(left), self._powers(right)
        if a is None or b is None or op != "<=":
            self.complete = False
            return NOTHING
        powers = dict(a[0])
        for f, k in b[0].items():
            powers[f] = powers.get(f, 0.0) - k
        loose = -np.log1p(-self.tolerance)
        if slack is not None:
            ends = [min(k * np.log(v) for v in (self.row.low[f], self.row.high[f]))
                    for f, k in b[0].items()]  # fmt: skip
            loose = np.log1p(slack / np.exp(b[1] + sum(ends)))
        terms = [(f, 1, k, np.zeros((0, 2))) for f, k in powers.items() if k]
        return ("and", [("sum", terms, loose + b[1] - a[1])])

    def _powers(self, e: Expr) -> tuple[dict[int, float], float] | None:
        """Exponents of features that move, and the logarithm of the rest; all positive."""
        fixed = self._sum(e)
        if fixed is not None and not fixed[0]:
            return ({}, float(np.log(fixed[1]))) if fixed[1] > 0 else None
        match e:
            case Column():
                i = self.place[e.name]
                return ({i: 1.0}, 0.0) if self.row.low[i] > 0 else None
            case Op(op="*" | "/" | "divide"):
                a, b = self._powers(e.args[0]), self._powers(e.args[1])
                if a is None or b is None:
                    return None
                sign = 1.0 if e.op == "*" else -1.0
                powers = dict(a[0])
                for f, k in b[0].items():
                    powers[f] = powers.get(f, 0.0) + sign * k
                return powers, a[1] + sign * b[1]
            case Op(op="**", args=(inner, Const(value=k))):
                a = self._powers(inner)
                return None if a is None else ({f: p * k for f, p in a[0].items()}, a[1] * k)
        return None

    def _labels(self, left: Expr, right: Expr) -> tuple[Any, Any]:
        for a, b in ((left, right), (right, left)):
            if isinstance(a, Const) and isinstance(a.value, str) and isinstance(b, Column):
                f = self.schema.features[self.place[b.name]]
                code = Const(dict(zip(map(str, f.values), f.codes, strict=True))[a.value])
                return (code, b) if a is left else (b, code)
        return left, right

    def _minus(self, left: Expr, right: Expr) -> tuple[list[Term], float] | None:
        a, b = self._sum(left), self._sum(right)
        if a is None or b is None:
            return None
        terms = [*a[0], *((f, phi, -w, s) for f, phi, w, s in b[0])]
        linear: dict[int, float] = {}
        for f, phi, w, _ in terms:
            if phi == 0:
                linear[f] = linear.get(f, 0.0) + w
        made = [(f, 0, w, np.zeros((0, 2))) for f, w in linear.items() if w]
        return [*made, *(t for t in terms if t[1] == 4)], a[1] - b[1]

    def _sum(self, e: Expr) -> tuple[list[Term], float] | None:
        match e:
            case Const():
                return None if isinstance(e.value, str) else ([], float(e.value))
            case Column():
                i = self.place[e.name]
                fixed = e.clean or self.row.low[i] == self.row.high[i]
                if np.isnan(self.row.x0[i]):
                    return None
                return ([], self.row.x0[i]) if fixed else ([(i, 0, 1.0, np.zeros((0, 2)))], 0.0)
            case Count():
                return self._count(e)
            case Op(op="+" | "neg"):
                parts = [self._sum(a) for a in e.args]
                if any(p is None for p in parts):
                    return None
                sign = -1.0 if e.op == "neg" else 1.0
                terms = [(f, phi, sign * w, s) for p in parts if p for f, phi, w, s in p[0]]
                return terms, sign * sum(p[1] for p in parts if p)
            case Op(op="*" | "/"):
                a, b = (self._sum(v) for v in e.args)
                if a is None or b is None or (e.op == "/" and (b[0] or b[1] == 0)):
                    return None
                if b[0]:
                    a, b = b, a
                if b[0]:
                    return None
                k = b[1] if e.op == "*" else 1 / b[1]
                return [(f, phi, k * w, s) for f, phi, w, s in a[0]], k * a[1]
        return None

    def _count(self, e: Count) -> tuple[list[Term], float] | None:
        """A comparison counts 1 - [x outside the values where it holds]."""
        terms: list[Term] = []
        total = 0.0
        for part in e.operands:
            said = self.relation(part)
            held = [s for s in said[1] if s[0] == "values"]
            if said[0] == "or" and all(any(s[0] == "values" for s in p[1]) for p in said[1]):
                held = [s for p in said[1] for s in p[1] if s[0] == "values"]
                held = [("values", held[0][1], [v for s in held for v in s[2]])]
            if not held:
                fixed = [s for s in said[1] if s[0] == "sum"]
                if not fixed or any(s[1] for s in fixed):
                    return None
                total += float(all(s[2] >= 0 for s in fixed))
                continue
            f, sets = held[-1][1], held[-1][2]
            terms.append((f, 4, -1.0, np.array(sets)))
            total += 1.0
        return terms, total

    def _whole(self, e: Expr) -> bool:
        match e:
            case Const():
                return not isinstance(e.value, str) and float(e.value).is_integer()
            case Column():
                return bool(self.row.values[self.place[e.name]] == "whole")
            case Count():
                return True
            case Op():
                return e.op in ("neg", "+", "*") and all(self._whole(a) for a in e.args)
        return False

    def _width(self, f: int) -> float:
        low, high = self.schema.features[f].range
        return float(high - low) or 1.0

    def _size(self, e: Expr) -> float:
        terms, constant = self._sum(e) or ([], 0.0)
        ends = [(constant, constant)]
        for f, phi, a, _ in terms:
            sides = (a * self.row.low[f], a * self.row.high[f]) if phi == 0 else (a, 0.0)
            ends.append((min(sides), max(sides)))
        return float(max(abs(sum(low for low, _ in ends)), abs(sum(high for _, high in ends))))
