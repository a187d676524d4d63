"""Correlated noise, or bounds that stay wide: randomised quasi-Monte-Carlo with one feature
integrated exactly.

All features but one are drawn (scrambled Sobol points through the Cholesky factor); along the last
one the ensemble is a step function, whose steps are weighed by their conditional normal
probabilities. That takes the roughest coordinate out of the sampling, and gives all classes at
once. Independent scramblings give the standard error; the interval is Student's, at level
`confidence`: an *estimate*, and named so.

What a reader would get wrong: everything happens in the copula's normal coordinates, so normal,
mixed and integer features are the same here: cells with normal edges."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import special, stats

from assay.noise.joint import Noise
from assay.noise.marginal import Floats
from assay.trees.ensemble import Ensemble, Ints
from assay.trees.grid import Grid
from assay.trees.kernel import kernel

SCRAMBLES = 16
CONFIDENCE = 0.99


def estimate(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    *,
    tolerance: float = 1e-3,
    most: int = 2**13,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[Floats, Floats, Floats]:
    """(mean, low, high), each (n, classes): points per scrambling double until all are within
    tolerance or `most`."""
    levels = grid.levels(noise, x)
    full = noise.correlation(x.shape[1])
    correlation = np.eye(x.shape[1]) if full is None else full
    used = np.flatnonzero(np.diff(grid.start) > 1)
    if not len(used):
        used = np.arange(1)
    along = _along(ensemble, grid, levels, np.isnan(x), used)
    mean, half = (
        np.zeros((len(x), ensemble.n_classes)),
        np.full((len(x), ensemble.n_classes), np.inf),
    )
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, SCRAMBLES - 1))
    slack = ensemble.slack()
    draws: dict[tuple[int, int], tuple[Floats, Floats, float]] = {}
    n = 256
    while n <= most:
        todo = np.flatnonzero(2 * half.max(axis=1) > tolerance)
        if not len(todo):
            break
        for f in np.unique(along[todo]):
            draws[int(f), n] = _draws(correlation, used, int(f), n, seed)

        def one(i: int, n: int = n) -> Floats:
            z, shift, sd = draws[int(along[i]), n]
            return np.asarray(
                _sweep(
                    ensemble.feature,
                    grid.cut,
                    ensemble.left,
                    ensemble.right,
                    ensemble.missing_left,
                    ensemble.value,
                    ensemble.roots,
                    ensemble.base,
                    ensemble.cut,
                    slack,
                    levels[i],
                    grid.start,
                    np.isnan(x[i]),
                    used,
                    int(along[i]),
                    z,
                    shift,
                    sd,
                    SCRAMBLES,
                    ensemble.n_classes,
                )
            )

        with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            for i, found in zip(todo, pool.map(one, todo), strict=True):
                mean[i] = found.mean(axis=0)
                half[i] = quantile * found.std(axis=0, ddof=1) / np.sqrt(SCRAMBLES) + 1e-9
        n *= 2
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _along(
    ensemble: Ensemble,
    grid: Grid,
    levels: Floats,
    nan: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    used: Ints,
) -> Ints:
    """Per record the feature whose thresholds the noise crosses most: sum over its nodes of p (1 -
    p)."""
    inner = ensemble.feature >= 0
    feature, cut = ensemble.feature[inner], grid.cut[inner]
    inside = (cut >= 0) & (cut < np.diff(grid.start)[feature] - 1)
    p = special.ndtr(levels[:, grid.start[feature[inside]] + cut[inside]])
    crossed = np.zeros((len(levels), ensemble.n_features))
    for f in used:
        crossed[:, f] = (p * (1 - p))[:, feature[inside] == f].sum(axis=1)
    crossed[nan] = -1.0
    return np.asarray(used[crossed[:, used].argmax(axis=1)], dtype=np.int64)


def _draws(
    correlation: Floats, used: Ints, last: int, n: int, seed: int
) -> tuple[Floats, Floats, float]:
    """Normal numbers of the used features (the last one aside), the last one's conditional mean
    and sd."""
    others = [f for f in used if f != last]
    order = [*others, last]
    r = correlation[np.ix_(order, order)]
    values, vectors = np.linalg.eigh(r)
    chol = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 1e-12))).T)[1].T
    chol = chol * np.where(np.diag(chol) < 0, -1.0, 1.0)
    if not others:
        return np.zeros((SCRAMBLES * n, 1)), np.zeros(SCRAMBLES * n), float(chol[0, 0])
    u = np.concatenate(
        [
            stats.qmc.Sobol(
                len(others), scramble=True, rng=np.random.default_rng([seed, k])
            ).random(n)
            for k in range(SCRAMBLES)
        ]
    )
    e = special.ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    z = np.zeros((len(e), len(used)))
    columns = {f: j for j, f in enumerate(used)}
    z[:, [columns[f] for f in others]] = e @ chol[:-1, :-1].T
    return np.ascontiguousarray(z), np.ascontiguousarray(e @ chol[-1, :-1]), float(chol[-1, -1])


@kernel
def _normal(v):
    return 0.5 * math.erfc(-v * 0.7071067811865476)


@kernel
def _sweep(
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
    scrambles,
    classes,
):
    outputs, points = value.shape[1], z.shape[0]
    per = points // scrambles
    found = np.zeros((scrambles, classes))
    cells = np.zeros(nan.shape[0], np.int64)
    steps = start[last + 1] - start[last]
    scores = np.zeros((outputs, steps + 1))
    stack = np.empty((feature.shape[0] + 1, 3), np.int64)
    for i in range(points):
        for j in range(used.shape[0]):
            f = used[j]
            if f != last:
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
                    found[i // per, label] += edge - before
                    before = edge
                label = now
        found[i // per, label] += 1.0 - before
    return found / per
