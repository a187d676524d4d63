"""Which feature's noise moves the score most: the one worth integrating exactly.

Roughly, the variance that each test adds to the score: the chance to reach it, times that of either
answer, times the squared difference between the means of its two sides.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from durometer.kernels.arrays import Floats
from durometer.kernels.native import Kernel
from durometer.trees.ensemble import Ensemble
from durometer.trees.gridded import LAYOUT, Gridded

_pivot = Kernel(
    "pivot",
    ensemble=LAYOUT,
    n="size",
    cells="size",
    threads="int64",
    step="float64[nodes]",
    below="float64[n, cells]",
    nan="bool[n, features]",
    out="out float64[n, features]",
)


def variances(ensemble: Ensemble, levels: Floats, nan: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Roughly, the score's variance by each feature's noise: per record, and for any record."""
    centre = np.zeros_like(ensemble.value)
    order = _children_first(ensemble)
    for node in order:
        if ensemble.feature[node] < 0:
            centre[node] = ensemble.value[node]
        else:
            centre[node] = (centre[ensemble.left[node]] + centre[ensemble.right[node]]) / 2
    inner = ensemble.feature >= 0
    step = np.zeros(len(inner))
    step[inner] = ((centre[ensemble.left[inner]] - centre[ensemble.right[inner]]) ** 2).sum(axis=1)
    below = np.clip(special.ndtr(levels), 0, 1)
    overall = np.bincount(ensemble.feature[inner], step[inner], ensemble.n_features)
    moved = np.zeros((len(levels), ensemble.n_features))
    _pivot(Gridded.of(ensemble), 1, step, below, nan, moved)
    return moved, np.asarray(overall, dtype=np.float64)


def _children_first(ensemble: Ensemble) -> list[int]:
    order: list[int] = []
    seen = np.zeros(len(ensemble.feature), dtype=bool)
    stack = [int(r) for r in ensemble.roots]
    while stack:
        node = stack.pop()
        if seen[node]:
            continue
        seen[node] = True
        order.append(node)
        if ensemble.feature[node] >= 0:
            stack += [int(ensemble.left[node]), int(ensemble.right[node])]
    return order[::-1]
