"""A region as a box, kinds of values and a budget: what the exact search starts from.

`outer` bounds hold for every point that `Region.contains` accepts, `inner` ones are kept when
points are built. They differ by the tolerance of `contains` and by rounding only, and never on
whole numbers: a step of exactly eps is allowed, and the search must neither prove nor lose it.

What a reader would get wrong: a radius below 1 fixes a category, but in L2 a change of category is
sqrt(2) long and in L1 2 (or its cost); one-hot groups are counted once in L0, so each of their two
changed members counts a half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.search.constraint import ABSOLUTE, LINEAR, OUTSIDE, SQUARE, Constraint, Term
from durometer.spaces.ball import LpRegion
from durometer.tables.encoding import Encoding
from durometer.tables.region import TableRegion
from durometer.tables.validation import BOUND_SLACK

REAL, WHOLE, CODES, SINGLE = range(4)
_SLACK = 1e-9  # what a table's `contains` forgives, relative to eps
_UNIT = 2.0**-51
_FAR = 1e100  # a radius at which only what cannot move at all stays
_CHANGE = {0.0: 1.0, 1.0: 2.0, 2.0: 2.0, math.inf: 1.0}  # another category, to the power of p
Kinds = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Box:
    """Outer and inner bounds (n, d), the kind of each feature, and the budget as constraints."""

    x0: Floats
    low: Floats
    high: Floats
    low_in: Floats
    high_in: Floats
    kind: Kinds  # (d,)
    codes: tuple[tuple[float, ...], ...]  # the values of each category, () elsewhere
    budget: tuple[Constraint, ...]


def box_of(region: object, radius: Floats | None = None) -> Box:
    """The box of each row of a region; `radius` (n,) in place of the region's own eps."""
    if isinstance(region, TableRegion):
        return _table(region, radius)
    if isinstance(region, LpRegion):
        return _ball(region, radius)
    raise Unsupported(
        f"the exact search works in Lp balls and tables, not in a {type(region).__name__}; "
        "use an attack there"
    )


def unlimited(region: object) -> Box:
    """The box in which whatever the region's eps can move may take any value, whatever it costs.

    What eps cannot move (a category that is too far, a whole number whose next is) stays: a proof
    in this box is vacuous, it hangs on features that no attacker of this region can change.
    """
    own = box_of(region)
    far = box_of(region, np.full(len(own.x0), _FAR))
    moves = own.low < own.high
    budget: tuple[Constraint, ...] = ()
    if isinstance(region, TableRegion):
        schema = region.space.schema
        for members in schema.one_hot_groups.values():
            moves[:, members] &= _group_moves(region, members)
            budget += _one_hot(members, len(own.x0))
    low, high, low_in, high_in = (
        np.ascontiguousarray(np.where(moves, b, own.x0))
        for b in (far.low, far.high, far.low_in, far.high_in)
    )
    return replace(far, low=low, high=high, low_in=low_in, high_in=high_in, budget=budget)


def _group_moves(region: TableRegion, members: list[int]) -> bool:
    """Can another member of a one-hot group be the 1? Two columns change then."""
    space = region.space
    place = {int(c): k for k, c in enumerate(space.encoding.numeric)}
    if any(i not in place for i in members) or len(members) < 2:
        return False
    if space.p == 0:
        return bool(space.radius >= 1)
    steps = np.sort([1 / float(space.encoding.width[place[i]]) for i in members])[:2]
    return bool(np.linalg.norm(steps, float(space.p)) <= space.radius * (1 + 1e-6))


@dataclass(frozen=True, eq=False)
class _Limits:
    """What the two kinds of region say of themselves; distances are of (x - x0) / width."""

    x0: Floats
    low: Floats  # (n, d) outer, without the ball
    high: Floats
    low_in: Floats
    high_in: Floats
    eps: Floats  # (n,) outer
    eps_in: Floats
    p: float
    width: Floats  # (d,)
    start: Floats  # (d,) what is 0 in the units of the distance: it adds to the rounding
    kind: Kinds
    codes: tuple[tuple[float, ...], ...]
    change: Floats  # (d,) what another code, or another member of a group, adds to the budget
    mutable: Bools


