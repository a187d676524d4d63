"""One tree, independent noise: walk to every leaf that has mass, carrying the product of interval
masses.

Exact for all classes at once, O(nodes) per record. The leaves are disjoint boxes, so nothing is
enumerated that the tree does not distinguish (the paper's grid splits each leaf into many boxes
with the same label)."""

import numpy as np

from durometer.kernels.arrays import Floats, Ints
from durometer.kernels.native import Kernel
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.gridded import LAYOUT, Gridded

ROUNDING = 1e-12  # more than the float64 sums below can lose
_leaf_masses = Kernel(
    "leaf_masses",
    ensemble=LAYOUT,
    n="size",
    sums="size",
    classes="size",
    threads="int64",
    label="int64[nodes]",
    below="float64[n, sums]",
    nan="bool[n, features]",
    out="out float64[n, classes]",
)


def distribution(ensemble: Ensemble, grid: Grid, masses: Floats, x: Floats) -> Floats:
    """P(label = class) for each record, (n, classes), for an ensemble of one tree."""
    label = leaf_labels(ensemble)
    cumulative = np.zeros((len(masses), masses.shape[1] + ensemble.n_features))
    start = grid.start + np.arange(ensemble.n_features + 1)
    for f in range(ensemble.n_features):
        cells = masses[:, grid.start[f] : grid.start[f + 1]]
        cumulative[:, start[f] + 1 : start[f + 1]] = np.cumsum(cells, axis=1)
    out = np.zeros((len(x), ensemble.n_classes))
    _leaf_masses(Gridded.of(ensemble), 1, label, cumulative, np.isnan(x), out)
    return out


def leaf_labels(ensemble: Ensemble) -> Ints:
    """The label of each leaf of a single tree, (nodes,); the library is asked where scores tie."""
    kind = np.float32 if ensemble.single else np.float64
    score = (ensemble.base.astype(kind) + ensemble.value.astype(kind)).astype(np.float64)
    if ensemble.outputs == 1:
        label: Ints = (score[:, 0] > ensemble.cut).astype(np.int64)
        gap = np.abs(score[:, 0] - ensemble.cut)
    else:
        label = np.asarray(np.argmax(score, axis=1), dtype=np.int64)
        gap = np.diff(np.partition(score, -2, axis=1)[:, -2:], axis=1)[:, 0]
    close = (gap <= ensemble.slack()) & (ensemble.feature < 0)
    if ensemble.library is None or not close.any():
        return label
    d = ensemble.n_features
    stack = [(int(ensemble.roots[0]), np.full(d, -np.inf), np.full(d, np.inf))]
    while stack:  # a point inside each leaf that ties
        node, low, high = stack.pop()
        f, t = int(ensemble.feature[node]), float(ensemble.threshold[node])
        if f >= 0:
            if t > low[f]:
                stack.append((int(ensemble.left[node]), low, _with(high, f, min(t, high[f]))))
            if t < high[f]:
                stack.append((int(ensemble.right[node]), _with(low, f, max(t, low[f])), high))
        elif close[node]:
            inside = np.where(np.isfinite(low), np.nextafter(low, np.inf), 0.0)
            label[node] = ensemble.decide(np.where(np.isfinite(high), high, inside)[None])[0]
            close[node] = False
    return label


def _with(edge: Floats, feature: int, value: float) -> Floats:
    moved = edge.copy()
    moved[feature] = value
    return moved
