"""Points spread evenly over the unit simplex: minimal Riesz s-energy (Blank, Deb et al. 2021).

    E = sum_{i<j} |p_i - p_j|^-s,   s = 2 * dimension

Minimised by projected gradient steps with Adam from a lattice, so the points are the same for
everybody; the published MOEVA draws its start with the attack's seed. The energy reached equals
pymoo's within a percent of its logarithm.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.kernels.native import Kernel

_STEPS, _LENGTH = 800, 0.005
_spread_points = Kernel("spread_points", n="size", d="size", steps="int64", alpha="float64",
                        points="float64[n, d]", spread="out float64[n, d]")  # fmt: skip


@lru_cache
def reference_points(count: int) -> Floats:
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
    spread = np.empty_like(points)
    _spread_points(_STEPS, _LENGTH, points, spread)
    spread.setflags(write=False)
    return spread
