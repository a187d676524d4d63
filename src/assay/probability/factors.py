"""Correlation by common factors: Gauss-Hermite over the factors, certified bounds for each of
their values.

If a block of correlated features has R = l l' + diag(1 - l^2), its features are independent given
one factor t, and P = E_t[P(label | t)]. Two features always have one factor, three usually. A
block-diagonal correlation has one factor per block: two blocks are a product of two rules. The
bounds given t are certificates; the quadrature adds an error that is estimated from two rules and
carried into the interval (so the answer is "numerical")."""

from itertools import product

import numpy as np
from scipy import special
from scipy.sparse.csgraph import connected_components

from assay.kernels.arrays import Floats, Ints
from assay.noise.joint import Noise
from assay.probability.certified.bounds import bounds
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid

RULES = {1: (24, 33), 2: (12, 17)}  # factors -> nodes of the two rules, per factor


def loadings(correlation: Floats) -> Floats | None:
    """(features, factors): l with l l' equal to the correlation off its diagonal, a factor per
    block; None if a block needs more than one, or there are more than two blocks."""
    d = len(correlation)
    tied = np.abs(correlation) > 1e-14
    _, block = connected_components(tied)
    columns: list[Floats] = []
    for b in np.unique(block):
        members = np.flatnonzero(block == b)
        if len(members) > 1:
            load = _one(correlation[np.ix_(members, members)])
            if load is None or len(columns) == max(RULES):
                return None
            columns.append(np.zeros(d))
            columns[-1][members] = load
    return np.stack(columns, axis=1) if columns else np.zeros((d, 1))


def _one(correlation: Floats) -> Floats | None:
    off = correlation - np.diag(np.diag(correlation))
    share = np.abs(off).max(axis=1)
    load = np.zeros(len(off))
    for _ in range(2000):
        values, vectors = np.linalg.eigh(off + np.diag(share))
        load = vectors[:, -1] * np.sqrt(max(values[-1], 0.0))
        if np.abs(load**2 - share).max() < 1e-14:
            break
        share = np.minimum(load**2, 1.0)
    left = np.abs(np.outer(load, load) - np.diag(load**2) - off).max()
    return load if left < 1e-7 and (load**2).max() < 0.98 else None


def by_factors(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    label: Ints,
    load: Floats,
    *,
    tolerance: float,
    budget: float,
) -> tuple[Floats, Floats]:
    """Bounds on P(label), the quadrature's error estimate included."""
    levels = grid.levels(noise, x)
    per_feature = np.repeat(load, np.diff(grid.start), axis=0)  # (cells, factors)
    spread = np.sqrt(1 - (per_feature**2).sum(axis=1))
    lows, highs = [], []
    factors = load.shape[1]
    for nodes in RULES[factors]:
        t, w = np.polynomial.hermite_e.hermegauss(nodes)
        low, high = np.zeros(len(x)), np.zeros(len(x))
        for picked in product(range(nodes), repeat=factors):
            value, weight = t[list(picked)], float(np.prod(w[list(picked)] / w.sum()))
            if weight < 1e-13:
                high += weight
                continue
            edges = (levels - per_feature @ value) / spread
            below, above = special.ndtr(edges), special.ndtr(-edges)
            masses = np.empty_like(levels)
            for f in range(x.shape[1]):
                a, b = grid.start[f], grid.start[f + 1]
                under = np.concatenate([np.zeros((len(x), 1)), below[:, a : b - 1]], axis=1)
                over = np.concatenate([np.ones((len(x), 1)), above[:, a : b - 1]], axis=1)
                masses[:, a:b] = np.maximum(
                    np.where(under > 0.5, over - above[:, a:b], below[:, a:b] - under), 0.0
                )
                masses[:, a:b] /= masses[:, a:b].sum(axis=1, keepdims=True)
            below_, above_, _ = bounds(
                ensemble,
                grid,
                masses,
                x,
                label,
                tolerance=tolerance / 2,
                budget=budget / nodes**factors,
            )
            low += weight * below_
            high += weight * above_
        lows.append(low)
        highs.append(high)
    error = np.abs((lows[0] + highs[0]) / 2 - (lows[1] + highs[1]) / 2)
    return np.clip(lows[1] - error, 0, 1), np.clip(highs[1] + error, 0, 1)
