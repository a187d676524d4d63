"""Relations as vectorised torch code: one evaluation per *shape* of relation, not per relation.

360 relations of CTU-13 have three shapes: `a <= b`, `divide(a, b, 0) <= 1500` and one long sum each
side. Relations alike up to which features and constants they name are stacked, and the shape is
evaluated once on (relations, rows) matrices gathered from the record: that way round a gather
copies whole rows of memory. Linear sub-expressions are one gather and one product, however many
terms they have.

Each comparison a op b gives, from v = a - b and the tolerance t = tolerance * max(unit, |a|, |b|),
where unit is 1, or `scale` if that is less: what is compared may have a range of 1e-6 (`within`
sets t itself and is taken off the penalty; t < 1/2 where both sides are whole numbers):

    a <= b   holds if v <= t   penalty v / scale        a == b   |v| <= t,  |v| / scale
    a <  b   holds if v < -t   (v + margin) / scale     a != b   |v| > t,   (margin - |v|) / scale

and 0 wherever it holds, exactly. `and` adds penalties, `or` takes the smallest. `scale` is what v
changes by when the features cross their whole ranges (for linear relations the norm of that
gradient, so a penalty is a distance in scaled coordinates): in raw units CTU-13's byte counts would
drown any classifier's loss. Where a side is undefined (x / 0, log of 0) the relation does not hold,
nor does its negation, and the penalty is 1, without gradient. Where a value is *missing* (NaN, in a
table that may have gaps) a comparison is unknown: three-valued logic (Kleene), and a relation that
comes out unknown is accepted, as SQL's CHECK does. Negations stand at comparisons only, so counting
an unknown one as true gives exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from durometer.relations.expression import Expr, Relation, columns
from durometer.relations.functions import Value, operate
from durometer.relations.normal_form import Layout, Leaves, normal_form, pattern

# Rows at a time without gradients: they fit the cache. No power of two: 8 KB apart, the rows of a
# transposed block would all want the same few places of it, which takes twice the time.
_CHUNK = 1000
Shape = Any  # nested tuples, as `normal_form.pattern` makes them
_Judge = tuple[Tensor, Tensor, Tensor | None]  # holds, penalty, undefined: each (relations, rows)


@dataclass(frozen=True, eq=False)
class Program:
    """All relations of a schema, ready for batches: x and the clean rows x0 are (n, d), float64."""

    relations: tuple[Relation, ...]
    layout: Layout
    scaled: bool = True
    _groups: list[tuple[Tensor, Callable[..., _Judge]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        shapes: dict[Shape, tuple[list[int], list[Leaves]]] = {}
        for place, each in enumerate(self.relations):
            leaves = Leaves(self.layout, self.scaled)
            shape = pattern(normal_form(each, self.layout), leaves)
            places, stacked = shapes.setdefault(shape, ([], []))
            places.append(place)
            stacked.append(leaves)
        for shape, (places, stacked) in shapes.items():
            self._groups.append(
                (torch.tensor(places), _Builder(stacked, bool(self.layout.missing)).relation(shape))
            )

    def __len__(self) -> int:
        return len(self.relations)

    @cached_property
    def _looks_back(self) -> bool:
        return any(c.clean for r in self.relations for c in columns(r))

    @cached_property
    def _order(self) -> Tensor:
        return torch.cat([places for places, _ in self._groups]).argsort()

    def holds(self, x: Tensor, x0: Tensor, tolerance: float = 1e-6) -> Tensor:
        """(n, relations) bool: does each relation hold?"""
        with torch.no_grad():
            if not self._groups:
                return torch.ones(len(x), 0, dtype=torch.bool, device=x.device)
            found = []
            for rows in self._chunks(x, x0):
                parts = [group(*rows, tolerance, grade=False)[0] for _, group in self._groups]
                found.append(torch.cat(parts)[self._order].t())
            return torch.cat(found)

    def valid(self, x: Tensor, x0: Tensor, tolerance: float = 1e-6) -> Tensor:
        """(n,) bool: do all relations hold?"""
        with torch.no_grad():
            if not self._groups:
                return torch.ones(len(x), dtype=torch.bool, device=x.device)
            found = []
            for rows in self._chunks(x, x0):
                parts = [
                    group(*rows, tolerance, grade=False)[0].all(0) for _, group in self._groups
                ]
                found.append(torch.stack(parts).all(0))
            return torch.cat(found)

    def _chunks(self, x: Tensor, x0: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """(features, rows) blocks that fit the processor's cache; the clean rows only if named."""
        for now, was in zip(torch.split(x, _CHUNK), torch.split(x0, _CHUNK), strict=True):
            block = now.t().contiguous()
            yield block, was.t().contiguous() if self._looks_back else block

    def undefined(self, x: Tensor, x0: Tensor) -> Tensor:
        """(n, relations) bool: does some part of it divide by zero, or take the log of 0?"""
        out = torch.zeros(len(self), len(x), dtype=torch.bool, device=x.device)
        for places, group in self._groups:
            bad = group(x.t(), x0.t(), 0.0)[2]
            if bad is not None:
                out[places] = bad
        return out.t()

    def penalties(self, x: Tensor, x0: Tensor, tolerance: float = 1e-6) -> Tensor:
        """(n, relations): differentiable; 0 exactly where the relation holds."""
        if not self._groups:
            return x.new_zeros(len(x), 0)
        xt, x0t = x.t().contiguous(), x0.t()
        parts = [group(xt, x0t, tolerance)[1] for _, group in self._groups]
        return torch.cat(parts)[self._order].t()

    def penalty(self, x: Tensor, x0: Tensor, tolerance: float = 1e-6) -> Tensor:
        """(n,): the sum of all penalties."""
        total, xt, x0t = x.new_zeros(len(x)), x.t().contiguous(), x0.t()
        for _, group in self._groups:
            total = total + group(xt, x0t, tolerance)[1].sum(0)
        return total


