"""A region as a box, kinds of values and a budget: what the exact search starts from.

`outer` bounds hold for every point that `Region.contains` accepts, `inner` ones are kept when
points are built. They differ by the tolerance of `contains` and by rounding only, and never on whole
numbers: a step of exactly eps is allowed, and the search must neither prove nor lose it.

What a reader would get wrong: a radius below 1 fixes a category, but in L2 a change of category is
sqrt(2) long and in L1 2 (or its cost); one-hot groups are counted once in L0, so each of their two
changed members counts a half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from assay.errors import Unsupported
from assay.kernels.arrays import Floats
from assay.proofs.search.constraint import ABSOLUTE, LINEAR, OUTSIDE, SQUARE, Constraint, Term
from assay.spaces.lp import LpRegion
from assay.tables.space import TableRegion
from assay.tables.validate import BOUND_SLACK

REAL, WHOLE, CODES, SINGLE = range(4)
_SLACK = 1e-9  # what a table's `contains` forgives, relative to eps
_UNIT = 2.0**-51


@dataclass(frozen=True, eq=False)
class Box:
    """Outer and inner bounds (n, d), the kind of each feature, and the budget as constraints."""

    x0: Floats
    low: Floats
    high: Floats
    low_in: Floats
    high_in: Floats
    kind: np.ndarray  # (d,) int32
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


def _ball(region: LpRegion, radius: Floats | None) -> Box:
    x0 = region.origin.detach().cpu().double().numpy()
    n, d = x0.shape
    eps = np.full(n, float(region.eps)) if radius is None else radius
    slack = region.rounding().double().cpu().numpy().reshape(-1) * np.ones(n)
    low = np.broadcast_to(region.low.double().cpu().numpy(), (n, d))
    high = np.broadcast_to(region.high.double().cpu().numpy(), (n, d))
    width = np.ones(d)
    single = region.origin.dtype == torch.float32
    kind = np.full(d, SINGLE if single else REAL, dtype=np.int32)
    outer, inner = eps + slack, eps + (0.5 * slack if radius is None else 0.0)
    return _boxed(
        x0, low, high, low, high, outer, inner, width, np.zeros(d), region.p, kind,
        ((),) * d, np.ones(d), np.ones(d, dtype=bool),
    )  # fmt: skip


def _table(region: TableRegion, radius: Floats | None) -> Box:
    space, schema = region.space, region.space.schema
    encoding = space.encoding
    x0 = region.x0.numpy()
    n, d = x0.shape
    mutable = schema.mutable.numpy()
    low, high = (b.numpy() for b in schema.bounds(region.x0))
    slack = BOUND_SLACK * np.maximum(1.0, np.abs(x0))
    eps = np.full(n, float(space.eps)) if radius is None else radius
    width, start = np.ones(d), np.zeros(d)
    width[encoding.numeric.numpy()] = encoding.width.numpy()
    start[encoding.numeric.numpy()] = encoding.start.numpy()
    kind = np.zeros(d, dtype=np.int32)
    kind[schema.whole.numpy()] = WHOLE
    codes: list[tuple[float, ...]] = [()] * d
    change = np.ones(d)  # what changing a category, or a member of a group, adds to the budget
    power = {0.0: 1.0, 1.0: 2.0, 2.0: 2.0, math.inf: 1.0}[float(space.p)]
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            kind[i], codes[i] = CODES, f.codes
            priced = space.cost is not None
            change[i] = f.cost if priced else power
            fixed = ~mutable[i] | (change[i] > (eps * (1 + _SLACK)) ** max(space.p, 1.0))
            if space.p == math.inf:
                fixed = ~mutable[i] | (eps * (1 + _SLACK) < 1)
            low[:, i] = np.where(fixed, x0[:, i], -np.inf)
            high[:, i] = np.where(fixed, x0[:, i], np.inf)
    for members in schema.one_hot_groups.values():
        change[members] = 0.5
    slack[:, kind == CODES] = 0.0
    box = _boxed(
        x0, low - slack, high + slack, low, high, eps * (1 + _SLACK), eps * (1 + 0.5 * _SLACK),
        width, start, float(space.p), kind, tuple(codes), change, mutable,
    )  # fmt: skip
    groups = [
        _one_hot(members, n) for members in schema.one_hot_groups.values() if mutable[members[0]]
    ]
    return Box(*(getattr(box, k) for k in ("x0", "low", "high", "low_in", "high_in", "kind")),
               box.codes, box.budget + tuple(c for pair in groups for c in pair))  # fmt: skip


def _one_hot(members: list[int], n: int) -> tuple[Constraint, Constraint]:
    """Exactly one of these 0/1 columns is 1."""
    up = tuple(Term(i, LINEAR, np.ones(n)) for i in members)
    down = tuple(Term(i, LINEAR, -np.ones(n)) for i in members)
    half = np.full(n, 0.5)
    return Constraint(up, 1 + half, 1 + half), Constraint(down, half - 1, half - 1)


def _boxed(
    x0: Floats, low: Floats, high: Floats, low_in: Floats, high_in: Floats, outer: Floats,
    inner: Floats, width: Floats, start: Floats, p: float, kind: np.ndarray,
    codes: tuple[tuple[float, ...], ...], change: Floats, mutable: np.ndarray,
) -> Box:  # fmt: skip
    """Bounds and ball together. Distances are taken of (x - x0) / width, which rounds."""
    n, d = x0.shape
    rounding = _UNIT * (np.abs(np.nan_to_num(x0)) + np.abs(start)) / width  # (n, d), scaled
    number = kind != CODES
    if p > 0:
        reach = outer[:, None] + 2 * rounding
        reach_in = np.maximum(inner[:, None] - 2 * rounding, 0.0)
        low = np.where(number, np.maximum(low, x0 - reach * width), low)
        high = np.where(number, np.minimum(high, x0 + reach * width), high)
        low_in = np.where(number, np.maximum(low_in, x0 - reach_in * width), low_in)
        high_in = np.where(number, np.minimum(high_in, x0 + reach_in * width), high_in)
    whole = kind == WHOLE
    low, low_in = (np.where(whole, np.ceil(b), b) for b in (low, low_in))
    high, high_in = (np.where(whole, np.floor(b), b) for b in (high, high_in))
    single = kind == SINGLE
    if single.any():  # float32 values only
        low, high = (np.where(single, _single(b, w), b) for b, w in ((low, 1), (high, -1)))
    sides = [np.where(mutable, b, x0) for b in (low, high, low_in, high_in)]
    low, high, low_in, high_in = (np.ascontiguousarray(b) for b in sides)
    size = np.where(number, rounding, 0.0).max(axis=1) * (d ** (1 / max(p, 1.0)))
    budget = _budget(
        x0, outer + 2 * size, inner - np.where(size > 0.1 * _SLACK * inner, 2 * size, 0.0),
        width, p, kind, change, (low < high).any(axis=0),
    )  # fmt: skip
    return Box(np.ascontiguousarray(x0), low, high, low_in, high_in, kind, codes, budget)


def _single(bound: Floats, way: int) -> Floats:
    """The nearest float32 inwards."""
    with np.errstate(over="ignore"):
        near = bound.astype(np.float32)
        step = np.nextafter(near, np.float32(np.inf if way > 0 else -np.inf))
    wrong = near.astype(np.float64) < bound if way > 0 else near.astype(np.float64) > bound
    return np.where(wrong, step, near).astype(np.float64)


def _budget(
    x0: Floats, outer: Floats, inner: Floats, width: Floats, p: float, kind: np.ndarray,
    change: Floats, free: np.ndarray,
) -> tuple[Constraint, ...]:  # fmt: skip
    """The ball as a constraint; in Linf the box says it all."""
    if p == math.inf:
        return ()
    n = len(x0)
    terms = []
    for i in np.flatnonzero(free):
        home = np.stack([x0[:, i]] * 4, axis=1)[:, None]  # the set {x0}
        if p == 0 or kind[i] == CODES:
            terms.append(Term(int(i), OUTSIDE, np.full(n, change[i]), home))
        elif p == 2:
            terms.append(Term(int(i), SQUARE, np.full(n, 1 / width[i] ** 2)))
        else:
            terms.append(Term(int(i), ABSOLUTE, np.full(n, 1 / width[i])))
    if not terms:
        return ()
    if p == 0:
        count = np.floor(outer + 1e-9) + 0.25
        return (Constraint(tuple(terms), count, count),)
    power = (lambda v: v**2) if p == 2 else (lambda v: v)
    return (Constraint(tuple(terms), power(outer) * (1 + 1e-12), power(inner)),)