def _ball(region: LpRegion, radius: Floats | None) -> Box:
    clean = region.decode(region.origin).flatten(1)
    x0 = clean.detach().cpu().double().numpy()
    n, d = x0.shape
    slack = region.rounding().double().cpu().numpy().reshape(-1) * np.ones(n)
    by, width, mutable = region.channels, np.ones(d), np.ones(d, dtype=bool)
    low, high = (
        np.broadcast_to(b.double().cpu().numpy(), (n, d))
        for b in ((region.low, region.high) if by is None else (by.low, by.high))
    )
    if by is not None:
        mutable[:] = False
        mutable[by.free.numpy()] = True
        width[by.free.numpy()] = by.scale[0].double().numpy()
    kind = SINGLE if region.origin.dtype == torch.float32 else REAL
    eps = np.full(n, float(region.eps)) if radius is None else radius
    return _boxed(
        _Limits(
            x0, low, high, low, high, eps + slack, eps + (0.5 * slack if radius is None else 0.0),
            region.p, width, np.zeros(d), np.full(d, kind, dtype=np.int32), ((),) * d,
            np.ones(d), mutable,
        )
    )  # fmt: skip


def _table(region: TableRegion, radius: Floats | None) -> Box:
    space, schema = region.space, region.space.schema
    encoding = space.encoding
    x0 = region.x0.numpy()
    n, d = x0.shape
    mutable = schema.mutable.numpy()
    low, high = (b.numpy() for b in schema.bounds(region.x0))
    slack = [
        1.001 * BOUND_SLACK * np.where(np.isfinite(b), np.maximum(1.0, np.abs(b)), 0.0)
        for b in (low, high)
    ]
    eps = np.full(n, space.radius) if radius is None else radius
    outer, inner = eps * (1 + _SLACK), eps * (1 + 0.5 * _SLACK)
    width, start = np.ones(d), np.zeros(d)
    width[encoding.numeric.numpy()] = encoding.width.numpy()
    start[encoding.numeric.numpy()] = encoding.start.numpy()
    kind = np.where(schema.whole.numpy(), WHOLE, REAL).astype(np.int32)
    codes: list[tuple[float, ...]] = [()] * d
    change = np.ones(d)
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            kind[i], codes[i] = CODES, f.codes
            change[i] = (f.cost or 0.0) if space.priced else _CHANGE[float(space.p)]
            reach = outer**2 if space.p == 2 else outer
            fixed = ~mutable[i] | (change[i] > reach)
            low[:, i] = np.where(fixed, x0[:, i], -np.inf)
            high[:, i] = np.where(fixed, x0[:, i], np.inf)
    for members in schema.one_hot_groups.values():
        change[members] = 0.5
    slack = [np.where(kind == CODES, 0.0, s) for s in slack]
    limits = _Limits(
        x0, low - slack[0], high + slack[1], low, high, outer, inner, float(space.p), width, start,
        kind, tuple(codes), change, mutable,
    )  # fmt: skip
    box = _boxed(limits)
    if space.prices is not None and space.cost is not None:
        box = replace(box, budget=(*box.budget, *_money(limits, box, space.prices, space.cost)))
    groups = [m for m in schema.one_hot_groups.values() if mutable[m[0]]]
    return replace(box, budget=(*box.budget, *(c for m in groups for c in _one_hot(m, n))))


def _one_hot(members: list[int], n: int) -> tuple[Constraint, Constraint]:
    """Exactly one of these 0/1 columns is 1."""
    up = tuple(Term(i, LINEAR, np.ones(n)) for i in members)
    down = tuple(Term(i, LINEAR, -np.ones(n)) for i in members)
    half = np.full(n, 0.5)
    return Constraint(up, 1 + half, 1 + half), Constraint(down, half - 1, half - 1)


