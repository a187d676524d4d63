"""Points spread evenly over the unit simplex: minimal Riesz s-energy (Blank, Deb et al. 2021).

    E = sum_{i<j} |p_i - p_j|^-s,   s = 2 * dimension

Minimised by projected gradient steps with Adam from a lattice, so the points are the same for
everybody; the published MOEVA draws its start with the attack's seed. The energy reached equals
pymoo's within a percent of its logarithm.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from assay.kernels.arrays import Array
from assay.kernels.compile import kernel


@kernel
def energy(points: Array, grad: Array) -> float:
    """Log of the mean energy of a pair; its gradient, up to a positive factor, into `grad`."""
    n, d = points.shape
    total = 0.0
    grad[:] = 0.0
    for i in range(n):
        for j in range(i):
            square = 0.0
            for m in range(d):
                square += (points[i, m] - points[j, m]) ** 2
            square = max(square, 1e-12)
            pair = 1.0
            for _ in range(d):  # square^(-s/2)
                pair /= square
            total += pair
            for m in range(d):
                pull = (points[i, m] - points[j, m]) * pair / square
                grad[i, m] -= pull
                grad[j, m] += pull
    return float(np.log(total / (n * (n - 1) / 2)))


@kernel
def _descend(points: Array, steps: int, alpha: float) -> Array:
    n, d = points.shape
    grad, first, second = np.zeros((n, d)), np.zeros((n, d)), np.zeros((n, d))
    best, low, stale = points.copy(), np.inf, 0
    for k in range(1, steps + 1):
        value = energy(points, grad)
        if value < low:
            low, stale = value, 0
            best[:] = points
        else:
            stale += 1
            if stale > 30:  # as far as this step length goes
                points, stale, alpha = best.copy(), 0, alpha / 2
                first[:] = 0.0
                second[:] = 0.0
                continue
        size = 0.0
        for i in range(n):  # along the simplex
            mean = grad[i].mean()
            grad[i] -= mean
            size = max(size, np.sqrt((grad[i] ** 2).sum()))
        for i in range(n):
            for m in range(d):
                g = grad[i, m] / size
                first[i, m] = 0.9 * first[i, m] + 0.1 * g
                second[i, m] = 0.999 * second[i, m] + 0.001 * g * g
                step = first[i, m] / (1 - 0.9**k) / (np.sqrt(second[i, m] / (1 - 0.999**k)) + 1e-8)
                points[i, m] = max(points[i, m] - alpha * step, 0.0)
            points[i] /= points[i].sum()
    return best


@lru_cache
def reference_points(count: int) -> Array:
    """`count` points (count, 3) on the simplex x + y + z = 1, x, y, z >= 0."""
    side = 1
    while (side + 1) * (side + 2) // 2 < count:
        side += 1
    lattice = np.array([(i, j, side - i - j) for i in range(side + 1) for j in range(side + 1 - i)])
    inner = (lattice > 0).all(1)
    # The lattice has a few points too many; leave out inner ones, evenly along the list.
    spare = len(lattice) - count
    leave = np.nonzero(inner)[0]
    if spare > len(leave):
        leave = np.arange(len(lattice))
    gone = leave[np.linspace(0, len(leave) - 1, spare).astype(int)] if spare else leave[:0]
    points = np.delete(lattice, gone, axis=0) / side
    if count < 2:
        return points
    points = _descend(points, 800, 0.005)
    points.setflags(write=False)
    spread: Array = points
    return spread
