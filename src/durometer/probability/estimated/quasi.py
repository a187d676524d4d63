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
most to the record.

Which feature's noise moves the score most: the one worth integrating exactly.

Roughly, the variance that each test adds to the score: the chance to reach it, times that of either
answer, times the squared difference between the means of its two sides.

Scrambled Sobol points, fast enough not to be what an estimate waits for.

The direction numbers are scipy's (Joe & Kuo); each scrambling is a random lower triangular matrix
over the bits and a random shift (Matousek 1998), as scipy does it, but a point costs one exclusive
or per dimension here. Points of one scrambling are uniform one by one and spread evenly together.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats, Ints
from durometer.kernels.native import Kernel
from durometer.noise.joint import Noise
from durometer.probability.estimated.score_tables import Forest, Guide, Tables, class_masses
from durometer.probability.estimated.view import Settled, View, view
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.gridded import LAYOUT, Gridded

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
    quantile = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, SCRAMBLES - 1))
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
        e = scipy.special.ndtri(u)
        found.append((chol[:-1, :-1] @ e, chol[-1, :-1] @ e, float(chol[-1, -1])))
    return found


def _by_tables(seen_by: View, along: int, weight: Floats, tied: bool, n: int) -> tuple[Mean, float]:
    """The estimate of one record from a model of n classes, and a point's cost."""
    names, start = seen_by.names, seen_by.start
    last = int(names[along])
    forest = Forest(*seen_by.trees, seen_by.score, seen_by.base, seen_by.slack, start, last)
    tables = Tables.of(forest, seen_by.roots)
    edges = seen_by.edges if tied else scipy.special.ndtr(seen_by.edges)
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
    below = np.clip(scipy.special.ndtr(levels), 0, 1)
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


BITS = 30
LONGEST = 22  # at most 2 ** LONGEST points of a sequence
Bits = NDArray[np.int64]
_sobol = Kernel(
    "sobol",
    d="size",
    bits="size",
    n="size",
    direction="int64[d, bits]",
    shift="int64[d]",
    seen="int64",
    out="out float64[d, n]",
)


@lru_cache(maxsize=16)
def directions(d: int) -> Bits:
    """(d, LONGEST) direction numbers as integers of BITS bits."""
    found = np.zeros((d, LONGEST), dtype=np.int64)
    sequence = scipy.stats.qmc.Sobol(d, scramble=False, bits=BITS)
    before, seen = np.zeros(d, dtype=np.int64), 0
    for k in range(LONGEST):  # point 2^k differs from the one before it by direction k
        sequence.fast_forward((1 << k) - seen)
        point = (sequence.random(1)[0] * 2.0**BITS).astype(np.int64)
        seen = (1 << k) + 1
        found[:, k] = point ^ before
        before = found[:, k]  # Gray code: point 2^(k+1) - 1 is direction k alone
    return found


def scrambled(d: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
    """(directions, shift) of one random scrambling."""
    place = np.arange(BITS)
    # every bit is mixed with a random choice of the higher ones
    mask = rng.integers(0, 2**BITS, (d, BITS)) >> (place + 1) << (place + 1) | 1 << place
    mixed = np.bitwise_count(mask[:, None, :] & directions(d)[:, :, None]) & 1
    return (mixed.astype(np.int64) << place).sum(axis=2), rng.integers(0, 2**BITS, d)


def stretch(direction: Bits, shift: Bits, seen: int, n: int) -> Floats:
    """Points seen .. seen + n of a sequence, (d, n) numbers inside (0, 1)."""
    out = np.empty((len(shift), n))
    _sobol(direction, shift, seen, out)
    return out
