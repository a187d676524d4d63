"""One tree, independent noise: walk to every leaf that has mass, carrying the product of interval
masses.

Exact for all classes at once, O(nodes) per record. The leaves are disjoint boxes, so nothing is
enumerated that the tree does not distinguish (the paper's grid splits each leaf into many boxes
with the same label)."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.arrays import Floats, Ints
from assay.kernels.compile import kernel
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid

ROUNDING = 1e-12  # more than the float64 sums below can lose


def distribution(ensemble: Ensemble, grid: Grid, masses: Floats, x: Floats) -> Floats:
    """P(label = class) for each record, (n, classes), for an ensemble of one tree."""
    label = leaf_labels(ensemble)
    cumulative = np.zeros((len(masses), masses.shape[1] + ensemble.n_features))
    start = grid.start + np.arange(ensemble.n_features + 1)
    for f in range(ensemble.n_features):
        cells = masses[:, grid.start[f] : grid.start[f + 1]]
        cumulative[:, start[f] + 1 : start[f + 1]] = np.cumsum(cells, axis=1)
    return _walk(
        ensemble.feature,
        grid.cut,
        ensemble.left,
        ensemble.right,
        ensemble.missing_left,
        label,
        int(ensemble.roots[0]),
        cumulative,
        start,
        np.isnan(x),
        ensemble.n_classes,
    )


def leaf_labels(ensemble: Ensemble) -> Ints:
    """The label of each leaf of a single tree, (nodes,); the library is asked where scores tie."""
    kind = np.float32 if ensemble.single else np.float64
    score = (ensemble.base.astype(kind) + ensemble.value.astype(kind)).astype(np.float64)
    if ensemble.outputs == 1:
        label = (score[:, 0] > ensemble.cut).astype(np.int64)
        gap = np.abs(score[:, 0] - ensemble.cut)
    else:
        label = np.argmax(score, axis=1)
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


@kernel
def _walk(feature, cut, left, right, missing_left, label, root, cumulative, start, nan, classes):
    n, features = nan.shape
    out = np.zeros((n, classes))
    deep = feature.shape[0] + 1
    node, mass, undo_f, undo_lo, undo_hi, depth = (
        np.empty(deep, np.int64),
        np.empty(deep),
        np.empty(deep, np.int64),
        np.empty(deep, np.int64),
        np.empty(deep, np.int64),
        np.empty(deep, np.int64),
    )
    path_f, path_lo, path_hi = (
        np.empty(deep, np.int64),
        np.empty(deep, np.int64),
        np.empty(deep, np.int64),
    )
    lo, hi = np.empty(features, np.int64), np.empty(features, np.int64)
    for i in range(n):
        for f in range(features):
            lo[f], hi[f] = 0, start[f + 1] - start[f] - 2
        top, on_path = 1, 0
        node[0], mass[0], undo_f[0], depth[0] = root, 1.0, -1, 0
        while top > 0:
            top -= 1
            current, m = node[top], mass[top]
            while on_path > depth[top]:  # leave the previous branch
                on_path -= 1
                lo[path_f[on_path]], hi[path_f[on_path]] = path_lo[on_path], path_hi[on_path]
            if undo_f[top] >= 0:  # enter this one
                f = undo_f[top]
                path_f[on_path], path_lo[on_path], path_hi[on_path] = f, lo[f], hi[f]
                on_path += 1
                lo[f], hi[f] = undo_lo[top], undo_hi[top]
            while feature[current] >= 0:
                f = feature[current]
                c = cut[current]
                if nan[i, f]:
                    current = left[current] if missing_left[current] else right[current]
                elif hi[f] <= c:
                    current = left[current]
                elif lo[f] > c:
                    current = right[current]
                else:
                    break
            if feature[current] < 0:
                out[i, label[current]] += m
                continue
            f, c = feature[current], cut[current]
            at = start[f]
            whole = cumulative[i, at + hi[f] + 1] - cumulative[i, at + lo[f]]
            below = cumulative[i, at + c + 1] - cumulative[i, at + lo[f]]
            share = below / whole if whole > 0 else 0.0
            if share < 1.0 and m * (1.0 - share) > 0.0:
                node[top], mass[top], depth[top] = right[current], m * (1.0 - share), on_path
                undo_f[top], undo_lo[top], undo_hi[top] = f, c + 1, hi[f]
                top += 1
            if share > 0.0:
                node[top], mass[top], depth[top] = left[current], m * share, on_path
                undo_f[top], undo_lo[top], undo_hi[top] = f, lo[f], c
                top += 1
    return out