def _boxed(at: _Limits) -> Box:
    """Bounds and ball together."""
    x0, width, number = at.x0, at.width, at.kind != CODES
    low, high, low_in, high_in = at.low, at.high, at.low_in, at.high_in
    rounding = _UNIT * (np.abs(np.nan_to_num(x0)) + np.abs(at.start)) / width  # (n, d), scaled
    if at.p > 0:
        reach = (at.eps[:, None] + 2 * rounding) * width
        reach_in = np.maximum(at.eps_in[:, None] - 2 * rounding, 0.0) * width
        low = np.where(number, np.maximum(low, x0 - reach), low)
        high = np.where(number, np.minimum(high, x0 + reach), high)
        low_in = np.where(number, np.maximum(low_in, x0 - reach_in), low_in)
        high_in = np.where(number, np.minimum(high_in, x0 + reach_in), high_in)
    whole, single = at.kind == WHOLE, at.kind == SINGLE
    low, low_in = (np.where(whole, np.ceil(b), b) for b in (low, low_in))
    high, high_in = (np.where(whole, np.floor(b), b) for b in (high, high_in))
    if single.any():
        low, high = (
            np.where(single, _single(low, 1), low),
            np.where(single, _single(high, -1), high),
        )
    moves = at.mutable & ~np.isnan(x0)  # a missing cell stays missing
    low, high, low_in, high_in = (
        np.ascontiguousarray(np.where(moves, b, x0)) for b in (low, high, low_in, high_in)
    )
    budget = _budget(at, np.where(number, rounding, 0.0).max(axis=1), np.any(low < high, axis=0))
    return Box(np.ascontiguousarray(x0), low, high, low_in, high_in, at.kind, at.codes, budget)


def _money(at: _Limits, box: Box, prices: Encoding, cost: float) -> tuple[Constraint, ...]:
    """A cost to be kept besides the distance."""
    n = len(at.x0)
    change, width = at.change.copy(), np.ones(len(at.width))
    width[prices.numeric.numpy()] = prices.width.numpy()
    for column, _, _, half in prices.categories:
        change[column] = 2 * half
    most = np.full(n, cost)
    money = replace(
        at, p=1.0, eps=most * (1 + _SLACK), eps_in=most * (1 + 0.5 * _SLACK), width=width,
        start=np.zeros(len(width)), change=change,
    )  # fmt: skip
    rounding = _UNIT * np.abs(np.nan_to_num(at.x0)) / width
    return _budget(money, rounding.max(axis=1), np.any(box.low < box.high, axis=0))


def _single(bound: Floats, way: int) -> Floats:
    """The nearest float32 inwards."""
    with np.errstate(over="ignore"):
        near = bound.astype(np.float32)
        step = np.nextafter(near, np.float32(np.inf if way > 0 else -np.inf))
    wrong = near.astype(np.float64) < bound if way > 0 else near.astype(np.float64) > bound
    return np.where(wrong, step, near).astype(np.float64)


def _budget(at: _Limits, rounding: Floats, free: Any) -> tuple[Constraint, ...]:
    """The ball as a constraint; in Linf the box says it all."""
    if at.p == math.inf or not free.any():
        return ()
    d = at.x0.shape[1]
    terms = []
    for i in map(int, np.flatnonzero(free)):
        # A missing cell stays missing and costs nothing; NaN is in no set, not even in {NaN}.
        known = ~np.isnan(at.x0[:, i])
        home = np.stack([at.x0[:, i]] * 4, axis=1)[:, None]  # the set {x0}
        if at.p == 0 or at.kind[i] == CODES:
            terms.append(Term(i, OUTSIDE, at.change[i] * known, home))
        elif at.p == 2:
            terms.append(Term(i, SQUARE, known / at.width[i] ** 2))
        else:
            terms.append(Term(i, ABSOLUTE, known / at.width[i]))
    if at.p == 0:
        count = np.floor(at.eps + 1e-9) + 0.25
        return (Constraint(tuple(terms), count, count),)
    size = 2 * rounding * d ** (1 / at.p)
    outer = at.eps + size
    inner = at.eps_in - np.where(size > 0.2 * _SLACK * at.eps_in, size, 0.0)
    outer, inner = outer**at.p * (1 + 1e-12), np.maximum(inner, 0.0) ** at.p
    return (Constraint(tuple(terms), outer, inner),)
