"""Expressions of a relation in each row's box: what they are made of, as far as sums can say it.

A feature that cannot move is a constant, so that products with it are sums, too. Everything is for
all rows of a batch at once, with coefficients per row: a relation may name the original record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.relations.expression import Column, Compare, Const, Count, Expr, Op, Relation, walk
from durometer.relations.intervals import Range, spans
from durometer.relations.normal_form import Layout
from durometer.relations.program import Program, numbers

# Coefficients by feature; comparisons that are counted, with their weights; constant.
Sum = tuple[dict[int, Floats], list[tuple[Compare, Floats]], Floats]


@dataclass(frozen=True, eq=False)
class Expressions:
    """Relations around records x0, in boxes [low, high], all (n, d)."""

    layout: Layout
    x0: Floats
    low: Floats
    high: Floats
    tolerance: float

    def without_gaps(self) -> Expressions:
        """With 0 in missing cells, so that they spoil no other row of the batch."""
        gone = np.isnan(self.x0)
        sides = {k: np.where(gone, 0.0, getattr(self, k)) for k in ("x0", "low", "high")}
        return replace(self, **sides)

    def named(self, parts: Iterable[Expr | Relation]) -> Ints:
        """The features that these name, as they are or as they were."""
        names = {c.name for part in parts for c in walk(part) if isinstance(c, Column)}
        return np.array(sorted(self.layout.place[n] for n in names), dtype=np.int64)

    @cached_property
    def free(self) -> Bools:
        """(d,) may the feature move, in some row?"""
        return np.asarray((self.low < self.high).any(axis=0))

    def span(self, e: Expr) -> Range:
        return spans(e, self.layout.place, self.x0, self.low, self.high)

    def moves(self, e: Expr) -> bool:
        return any(
            isinstance(c, Column) and not c.clean and self.free[self.layout.place[c.name]]
            for c in walk(e)
        )

    @cached_property
    def _fixed(self) -> Floats:
        """(n, d) the values of what cannot move: in a part of a box not those of the record."""
        return np.where(self.free, self.x0, self.low)

    def constant(self, e: Expr) -> Floats:
        """(n,) the value of what cannot move, NaN where it is undefined."""
        now, was = (torch.from_numpy(x.T.copy()) for x in (self._fixed, self.x0))
        value, bad = numbers([e], self.layout)(now, was, self.tolerance)
        out = value.expand(1, len(self.x0))[0].numpy().copy()
        if bad is not None:
            out[bad.expand(1, len(self.x0))[0].numpy()] = np.nan
        return np.asarray(out)

    def truth(self, r: Relation) -> Bools:
        now, was = torch.from_numpy(self._fixed), torch.from_numpy(self.x0)
        held = Program((r,), self.layout).holds(now, was, self.tolerance)
        return np.asarray(held[:, 0].numpy())

    def sum(self, e: Expr) -> Sum | None:
        n = len(self.x0)
        if not self.moves(e):
            value = self.constant(e)
            return None if np.isnan(value).any() else ({}, [], value)
        match e:
            case Column():
                return {self.layout.place[e.name]: np.ones(n)}, [], np.zeros(n)
            case Count():
                return self._count(e)
            case Op(op="neg"):
                return _scaled(self.sum(e.args[0]), np.full(n, -1.0))
            case Op(op="+"):
                total: Sum | None = ({}, [], np.zeros(n))
                for a in e.args:
                    total = _plus(total, self.sum(a))
                return total
            case Op(op="*" | "/"):
                a, b = e.args
                if not self.moves(b):
                    factor = self.constant(b)
                    return _scaled(self.sum(a), factor if e.op == "*" else 1 / factor)
                if e.op == "*" and not self.moves(a):
                    return _scaled(self.sum(b), self.constant(a))
        return None

    def _count(self, e: Count) -> Sum | None:
        n = len(self.x0)
        counted, constant = [], np.zeros(n)
        for part in e.operands:
            if not isinstance(part, Compare):
                return None
            if self.moves(part.left) or self.moves(part.right):
                counted.append((part, np.ones(n)))
            else:
                constant = constant + self.truth(part)
        return {}, counted, constant

    def monomial(self, e: Expr) -> tuple[dict[int, float], Floats, Bools] | None:
        """Exponents by feature, the constant factor, and where all of it is positive."""
        n = len(self.x0)
        if not self.moves(e):
            value = self.constant(e)
            return {}, value, np.asarray(value > 0)
        match e:
            case Column():
                i = self.layout.place[e.name]
                return {i: 1.0}, np.ones(n), np.asarray(self.low[:, i] > 0)
            case Op(op="*" | "/" | "divide"):
                a, b = self.monomial(e.args[0]), self.monomial(e.args[1])
                if a is None or b is None:
                    return None
                sign = 1.0 if e.op == "*" else -1.0
                powers = dict(a[0])
                for i, k in b[0].items():
                    powers[i] = powers.get(i, 0.0) + sign * k
                with np.errstate(all="ignore"):
                    return powers, a[1] * b[1] if e.op == "*" else a[1] / b[1], a[2] & b[2]
            case Op(op="**", args=(inner, Const(value=k))):
                a = self.monomial(inner)
                if a is None:
                    return None
                with np.errstate(all="ignore"):
                    return {i: p * k for i, p in a[0].items()}, a[1] ** k, a[2]
        return None


def _plus(a: Sum | None, b: Sum | None) -> Sum | None:
    if a is None or b is None:
        return None
    places = dict(a[0])
    for i, c in b[0].items():
        places[i] = places[i] + c if i in places else c
    return places, a[1] + b[1], a[2] + b[2]


def _scaled(a: Sum | None, factor: Floats) -> Sum | None:
    if a is None or not np.isfinite(factor).all():
        return None
    places = {i: c * factor for i, c in a[0].items()}
    return places, [(part, w * factor) for part, w in a[1]], a[2] * factor


def minus(a: Sum, b: Sum) -> Sum:
    """The difference of two sums."""
    total = _plus(a, _scaled(b, np.full(len(b[2]), -1.0)))
    assert total is not None
    return total
