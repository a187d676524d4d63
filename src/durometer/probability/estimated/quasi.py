"""Correlated noise, or bounds that stay wide: randomised quasi-Monte-Carlo with one feature
integrated exactly.

All features but one are drawn (scrambled Sobol points, through the Cholesky factor if they are
tied); along the last one the ensemble is a step function, whose steps are weighed by their
conditional probabilities. That takes the roughest coordinate out of the sampling. Independent
scramblings give the standard error; the interval is Student's, at level `CONFIDENCE`: an
*estimate*, and named so.

What a reader would get wrong: tied features are handled in the copula's normal coordinates, so
normal, mixed and integer features are the same here: cells with normal edges. Independent ones are
handled by their masses, and Sobol's first coordinates, its best, go to the features that matter
most to the record."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import special, stats

from durometer.kernels.arrays import Floats, Ints
from durometer.noise.joint import Noise
from durometer.probability.estimated.pivot import variances
from durometer.probability.estimated.score_tables import Forest, Guide, Tables, class_masses
from durometer.probability.estimated.sobol import scrambled, stretch
from durometer.probability.estimated.view import Settled, View, view
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid

SCRAMBLES = 16
CONFIDENCE = 0.99
FIRST, CHUNK = 256, 4096  # points of a scrambling before the first look, and at a time
Draws = list[Any]  # per scrambling: points (dimensions, n), the open feature's conditional means
Mean = Callable[[Draws], Floats]  # -> (scramblings, classes)


def estimate(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    *,
    tolerance: float = 1e-3,
    budget: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[Floats, Floats, Floats]:
    """(mean, low, high), each (n, classes).

    Points per scrambling double until an interval is within `tolerance`, or at the budget: about
    seconds of one core per record, counted as points.
    """
    levels, nan = grid.levels(noise, x), np.isnan(x)
    used = np.flatnonzero(np.diff(grid.start) > 1)
    if not len(used):
        used = np.arange(1)
    moved, overall = variances(ensemble, levels, nan)
    used = used[np.argsort(-overall[used])]
    correlation = noise.correlation(x.shape[1])
    likely = ensemble.predict(x)
    views = [view(ensemble, grid, levels[i], nan[i], used, int(likely[i])) for i in range(len(x))]
    here = np.zeros((len(x), len(used)), dtype=bool)
    for row, seen_by in enumerate(views):
        if isinstance(seen_by, View):
            here[row] = seen_by.names >= 0
    weight = np.where(here, moved[:, used], -1.0)
    along = weight.argmax(axis=1)  # places in `used`
    half = np.full((len(x), ensemble.n_classes), np.inf)
    total = np.zeros((len(x), SCRAMBLES, ensemble.n_classes))
    points = np.zeros(len(x), dtype=np.int64)
    means: dict[int, Mean] = {}
    cost = np.ones(len(x))
    for row, seen_by in enumerate(views):
        if isinstance(seen_by, Settled):
            total[row, :, seen_by.label], points[row], half[row] = 1.0, 1, seen_by.lost
        else:
            means[row], cost[row] = _by_tables(
                seen_by, int(along[row]), weight[row], correlation is not None, ensemble.n_classes
            )
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, SCRAMBLES - 1))
    most = 2 ** np.clip(np.log2(1e9 * budget / SCRAMBLES / cost), 8, 20).astype(np.int64)
    rules = [
        scrambled(max(len(used) - 1, 1), np.random.default_rng([seed, k])) for k in range(SCRAMBLES)
    ]
    todo, seen, look_at = np.array(sorted(means), dtype=np.int64), 0, FIRST
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        while len(todo):
            n = min(CHUNK, look_at - seen)
            uniform = [stretch(*rule, seen, n) for rule in rules]
            draws = {f: _draws(correlation, used, f, uniform) for f in set(along[todo].tolist())}
            mine = [draws[f] for f in along[todo].tolist()]
            seen += n
            asked = [means[i] for i in todo]
            for i, found in zip(todo, pool.map(_ask, asked, mine), strict=True):
                total[i] += n * found
                points[i] += n
            if seen == look_at:
                look_at *= 2
                error = (total[todo] / seen).std(axis=1, ddof=1) / np.sqrt(SCRAMBLES)
                # what no point has seen may still have this mass, at the same confidence
                unseen = -np.log(1 - CONFIDENCE) / (SCRAMBLES * seen)
                lost = np.array([views[i].lost for i in todo])
                half[todo] = quantile * error + unseen + lost[:, None]
                todo = todo[(2 * half[todo].max(axis=1) > tolerance) & (most[todo] > seen)]
    mean = total.mean(axis=1) / points[:, None]
    return mean, np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


def _ask(mean: Mean, draws: Draws) -> Floats:
    return mean(draws)


def _draws(
    correlation: Floats | None, used: Ints, last: int, uniform: list[Floats]
) -> list[tuple[Floats, Floats, float]]:
    """Per scrambling: the other used features' numbers (uniform ones if independent, else normal),
    and the conditional mean and sd of the last one."""
    if correlation is None:
        return [(u, np.zeros(1), 1.0) for u in uniform]
    order = np.append(np.delete(np.arange(len(used)), last), last)
    r = correlation[np.ix_(used[order], used[order])]
    values, vectors = np.linalg.eigh(r)
    chol = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 1e-12))).T)[1].T
    chol = chol * np.where(np.diag(chol) < 0, -1.0, 1.0)
    if len(used) == 1:
        return [(u, np.zeros(u.shape[1]), float(chol[0, 0])) for u in uniform]
    found = []
    for u in uniform:
        e = special.ndtri(u)
        found.append((chol[:-1, :-1] @ e, chol[-1, :-1] @ e, float(chol[-1, -1])))
    return found


def _by_tables(seen_by: View, along: int, weight: Floats, tied: bool, n: int) -> tuple[Mean, float]:
    """The estimate of one record from a model of n classes, and a point's cost."""
    names, start = seen_by.names, seen_by.start
    last = int(names[along])
    forest = Forest(*seen_by.trees, seen_by.score, seen_by.base, seen_by.slack, start, last)
    tables = Tables.of(forest, seen_by.roots)
    edges = seen_by.edges if tied else special.ndtr(seen_by.edges)
    others = np.delete(np.arange(len(names)), along)
    if not tied:
        others = others[np.argsort(-weight[others], kind="stable")]
    dimension = np.full(len(start) - 1, -1, dtype=np.int64)
    for i, f in enumerate(names[others]):
        if f >= 0:
            dimension[f] = i
    guide = Guide.of(edges, start, dimension)

    def mean(draws: Draws) -> Floats:
        found = np.zeros((len(draws), n))
        for i, draw in enumerate(draws):
            found[i, seen_by.classes] = class_masses(forest, tables, guide, draw, tied)
        return found

    scores, steps = seen_by.score.shape[1], int(start[last + 1] - start[last])
    lookups, walks = len(tables.feature) + len(tables.place), len(tables.walked)
    cost = 100 + 9 * len(start) + lookups + (30 + 5 * scores) * walks
    return mean, float(cost + 2 * (scores - 1) * steps)
