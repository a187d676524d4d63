"""Sampled readings of a model with a score per class, one feature left open: every tree is walked.

Where a tree asks about the open feature the walk goes both ways, so that the scores of all classes
are known along it, and with them the mass of each class.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import math

import numpy as np

from assay.kernel import kernel


@kernel
def _normal(v):
    return 0.5 * math.erfc(-v * 0.7071067811865476)


@kernel
def sweep(
    feature,
    cut,
    left,
    right,
    missing_left,
    value,
    roots,
    base,
    border,
    slack,
    levels,
    start,
    nan,
    used,
    last,
    z,
    shift,
    sd,
    classes,
):
    """Mean mass of each class over readings z (n, used features)."""
    outputs, points = value.shape[1], z.shape[0]
    found = np.zeros(classes)
    cells = np.zeros(nan.shape[0], np.int64)
    steps = start[last + 1] - start[last]
    scores = np.zeros((outputs, steps + 1))
    stack = np.empty((feature.shape[0] + 1, 3), np.int64)
    for i in range(points):
        for j in range(used.shape[0]):
            f = used[j]
            if f >= 0 and f != last:
                a, b = start[f], start[f + 1] - 1
                while a < b:  # the first edge at or above
                    m = (a + b) // 2
                    if levels[m] < z[i, j]:
                        a = m + 1
                    else:
                        b = m
                cells[f] = a - start[f]
        for k in range(outputs):
            for s in range(steps + 1):
                scores[k, s] = 0.0
            scores[k, 0] = base[k]
        for t in range(roots.shape[0]):
            top = 1
            stack[0, 0], stack[0, 1], stack[0, 2] = roots[t], 0, steps - 1
            while top > 0:
                top -= 1
                node, lo, hi = stack[top, 0], stack[top, 1], stack[top, 2]
                while feature[node] >= 0:
                    f = feature[node]
                    if nan[f]:
                        node = left[node] if missing_left[node] else right[node]
                    elif f != last:
                        node = left[node] if cells[f] <= cut[node] else right[node]
                    elif hi <= cut[node]:
                        node = left[node]
                    elif lo > cut[node]:
                        node = right[node]
                    else:
                        stack[top, 0], stack[top, 1], stack[top, 2] = right[node], cut[node] + 1, hi
                        top += 1
                        hi = cut[node]
                        node = left[node]
                for k in range(outputs):
                    v = value[node, k]
                    if v != 0.0:
                        scores[k, lo] += v
                        scores[k, hi + 1] -= v
        before, label = 0.0, -1
        for s in range(steps):
            if s > 0:
                for k in range(outputs):
                    scores[k, s] += scores[k, s - 1]
            if outputs == 1:
                now = 1 if scores[0, s] > border else 0
            else:
                now = 0
                for k in range(1, outputs):
                    if scores[k, s] > scores[now, s] + slack:
                        now = k
            if now != label:
                if label >= 0:
                    edge = _normal((levels[start[last] + s - 1] - shift[i]) / sd)
                    found[label] += edge - before
                    before = edge
                label = now
        found[label] += 1.0 - before
    return found / points
