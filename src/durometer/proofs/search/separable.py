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

import numpy as np

from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.search.constraint import LINEAR, LOG, OUTSIDE, Constraint, Term
from durometer.proofs.search.expressions import Expressions, minus
from durometer.relations.expression import And, Compare, Or, Relation
from durometer.relations.intervals import Range
from durometer.relations.normal_form import is_whole, normal_form, scale

_CLAUSES = 64  # a relation that multiplies out to more is left to the region


@dataclass(frozen=True, eq=False)
class Separable:
    """Relations as constraints, for the rows and boxes that their expressions are read on."""

    on: Expressions

    def read(self, relations: tuple[Relation, ...]) -> tuple[list[Constraint], Bools]:
        """The constraints, and (n,) for which rows they say all.

        A clause that names a missing cell is left out of that row: unknown comparisons are
        accepted, and what `fill` makes of them is left to the region.
        """
        found: list[Constraint] = []
        complete = np.ones(len(self.on.x0), dtype=bool)
        missing = np.isnan(self.on.x0)
        without_gaps = Separable(self.on.without_gaps()) if missing.any() else self
        for r in relations:
            clauses = list(_clauses(normal_form(r, self.on.layout)))
            if len(clauses) > _CLAUSES:
                complete[:] = False
                continue
            for clause in clauses:
                made = without_gaps.clause(clause)
                if made is None:
                    complete[:] = False
                    continue
                known: Bools = np.asarray(~missing[:, self.on.named(clause)].any(axis=1))
                found += [c.where(known) for c in made[0]]
                complete &= made[1] & known
        return found, complete

    # A clause: at least one of its comparisons holds.

    def clause(self, parts: list[Compare]) -> tuple[list[Constraint], Bools] | None:
        n = len(self.on.x0)
        settled = np.zeros(n, dtype=bool)  # a part that cannot change holds
        moving = []
        for part in parts:
            if self.on.moves(part.left) or self.on.moves(part.right):
                moving.append(part)
            else:
                settled |= self.on.truth(part)
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
        most = np.zeros(len(self.on.x0))
        for t in c.terms:
            if t.phi == OUTSIDE:
                most += t.a
                continue
            lo, hi = self.on.low[:, t.feature], self.on.high[:, t.feature]
            with np.errstate(invalid="ignore"):
                most += np.nan_to_num(np.maximum(t.a * lo, t.a * hi), nan=1e300, posinf=1e300)
        m = np.clip(most - np.minimum(c.outer, c.inner), 0.0, 1e12) * (1 + 1e-9) + 1e-9
        terms = tuple(Term(t.feature, OUTSIDE, m, t.sets) for t in outside)
        shift = m * len(outside)
        made = Constraint((*c.terms, *terms), c.outer + shift, c.inner + shift)
        return made.where(most < 1e11)

    # A comparison by itself.

    def _compare(self, r: Compare) -> tuple[list[Constraint], Bools] | None:
        n = len(self.on.x0)
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
        left, right = self.on.sum(r.left), self.on.sum(r.right)
        if left is None or right is None or r.op == "!=":
            return None
        places, counted, constant = minus(left, right)
        least, most = self._tolerance(r)
        if r.op == "<":
            least, most = -1.01 * most, -0.999 * least
            if is_whole(r.left, self.on.layout) and is_whole(r.right, self.on.layout):
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
        total = np.zeros(len(self.on.x0))
        for t in terms:
            if t.phi == LINEAR:
                ends = np.maximum(
                    np.abs(self.on.low[:, t.feature]), np.abs(self.on.high[:, t.feature])
                )
                total += np.abs(t.a) * np.where(np.isfinite(ends), ends, 0.0)
        return total

    def _tolerance(self, r: Compare) -> Range:
        """(n,) the least and the largest tolerance that the comparison may be judged with."""
        n = len(self.on.x0)
        if r.tolerance is not None:
            return np.full(n, r.tolerance), np.full(n, r.tolerance)
        sizes = [np.maximum(np.abs(a), np.abs(b)) for a, b in map(self.on.span, (r.left, r.right))]
        unit = min(1.0, scale(r, self.on.layout))
        most = self.on.tolerance * np.maximum(unit, np.maximum(*sizes))
        least = np.full(n, self.on.tolerance * unit)
        if is_whole(r.left, self.on.layout) and is_whole(r.right, self.on.layout):
            return np.minimum(least, 0.25), np.minimum(most, 0.49)
        return least, most

    def _logarithms(self, r: Compare) -> tuple[list[Constraint], Bools] | None:
        """c x^k y^m ... on both sides, where all of it is positive."""
        left, right = self.on.monomial(r.left), self.on.monomial(r.right)
        if left is None or right is None or r.op not in ("<=", "=="):
            return None
        powers = dict(left[0])
        for i, k in right[0].items():
            powers[i] = powers.get(i, 0.0) - k
        with np.errstate(all="ignore"):
            constant = np.log(left[1]) - np.log(right[1])
            positive = left[2] & right[2] & np.isfinite(constant)
            (a_low, a_high), (b_low, b_high) = self.on.span(r.left), self.on.span(r.right)
            positive &= (a_low > 0) & (b_low > 0)
            least, most = self._tolerance(r)
            unit = min(1.0, scale(r, self.on.layout))
            again = self.on.tolerance / (1 - self.on.tolerance) if self.on.tolerance < 1 else np.inf
            made = []
            for sign, low, high in ((1.0, b_low, b_high), (-1.0, a_low, a_high)):
                if r.tolerance is None:  # t / b with t = tolerance max(unit, a, b), a <= b + t
                    loose = np.maximum(self.on.tolerance * unit / low, again) * 1.001
                    tight = 0.9 * self.on.tolerance * np.maximum(unit / high, 1.0)
                else:
                    loose, tight = most / low, 0.9 * least / high
                terms = tuple(
                    Term(i, LOG, np.full(len(self.on.x0), sign * k))
                    for i, k in powers.items() if k != 0
                )  # fmt: skip
                outer = np.log1p(loose) - sign * constant + 1e-12 * (1 + np.abs(constant))
                made.append(Constraint(terms, outer, np.log1p(tight) - sign * constant))
        chosen = made if r.op == "==" else made[:1]
        return [c.where(positive) for c in chosen], positive

    def _values_of(self, r: Relation) -> tuple[int, Floats] | None:
        made = normal_form(r, self.on.layout)
        return self._values(made) if isinstance(made, Compare) else None

    def _values(self, r: Compare) -> tuple[int, Floats] | None:
        """A comparison of one feature with a constant: the feature, and the values (n, k, 4)."""
        left, right = self.on.sum(r.left), self.on.sum(r.right)
        if left is None or right is None:
            return None
        places, counted, constant = minus(left, right)
        places = {i: a for i, a in places.items() if (a != 0).any()}
        if counted or len(places) != 1:
            return None
        ((i, a),) = places.items()
        if (a == 0).any():
            return None
        least, most = self._tolerance(r)
        whole = is_whole(r.left, self.on.layout) and is_whole(r.right, self.on.layout)
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
