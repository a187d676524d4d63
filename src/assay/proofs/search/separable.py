"""Relations as separable constraints, row by row, as far as they are.

    linear                 sum a x <= b; a feature that cannot move is a constant, in products too
    products and ratios    sum k log x <= log c, where everything is positive in the row's box
    this or that           sum of 1[x_f outside the values that satisfy a part] <= parts - 1;
                           one part may be linear in several features: + big-M
    counts                 sum of 1[...]

What a reader would get wrong: a relation that is left out (`missed`) loosens the region, so proofs
stay proofs; points are checked against it by the region itself. The tolerance of a relation depends
on the values compared: the largest in the box goes into `outer`, the smallest into `inner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from assay.kernels.arrays import Bools, Floats
from assay.proofs.search.constraint import LINEAR, LOG, OUTSIDE, Constraint, Term
from assay.proofs.search.ranges import Range, span
from assay.relations.conditional import Count
from assay.relations.expression import And, Column, Compare, Const, Expr, Op, Or, Relation
from assay.relations.normal_form import Layout, is_whole, normal_form, scale
from assay.relations.program import Program, numbers
from assay.relations.tree import walk

_CLAUSES = 64  # a relation that multiplies out to more is left to the region
# Coefficients by feature; comparisons that are counted, with their weights; constant.
Sum = tuple[dict[int, Floats], list[tuple[Compare, Floats]], Floats]


@dataclass(frozen=True, eq=False)
class Separable:
    """The relations of a table around records x0, in boxes [low, high], all (n, d)."""

    layout: Layout
    x0: Floats
    low: Floats
    high: Floats
    tolerance: float

    @cached_property
    def free(self) -> Bools:
        """(d,) may the feature move, in some row?"""
        return np.asarray((self.low < self.high).any(axis=0))

    def read(self, relations: tuple[Relation, ...]) -> tuple[list[Constraint], Bools]:
        """The constraints, and (n,) for which rows they say all."""
        found: list[Constraint] = []
        complete = np.ones(len(self.x0), dtype=bool)
        for r in relations:
            clauses = list(_clauses(normal_form(r, self.layout)))
            if len(clauses) > _CLAUSES:
                complete[:] = False
                continue
            for clause in clauses:
                made = self._clause(clause)
                if made is None:
                    complete[:] = False
                    continue
                found += made[0]
                complete &= made[1]
        return found, complete

    # A clause: at least one of its comparisons holds.

    def _clause(self, parts: list[Compare]) -> tuple[list[Constraint], Bools] | None:
        n = len(self.x0)
        settled = np.zeros(n, dtype=bool)  # a part that cannot change holds
        moving = []
        for part in parts:
            if self._moves(part.left) or self._moves(part.right):
                moving.append(part)
            else:
                settled |= self._truth(part)
        everything = np.ones(n, dtype=bool)
        if not moving:
            never = np.full(n, -1.0)
            return [Constraint((), never, never).where(~settled)], everything
        if len(moving) == 1 and (alone := self._compare(moving[0])) is not None:
            return [c.where(~settled) for c in alone[0]], alone[1] | settled
        sets: dict[int, list[Floats]] = {}
        wide: list[list[Constraint]] = []
        for part in moving:
            single = self._values(part)
            if single is not None:
                sets.setdefault(single[0], []).append(single[1])
                continue
            linear = self._linear(part)
            if linear is None:
                return None
            wide.append(linear)
        if len(wide) > 1:
            return None
        outside = [
            Term(f, OUTSIDE, np.ones(n), np.concatenate(values, axis=1))
            for f, values in sets.items()
        ]
        count = np.full(n, len(outside) - 0.5)
        if not wide:
            return [Constraint(tuple(outside), count, count).where(~settled)], everything
        return [self._big(c, outside).where(~settled) for c in wide[0]], everything

    def _big(self, c: Constraint, outside: list[Term]) -> Constraint:
        """c, unless one of the sets is met: c + M (sets missed) <= b + M (number of sets)."""
        most = np.zeros(len(self.x0))
        for t in c.terms:
            lo, hi = self.low[:, t.feature], self.high[:, t.feature]
            with np.errstate(invalid="ignore"):
                most += np.nan_to_num(np.maximum(t.a * lo, t.a * hi), posinf=1e300)
        m = np.clip(most - np.minimum(c.outer, c.inner), 0.0, 1e12) * (1 + 1e-9) + 1e-9
        terms = tuple(Term(t.feature, OUTSIDE, m, t.sets) for t in outside)
        shift = m * len(outside)
        made = Constraint((*c.terms, *terms), c.outer + shift, c.inner + shift)
        return made.where(most < 1e11)

    # A comparison by itself.

    def _compare(self, r: Compare) -> tuple[list[Constraint], Bools] | None:
        n = len(self.x0)
        linear = self._linear(r)
        if linear is not None:
            return linear, np.ones(n, dtype=bool)
        single = self._values(r)
        if single is not None:
            term = Term(single[0], OUTSIDE, np.ones(n), single[1])
            half = np.full(n, 0.5)
            return [Constraint((term,), half, half)], np.ones(n, dtype=bool)
        return self._logarithms(r)

    def _linear(self, r: Compare) -> list[Constraint] | None:
        """Sums of features (and counts) on both sides."""
        left, right = self._sum(r.left), self._sum(r.right)
        if left is None or right is None or r.op == "!=":
            return None
        places, counted, constant = _minus(left, right)
        least, most = self._tolerance(r)
        if r.op == "<":
            least, most = -1.01 * most, -0.999 * least
            if is_whole(r.left, self.layout) and is_whole(r.right, self.layout):
                least = most = np.full(len(constant), -0.75)
        made = []
        for sign in (1.0, -1.0) if r.op == "==" else (1.0,):
            terms = [Term(i, LINEAR, sign * a) for i, a in places.items()]
            start = sign * constant
            for part, weight in counted:
                indicator = self._indicator(part, sign * weight)
                if indicator is None:
                    return None
                terms.append(indicator[0])
                start = start + indicator[1]
            size = 1e-12 * (np.abs(start) + self._size(terms))
            made.append(Constraint(tuple(terms), most - start + size, 0.999 * least - start))
        return made

    def _indicator(self, part: Compare, weight: Floats) -> tuple[Term, Floats] | None:
        """weight * 1[part holds] as a term that is >= 0, and a constant."""
        if (weight >= 0).all():
            values = self._values_of(~part)
            return None if values is None else (
                Term(values[0], OUTSIDE, weight, values[1]), np.zeros(len(weight)))  # fmt: skip
        values = self._values_of(part)
        if values is None or not (weight <= 0).all():
            return None
        return Term(values[0], OUTSIDE, -weight, values[1]), weight

    def _size(self, terms: list[Term]) -> Floats:
        total = np.zeros(len(self.x0))
        for t in terms:
            if t.phi == LINEAR:
                ends = np.maximum(np.abs(self.low[:, t.feature]), np.abs(self.high[:, t.feature]))
                total += np.abs(t.a) * np.where(np.isfinite(ends), ends, 0.0)
        return total

    def _tolerance(self, r: Compare) -> Range:
        """(n,) the least and the largest tolerance that the comparison may be judged with."""
        n = len(self.x0)
        if r.tolerance is not None:
            return np.full(n, r.tolerance), np.full(n, r.tolerance)
        sizes = [np.maximum(np.abs(a), np.abs(b)) for a, b in map(self._span, (r.left, r.right))]
        unit = min(1.0, scale(r, self.layout))
        most = self.tolerance * np.maximum(unit, np.maximum(*sizes))
        least = np.full(n, self.tolerance * unit)
        if is_whole(r.left, self.layout) and is_whole(r.right, self.layout):
            return np.minimum(least, 0.25), np.minimum(most, 0.49)
        return least, most

    def _logarithms(self, r: Compare) -> tuple[list[Constraint], Bools] | None:
        """c x^k y^m ... on both sides, where all of it is positive."""
        left, right = self._monomial(r.left), self._monomial(r.right)
        if left is None or right is None or r.op not in ("<=", "=="):
            return None
        powers = dict(left[0])
        for i, k in right[0].items():
            powers[i] = powers.get(i, 0.0) - k
        with np.errstate(all="ignore"):
            constant = np.log(left[1]) - np.log(right[1])
            positive = left[2] & right[2] & np.isfinite(constant)
            (a_low, a_high), (b_low, b_high) = self._span(r.left), self._span(r.right)
            positive &= (a_low > 0) & (b_low > 0)
            least, most = self._tolerance(r)
            unit = min(1.0, scale(r, self.layout))
            made = []
            for sign, low, high in ((1.0, b_low, b_high), (-1.0, a_low, a_high)):
                if r.tolerance is None:  # t / b with t = tolerance max(unit, a, b), a <= b + t
                    loose = self.tolerance * np.maximum(unit / low, 1.0) * 1.01
                    tight = 0.9 * self.tolerance * np.maximum(unit / high, 1.0)
                else:
                    loose, tight = most / low, 0.9 * least / high
                terms = tuple(
                    Term(i, LOG, np.full(len(self.x0), sign * k))
                    for i, k in powers.items() if k != 0
                )  # fmt: skip
                outer = np.log1p(loose) - sign * constant + 1e-12 * (1 + np.abs(constant))
                made.append(Constraint(terms, outer, np.log1p(tight) - sign * constant))
        chosen = made if r.op == "==" else made[:1]
        return [c.where(positive) for c in chosen], positive

    def _values(self, r: Compare) -> tuple[int, Floats] | None:
        """A comparison of one feature with a constant: the feature, and the values (n, k, 4)."""
        left, right = self._sum(r.left), self._sum(r.right)
        if left is None or right is None:
            return None
        places, counted, constant = _minus(left, right)
        places = {i: a for i, a in places.items() if (a != 0).any()}
        if counted or len(places) != 1:
            return None
        ((i, a),) = places.items()
        if (a == 0).any():
            return None
        least, most = self._tolerance(r)
        whole = is_whole(r.left, self.layout) and is_whole(r.right, self.layout)
        if whole:
            least, most = np.full_like(least, 0.25), np.full_like(most, 0.49)
        at, room, tight = -constant / a, most / np.abs(a), 0.999 * least / np.abs(a)
        pad = 1e-12 * (1 + np.abs(at))
        ever = np.full_like(at, np.inf)
        if r.op == "==":
            return i, np.stack([at - room - pad, at + room + pad, at - tight, at + tight], 1)[
                :, None
            ]
        if r.op == "!=":
            gap, wide = least / np.abs(a) * 0.999, most / np.abs(a) * 1.01
            below = np.stack([-ever, at - gap + pad, -ever, at - wide], axis=1)
            above = np.stack([at + gap - pad, ever, at + wide, ever], axis=1)
            return i, np.stack([below, above], axis=1)
        if r.op == "<":
            room, tight = -0.999 * least / np.abs(a), -1.01 * most / np.abs(a)
        upper = np.stack([-ever, at + room + pad, -ever, at + tight], axis=1)
        lower = np.stack([at - room - pad, ever, at - tight, ever], axis=1)
        return i, np.where((a > 0)[:, None], upper, lower)[:, None]

    # Expressions.

    def _span(self, e: Expr) -> Range:
        return span(e, self.layout.place, self.x0, self.low, self.high)

    def _moves(self, e: Expr) -> bool:
        return any(
            isinstance(c, Column) and not c.clean and self.free[self.layout.place[c.name]]
            for c in walk(e)
        )

    @cached_property
    def _rows(self) -> torch.Tensor:
        return torch.from_numpy(self.x0.T.copy())

    def _constant(self, e: Expr) -> Floats:
        """(n,) the value of what cannot move, NaN where it is undefined."""
        value, bad = numbers([e], self.layout)(self._rows, self._rows, self.tolerance)
        out = value.expand(1, len(self.x0))[0].numpy().copy()
        if bad is not None:
            out[bad.expand(1, len(self.x0))[0].numpy()] = np.nan
        return np.asarray(out)

    def _truth(self, r: Relation) -> Bools:
        x = torch.from_numpy(self.x0)
        held = Program((r,), self.layout).holds(x, x, self.tolerance)
        return np.asarray(held[:, 0].numpy())

    def _sum(self, e: Expr) -> Sum | None:
        n = len(self.x0)
        if not self._moves(e):
            value = self._constant(e)
            return None if np.isnan(value).any() else ({}, [], value)
        match e:
            case Column():
                return {self.layout.place[e.name]: np.ones(n)}, [], np.zeros(n)
            case Count():
                return self._count(e)
            case Op(op="neg"):
                return _scaled(self._sum(e.args[0]), np.full(n, -1.0))
            case Op(op="+"):
                total: Sum | None = ({}, [], np.zeros(n))
                for a in e.args:
                    total = _plus(total, self._sum(a))
                return total
            case Op(op="*" | "/"):
                a, b = e.args
                if not self._moves(b):
                    factor = self._constant(b)
                    return _scaled(self._sum(a), factor if e.op == "*" else 1 / factor)
                if e.op == "*" and not self._moves(a):
                    return _scaled(self._sum(b), self._constant(a))
        return None

    def _count(self, e: Count) -> Sum | None:
        n = len(self.x0)
        counted, constant = [], np.zeros(n)
        for part in e.operands:
            if not isinstance(part, Compare):
                return None
            if self._moves(part.left) or self._moves(part.right):
                counted.append((part, np.ones(n)))
            else:
                constant = constant + self._truth(part)
        return {}, counted, constant

    def _values_of(self, r: Relation) -> tuple[int, Floats] | None:
        made = normal_form(r, self.layout)
        return self._values(made) if isinstance(made, Compare) else None

    def _monomial(self, e: Expr) -> tuple[dict[int, float], Floats, Bools] | None:
        """Exponents by feature, the constant factor, and where all of it is positive."""
        n = len(self.x0)
        if not self._moves(e):
            value = self._constant(e)
            return {}, value, np.asarray(value > 0)
        match e:
            case Column():
                i = self.layout.place[e.name]
                return {i: 1.0}, np.ones(n), np.asarray(self.low[:, i] > 0)
            case Op(op="*" | "/" | "divide"):
                a, b = self._monomial(e.args[0]), self._monomial(e.args[1])
                if a is None or b is None:
                    return None
                sign = 1.0 if e.op == "*" else -1.0
                powers = dict(a[0])
                for i, k in b[0].items():
                    powers[i] = powers.get(i, 0.0) + sign * k
                with np.errstate(all="ignore"):
                    return powers, a[1] * b[1] if e.op == "*" else a[1] / b[1], a[2] & b[2]
            case Op(op="**", args=(inner, Const(value=k))):
                a = self._monomial(inner)
                if a is None:
                    return None
                with np.errstate(all="ignore"):
                    return {i: p * k for i, p in a[0].items()}, a[1] ** k, a[2]
        return None


def _clauses(r: Relation) -> Iterator[list[Compare]]:
    """A normal relation as clauses that must all hold."""
    match r:
        case And():
            for part in r.operands:
                yield from _clauses(part)
        case Or():
            made: list[list[Compare]] = [[]]
            for part in r.operands:
                alternatives = list(_clauses(part))
                made = [a + b for a in made for b in alternatives]
                if len(made) > _CLAUSES:
                    yield from made  # too many: the caller gives up
                    return
            yield from made
        case Compare():
            yield [r]


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


def _minus(a: Sum, b: Sum) -> Sum:
    total = _plus(a, _scaled(b, np.full(len(b[2]), -1.0)))
    assert total is not None
    return total
