"""Niches of R-NSGA-III: directions from reference points, who is nearest to which, who may stay.

Niching has a closed form: the k-th pick of a niche that already holds c members has level c + k,
and niching takes the candidates of lowest level. Equal to pymoo 0.6's on the same population.

What a reader would get wrong: the nearest member goes first in an empty niche only; all later picks
are random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.kernels.arrays import Array
from assay.kernels.compile import fast_kernel, kernel


@kernel
def directions(points: Array, ideal: Array, nadir: Array) -> Array:
    """Reference points, normalised and moved along rays to the plane sum = 1; then the axes."""
    k = len(points)
    rays = np.zeros((k + 3, 3))
    for i in range(k):
        total = 0.0
        for m in range(3):
            span = nadir[m] - ideal[m]
            rays[i, m] = (points[i, m] - ideal[m]) / (span if span != 0.0 else 1e-12)
            total += rays[i, m]
        if abs(total) > 1e-6 * np.sqrt(3.0):
            for m in range(3):
                rays[i, m] /= total
        else:  # a point at the ideal has no ray: the nearest point of the plane
            for m in range(3):
                rays[i, m] += (1.0 - total) / 3.0
        total = 0.0
        for m in range(3):
            rays[i, m] = max(rays[i, m], 0.0)
            total += rays[i, m]
        for m in range(3):
            rays[i, m] /= total
    for m in range(3):
        rays[k + m, m] = 1.0
    return rays


@fast_kernel
def _highest(values: Array) -> Any:
    high = values[0]
    for v in values:  # fast-math lets the compiler take several at a time
        high = max(high, v)
    return high


@kernel
def _first_of(values: Array, value: float) -> int:
    for j in range(len(values)):
        if values[j] == value:
            return j
    return 0


@kernel
def associate(f: Array, rank: Array, rays: Array, ideal: Array, nadir: Array) -> Any:
    """Nearest direction of each ranked individual, and the distance to it."""
    n, k = len(f), len(rays)
    unit = np.empty((3, k))
    for j in range(k):
        size = np.sqrt(rays[j, 0] ** 2 + rays[j, 1] ** 2 + rays[j, 2] ** 2)
        for m in range(3):
            unit[m, j] = rays[j, m] / size
    niche, away = np.zeros(n, np.int64), np.zeros(n)
    span = nadir - ideal
    for m in range(3):
        span[m] = span[m] if span[m] != 0.0 else 1e-12
    along = np.empty(k)
    for i in range(n):
        if rank[i] < 0:
            continue
        a = (f[i, 0] - ideal[0]) / span[0]
        b = (f[i, 1] - ideal[1]) / span[1]
        c = (f[i, 2] - ideal[2]) / span[2]
        for j in range(k):
            along[j] = a * unit[0, j] + b * unit[1, j] + c * unit[2, j]
        best = _first_of(along, _highest(along))  # all are >= 0: the nearest is the most along
        niche[i] = best
        a -= along[best] * unit[0, best]
        b -= along[best] * unit[1, best]
        c -= along[best] * unit[2, best]
        away[i] = np.sqrt(a * a + b * b + c * c)
    return niche, away


@kernel
def niching(wanted: int, count: Array, niche: Array, away: Array, last: Array, order: Array,
            turns: Array) -> Array:  # fmt: skip
    """`wanted` of the individuals `last`; `order` and `turns` break ties among them and niches.

    The nearest member of an empty niche goes first, all others in the order given.
    """
    n, k = len(last), len(count)
    nearest = np.full(k, -1, np.int64)
    for i in order:
        j = niche[last[i]]
        if count[j] == 0 and (nearest[j] < 0 or away[last[i]] < away[last[nearest[j]]]):
            nearest[j] = i
    level = np.empty(n, np.int64)
    filled = count.copy()
    for j in range(k):
        if nearest[j] >= 0:
            level[nearest[j]] = 0
            filled[j] = 1
    for i in order:
        j = niche[last[i]]
        if nearest[j] != i:
            level[i] = filled[j]
            filled[j] += 1
    sizes = np.zeros(filled.max() + 1, np.int64)
    for i in range(n):
        sizes[level[i]] += 1
    full, taken = 0, 0
    while taken + sizes[full] <= wanted and full < len(sizes) - 1:
        taken += sizes[full]
        full += 1
    chosen = np.empty(wanted, np.int64)
    at = np.full(k, -1, np.int64)  # who stands at the level that cannot be taken whole
    place = 0
    for i in range(n):
        if level[i] < full:
            chosen[place] = last[i]
            place += 1
        elif level[i] == full:
            at[niche[last[i]]] = last[i]
    for j in turns:
        if place < wanted and at[j] >= 0:
            chosen[place] = at[j]
            place += 1
    return chosen
