"""Correlated noise with a certificate: condition on common factors, integrate them with a proven
error.

If a block of correlated features has R = l l' + diag(1 - l^2), its features are independent given
one factor t, and P(A) = E g(t) with g(t) = P(A | t), which the certified search bounds. Two
features always have one factor, three usually; a block-diagonal correlation has one per block.

Why the quadrature can be trusted: whatever the event A, g is an integral of N(t m, I) over a set,
m_f = l_f / sqrt(1 - l_f^2). With s^2 = 1 + |m|^2 the k-th derivative of g(t) phi(t) is s^k times an
integral of a Hermite polynomial against a density, and Cramer's inequality |He_k(x)| <= 1.0865
sqrt(k!) exp(x^2 / 4) bounds it. So Gauss-Legendre with n nodes on panels of width w errs by less
than a number that can be written down (`_error`), however jagged the trees: some 20 s nodes do.

What a reader would get wrong: 24 nodes of Gauss-Hermite look converged long before they are when
the correlation is strong; comparing two rules bounds nothing."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second

from durometer.kernels.arrays import Floats, Ints
from durometer.noise.joint import Noise
from durometer.probability import leaves
from durometer.probability.certified.bounds import bounds
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid

FACTORS = 2
MOST = 1200  # values of the factors: beyond, an estimate is the better answer
NODES = (8, 12, 16, 20, 24, 32, 40)  # of a panel
CRAMER = 1.0865


@dataclass(frozen=True, eq=False)
class Factors:
    """Loadings (features, factors), and what the correlation differs from theirs in total
    variation."""

    load: Floats
    lost: float


@dataclass(frozen=True, eq=False)
class Rule:
    """Values of one factor with weights; the integral of any g in [0, 1] is within `error` above
    the sum, and half of it below."""

    at: Floats
    weight: Floats
    error: float


def factors(correlation: Floats) -> Factors | None:
    """A factor per block of tied features; None if a block needs more than one, or there are more
    than two blocks."""
    d = len(correlation)
    tied = np.abs(correlation) > 1e-14
    _, block = scipy.sparse.csgraph.connected_components(tied)
    columns: list[Floats] = []
    for b in np.unique(block):
        members = np.flatnonzero(block == b)
        if len(members) > 1:
            load = _one(correlation[np.ix_(members, members)])
            if load is None or len(columns) == FACTORS:
                return None
            columns.append(np.zeros(d))
            columns[-1][members] = load
    found = np.stack(columns, axis=1) if columns else np.zeros((d, 1))
    ours = found @ found.T
    np.fill_diagonal(ours, 1.0)
    # |N(0, R) - N(0, S)| <= 3/2 |R^-1 S - I|, Frobenius (Devroye, Mehrabian & Reddad 2018)
    lost = 1.5 * float(np.linalg.norm(np.linalg.solve(ours, correlation) - np.eye(d)))
    return Factors(found, lost) if lost < 1e-6 else None


def _one(correlation: Floats) -> Floats | None:
    off = correlation - np.diag(np.diag(correlation))
    if len(off) == 2:
        root = np.sqrt(abs(off[0, 1]))
        load = np.array([root, np.sign(off[0, 1]) * root])
    else:
        share, load = np.abs(off).max(axis=1), np.zeros(len(off))
        for _ in range(2000):
            values, vectors = np.linalg.eigh(off + np.diag(share))
            load = vectors[:, -1] * np.sqrt(max(values[-1], 0.0))
            if np.abs(load**2 - share).max() < 1e-14:
                break
            share = np.minimum(load**2, 1.0)
        for _ in range(20):  # l_i = sum_j l_j r_ij / sum_j l_j^2: to the last digits
            square = (load**2).sum() - load**2
            load = np.where(square > 0, off @ load / np.where(square > 0, square, 1.0), load)
    return load if (load**2).max() < 0.9999 else None


def rule(load: Floats, tolerance: float) -> Rule | None:
    """A rule for a factor with these loadings, to about `tolerance`; None if it takes too many."""
    # values of the factor beyond `end` have mass `outside`, which only the upper end can hold
    end = float(-scipy.special.ndtri(tolerance / 8))
    outside = 2 * float(scipy.special.ndtr(-end))
    noise_ratio = float((load**2 / (1 - load**2)).sum())
    sizes = sorted((n * panels, n, panels) for n in NODES for panels in range(1, MOST // n + 1))
    for total, n, panels in sizes:
        if total < 4 * np.sqrt(1 + noise_ratio):  # far too few
            continue
        edges = np.linspace(-end, end, panels + 1)
        error = _error(edges, noise_ratio, n)
        if error <= tolerance / 8:
            t, w = np.polynomial.legendre.leggauss(n)
            half = end / panels
            at = (edges[:-1, None] + half * (1 + t)).ravel()
            weight = np.tile(half * w, panels) * np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
            return Rule(at, weight, outside + 2 * error + 1e-13)
    return None


def _error(edges: Floats, noise_ratio: float, n: int) -> float:
    """The most that n nodes on each of these panels may err by, for any set of readings."""
    k = 2 * n
    wide = np.diff(edges)
    nearest = np.where(
        edges[:-1] * edges[1:] <= 0, 0.0, np.minimum(*np.abs([edges[:-1], edges[1:]]))
    )
    s2 = 1 + noise_ratio
    log_derivative = (
        n * np.log(s2)
        + np.log(CRAMER)
        + scipy.special.gammaln(k + 1) / 2
        - np.log(1 - noise_ratio / s2 / 2) / 2
        - np.log(2 * np.pi) / 2
        - nearest**2 * (0.5 - 1 / (4 + 2 * noise_ratio))
    )
    log_rule = (
        (k + 1) * np.log(wide)
        + 4 * scipy.special.gammaln(n + 1)
        - np.log(k + 1)
        - 3 * scipy.special.gammaln(k + 1)
    )
    return float(np.exp(log_rule + log_derivative).sum())


def by_factors(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    label: Ints,
    found: Factors,
    *,
    tolerance: float,
    budget: float,
    workers: int | None = None,
) -> tuple[Floats, Floats] | None:
    """Certified bounds on P(label); None if the rule would take too many values."""
    load = found.load
    rules = [rule(load[:, k], tolerance / load.shape[1]) for k in range(load.shape[1])]
    kept = [r for r in rules if r is not None]
    if len(kept) < len(rules):
        return None
    weights = np.ones(1)
    for r in kept:
        weights = np.outer(weights, r.weight).ravel()
    order = np.sort(weights)
    # values whose weights add up to a tenth of the tolerance are left to the upper end
    least = order[np.searchsorted(np.cumsum(order), tolerance / 10)]
    nodes = int((weights >= least).sum())
    if nodes > MOST:
        return None
    low, high = np.zeros(len(x)), np.full(len(x), found.lost + sum(r.error for r in kept))
    low -= found.lost + sum(r.error for r in kept) / 2
    single = ensemble.n_trees == 1
    given = _Given(grid, grid.levels(noise, x), load)
    for picked in product(*[range(len(r.at)) for r in kept]):
        value = np.array([r.at[i] for r, i in zip(kept, picked, strict=True)])
        weight = float(np.prod([r.weight[i] for r, i in zip(kept, picked, strict=True)]))
        if weight < least:
            high += weight
            continue
        masses = given.masses(value)
        if single:
            exact = leaves.distribution(ensemble, grid, masses, x)[np.arange(len(x)), label]
            a, b = exact - leaves.ROUNDING, exact + leaves.ROUNDING
        else:
            a, b, _ = bounds(
                ensemble,
                grid,
                masses,
                x,
                label,
                tolerance=tolerance / 2,
                budget=budget / nodes,
                workers=workers,
            )
        low += weight * a
        high += weight * b
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


@dataclass(frozen=True, eq=False)
class _Given:
    """Cell masses given the factors."""

    grid: Grid
    levels: Floats
    load: Floats

    def masses(self, value: Floats) -> Floats:
        grid = self.grid
        per_cell = np.repeat(self.load, np.diff(grid.start), axis=0)  # (cells, factors)
        edges = (self.levels - per_cell @ value) / np.sqrt(1 - (per_cell**2).sum(axis=1))
        below, above = scipy.special.ndtr(edges), scipy.special.ndtr(-edges)
        masses = np.empty_like(edges)
        for f in range(len(self.load)):
            a, b = grid.start[f], grid.start[f + 1]
            under = np.concatenate([np.zeros((len(edges), 1)), below[:, a : b - 1]], axis=1)
            over = np.concatenate([np.ones((len(edges), 1)), above[:, a : b - 1]], axis=1)
            masses[:, a:b] = np.maximum(
                np.where(under > 0.5, over - above[:, a:b], below[:, a:b] - under), 0.0
            )
            masses[:, a:b] /= masses[:, a:b].sum(axis=1, keepdims=True)
        return np.asarray(masses)