def numbers(
    expressions: Sequence[Expr], layout: Layout
) -> Callable[[Tensor, Tensor, float], Value]:
    """The values (k, n) of k normal expressions of one shape, from (features, rows) blocks."""
    stacked, shape = [], None
    for each in expressions:
        stacked.append(Leaves(layout))
        shape = pattern(each, stacked[-1])
    return _Builder(stacked, bool(layout.missing)).number(shape)


class _Builder:
    """A shape as nested closures, with the leaves of its k trees stacked to tensors (k, 1).

    A relation becomes a function of (x, x0, tolerance, grade) -> _Judge; with `grade=False` the
    penalties are not computed. An expression becomes a function of (x, x0, tolerance) -> Value.
    """

    def __init__(self, stacked: Sequence[Leaves], gaps: bool = False) -> None:
        self._gaps = gaps  # may values be missing?
        self._leaves = zip(*(each.items for each in stacked), strict=True)

    def _numbers(self) -> Tensor:
        return torch.tensor(next(self._leaves), dtype=torch.float64)[:, None]

    def _places(self) -> Tensor:
        return torch.tensor(next(self._leaves), dtype=torch.int64)

    def relation(self, shape: Shape) -> Callable[..., _Judge]:
        kind, *rest = shape
        if kind == "compare":
            return self._compare(*rest)
        parts = [self.relation(each) for each in rest]

        def all_of(x: Tensor, x0: Tensor, tolerance: float, grade: bool = True) -> _Judge:
            found = [part(x, x0, tolerance, grade) for part in parts]
            holds, bad = torch.stack([f[0] for f in found]), either(*[f[2] for f in found])
            holds = holds.all(0) if kind == "and" else holds.any(0)
            if not grade:
                return holds, found[0][1], bad
            penalty = torch.stack([f[1] for f in found])
            return holds, penalty.sum(0) if kind == "and" else penalty.amin(0), bad

        return all_of

    def _compare(self, op: str, left: Shape, right: Shape) -> Callable[..., _Judge]:
        slack, scale, unit, floor = (self._numbers() for _ in range(4))
        given, whole = ~slack.isnan(), unit == 1
        fixed, any_given, any_whole = slack.nan_to_num(), bool(given.any()), bool(whole.any())
        a_of, b_of = self.number(left), self.number(right)
        smallest = float(fixed[given].min()) if any_given else math.inf
        gaps = self._gaps

        def least(tolerance: float) -> float:
            return min(tolerance * float(floor.min()), smallest, 0.49 if any_whole else math.inf)

        def slacks(a: Tensor, b: Tensor, tolerance: float, at: Tensor | None = None) -> Tensor:
            held = (whole, given, fixed, floor)
            is_whole, is_given, value, least_size = (c if at is None else c[at, 0] for c in held)
            t = torch.maximum(a.detach().abs(), b.detach().abs())
            t = t.maximum(least_size).mul_(tolerance)
            if any_whole:
                t = torch.where(is_whole, t.clamp_max(0.49), t)
            return torch.where(is_given, value, t) if any_given else t

        def judge(x: Tensor, x0: Tensor, tolerance: float, grade: bool = True) -> _Judge:
            (a, bad_a), (b, bad_b) = a_of(x, x0, tolerance), b_of(x, x0, tolerance)
            v, bad = a - b, either(bad_a, bad_b)
            unknown = _unknown(v, bad) if gaps else None
            if unknown is not None:
                a, b, v = (torch.where(unknown, 0.0, part) for part in (a, b, v))
            if unknown is None and op in ("<=", "==") and not grade and v.numel():
                size = v if op == "<=" else v.abs()
                holds = size <= least(tolerance)
                wrong = (~holds).nonzero(as_tuple=True)  # few: only these need the exact tolerance
                if len(wrong[0]) < 0.1 * v.numel() and (op == "==" or -math.inf < v.amin()):
                    if len(wrong[0]):
                        a, b, off = (part.expand_as(v)[wrong] for part in (a, b, size))
                        exact = off <= slacks(a, b, tolerance, wrong[0])
                        holds[wrong] = exact & off.isfinite()
                    return holds if bad is None else holds & ~bad, v, bad
            t = slacks(a, b, tolerance)
            finite = v.detach().isfinite()
            if not bool(finite.all()):
                bad = either(bad, ~finite)
            size = torch.where(v >= 0, v, -v) if op in ("==", "!=") else v
            if op in ("<=", "=="):
                holds, raw = size <= t, size - fixed
            else:
                margin = torch.where(whole, unit, 2 * t).maximum(1e-6 * scale) + t
                holds = size < -t if op == "<" else size > t
                raw = size + margin if op == "<" else margin - size
            if bad is not None:
                holds, raw = holds & ~bad, torch.where(bad, scale, raw)
            if unknown is not None:
                holds, bad = holds | unknown, either(bad, unknown)
            if not grade:
                return holds, v, bad
            # A violation may be too small to survive the division; it still is one.
            penalty = torch.where(holds, 0.0, (raw / scale).clamp_min(1e-300))
            return holds, penalty, bad

        return judge

    def number(self, shape: Shape) -> Callable[[Tensor, Tensor, float], Value]:
        kind, *rest = shape
        if kind == "const":
            constant = self._numbers()
            return lambda x, x0, tolerance: (constant.expand(-1, x.shape[1]), None)
        if kind in ("x", "x0"):
            place, clean = self._places(), kind == "x0"
            return lambda x, x0, tolerance: ((x0 if clean else x).index_select(0, place), None)
        if kind == "linear":
            return self._linear(*rest)
        if kind == "count":
            return self._count(rest)
        if kind == "where":
            return self._where(*rest)
        args = [self.number(each) for each in rest[1:]]
        return lambda x, x0, tolerance: operate(rest[0], [a(x, x0, tolerance) for a in args])

    def _linear(self, terms: int, clean_terms: int) -> Callable[..., Value]:
        start = self._numbers()
        now = [(self._places(), self._numbers()) for _ in range(terms)]
        was = [(self._places(), self._numbers()) for _ in range(clean_terms)]
        both = [_stack(part) for part in (now, was)]

        def value(x: Tensor, x0: Tensor, tolerance: float) -> Value:
            total = start.expand(-1, x.shape[1])
            for source, (places, weights) in zip((x, x0), both, strict=True):
                if weights is not None:
                    found = source.index_select(0, places).reshape(*weights.shape, -1)
                    total = total + torch.bmm(weights[:, None], found)[:, 0]
            return total, None

        return value

    def _count(self, shapes: list[Shape]) -> Callable[..., Value]:
        # Each part comes with its negation, whose penalty says how far it is from failing.
        pairs = [
            (self.relation(p), self.relation(n)) for p, n in zip(*[iter(shapes)] * 2, strict=True)
        ]
        gaps = self._gaps

        def value(x: Tensor, x0: Tensor, tolerance: float) -> Value:
            total: Tensor | None = None
            for part, opposite in pairs:
                holds, penalty, _ = part(x, x0, tolerance)
                not_holds, away, _ = opposite(x, x0, tolerance)
                soft = away - penalty
                one = holds.to(x.dtype) + (soft - soft.detach())
                if gaps:  # neither yes nor no: the number is not known
                    one = torch.where(holds & not_holds, torch.nan, one)
                total = one if total is None else total + one
            assert total is not None
            return total, None

        return value

    def _where(self, test: Shape, yes: Shape, no: Shape) -> Callable[..., Value]:
        judge, a_of, b_of = self.relation(test), self.number(yes), self.number(no)
        gaps = self._gaps

        def value(x: Tensor, x0: Tensor, tolerance: float) -> Value:
            holds, _, doubt = judge(x, x0, tolerance, False)
            (a, bad_a), (b, bad_b) = a_of(x, x0, tolerance), b_of(x, x0, tolerance)
            bad = None
            if bad_a is not None or bad_b is not None:
                never = torch.zeros_like(holds)
                bad = torch.where(
                    holds, never if bad_a is None else bad_a, never if bad_b is None else bad_b
                )
            out = torch.where(holds, a, b)
            if gaps and doubt is not None:  # which branch is not known
                out = torch.where(doubt, torch.nan, out)
            return out, bad

        return value


def _unknown(v: Tensor, bad: Tensor | None) -> Tensor | None:
    """Where a difference is not known because something is missing; None: nowhere."""
    unknown = v.detach().isnan() if bad is None else v.detach().isnan() & ~bad
    return unknown if bool(unknown.any()) else None


def _stack(terms: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor | None]:
    """(k * t,) places and (k, t) weights of t terms in k relations."""
    parts = list(terms)
    if not parts:
        return torch.empty(0, dtype=torch.int64), None
    places = torch.stack([p for p, _ in parts], dim=1).reshape(-1)
    return places, torch.cat([w for _, w in parts], dim=1)


def either(*masks: Tensor | None) -> Tensor | None:
    """The union of masks, where None is the empty one."""
    total: Tensor | None = None
    for mask in masks:
        if mask is not None:
            total = mask if total is None else total | mask
    return total
