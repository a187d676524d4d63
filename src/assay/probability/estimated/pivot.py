"""Which feature's noise moves the score most: the one worth integrating exactly.

Roughly, the variance that each test adds to the score: the chance to reach it, times that of either
answer, times the squared difference between the means of its two sides.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np
from numpy.typing import NDArray
from scipy import special

from assay.kernels.arrays import Floats
from assay.kernels.compile import kernel
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid


def importance(
    ensemble: Ensemble, grid: Grid, levels: Floats, nan: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
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
    matter = np.asarray(
        _variance(
            ensemble.feature,
            grid.cut,
            ensemble.left,
            ensemble.right,
            ensemble.missing_left,
            ensemble.roots,
            step,
            below,
            grid.start,
            nan,
        )
    )
    return matter, np.asarray(overall, dtype=np.float64)


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


@kernel
def _variance(feature, cut, left, right, missing_left, roots, step, below, start, nan):
    n, features = nan.shape
    out = np.zeros((n, features))
    stack, reach = np.empty(feature.shape[0] + 1, np.int64), np.empty(feature.shape[0] + 1)
    for i in range(n):
        for t in range(roots.shape[0]):
            stack[0], reach[0] = roots[t], 1.0
            top = 1
            while top > 0:
                top -= 1
                node, q = stack[top], reach[top]
                f = feature[node]
                if f < 0 or q < 1e-6:
                    continue
                if nan[i, f]:
                    stack[top], reach[top] = left[node] if missing_left[node] else right[node], q
                    top += 1
                    continue
                c = cut[node]
                p = 0.0 if c < 0 else below[i, start[f] + c] if c < start[f + 1] - start[f] else 1.0
                out[i, f] += q * p * (1.0 - p) * step[node]
                stack[top], reach[top] = left[node], q * p
                stack[top + 1], reach[top + 1] = right[node], q * (1.0 - p)
                top += 2
    return out
