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
from numpy.typing import NDArray
from scipy import special, stats

from assay.kernel import kernel
from assay.noise.joint import Noise
from assay.noise.marginal import Floats
from assay.trees.ensemble import Ensemble, Ints
from assay.trees.grid import Grid
from assay.trees.view import view

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
    """(mean, low, high), each (n, classes).

    Points per scrambling double until an interval is within `tolerance`, or at `most`.
    """
    levels = grid.levels(noise, x)
    full = noise.correlation(x.shape[1])
    correlation = np.eye(x.shape[1]) if full is None else full
    used = np.flatnonzero(np.diff(grid.start) > 1)
    if not len(used):
        used = np.arange(1)
    matter, overall = _importance(ensemble, grid, levels, np.isnan(x))
    used = used[np.argsort(-overall[used])]  # Sobol's first coordinates are its best
    half = np.full((len(x), ensemble.n_classes), np.inf)
    total = np.zeros((len(x), SCRAMBLES, ensemble.n_classes))
    points = np.zeros(len(x), dtype=np.int64)
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, SCRAMBLES - 1))
    trees = [view(ensemble, grid, levels[i], np.isnan(x[i]), used) for i in range(len(x))]
    here = np.stack([tree.used >= 0 for tree in trees]) if trees else np.ones((0, len(used)), bool)
    along = used[np.where(here, matter[:, used], -1.0).argmax(axis=1)]
    for row, tree in enumerate(trees):
        if tree.settled is not None:  # no reading that the noise makes has another label
            total[row, :, tree.settled], points[row], half[row] = 1.0, 1, tree.lost
    seen, n = 0, 256  # points of the sequence so far, points of the next stretch
    while seen + n <= max(most, 256):
        todo = np.flatnonzero(2 * half.max(axis=1) > tolerance)
        if not len(todo):
            break
        draws = {
            int(f): _draws(correlation, used, int(f), seen, n, seed) for f in np.unique(along[todo])
        }

        def one(i: int, draws: dict[int, tuple[Floats, Floats, float]] = draws) -> Floats:
            z, shift, sd = draws[int(along[i])]
            last = int(trees[i].used[np.flatnonzero(used == along[i])[0]])
            return np.asarray(
                _sweep(*trees[i].arrays, last, z, shift, sd, SCRAMBLES, ensemble.n_classes)
            )

        with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            for i, found in zip(todo, pool.map(one, todo), strict=True):
                total[i] += n * found
                points[i] += n
                error = (total[i] / points[i]).std(axis=0, ddof=1) / np.sqrt(SCRAMBLES)
                # what no point has seen may still have this mass, at the same confidence
                unseen = -np.log(1 - CONFIDENCE) / (SCRAMBLES * points[i])
                half[i] = quantile * error + unseen + trees[i].lost
        seen += n
        n = seen
    mean = total.mean(axis=1) / points[:, None]
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _importance(
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


def _draws(
    correlation: Floats, used: Ints, last: int, seen: int, n: int, seed: int
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
        [_stretch(len(others), np.random.default_rng([seed, k]), seen, n) for k in range(SCRAMBLES)]
    )
    e = special.ndtri(np.clip(u, 1e-12, 1 - 1e-12))
    z = np.zeros((len(e), len(used)))
    columns = {f: j for j, f in enumerate(used)}
    z[:, [columns[f] for f in others]] = e @ chol[:-1, :-1].T
    return np.ascontiguousarray(z), np.ascontiguousarray(e @ chol[-1, :-1]), float(chol[-1, -1])


def _stretch(d: int, rng: np.random.Generator, seen: int, n: int) -> Floats:
    """Points seen .. seen + n of one scrambled Sobol sequence."""
    sequence = stats.qmc.Sobol(d, scramble=True, rng=rng)
    if seen:
        sequence.fast_forward(seen)
    return np.asarray(sequence.random(n))


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
                    found[i // per, label] += edge - before
                    before = edge
                label = now
        found[i // per, label] += 1.0 - before
    return found / per
