"""Normal probabilities of many boxes at once: closed forms in 1 and 2 dimensions, Genz (1992)
beyond.

Genz turns P(a < Z <= b), Z ~ N(0, R), into an integral over the unit cube, one conditional normal
interval after the other down the Cholesky factor. Here all boxes share the same shifted lattice
points, several random shifts give an error estimate, and features a box leaves free are
integrated out first: only the constrained ones count towards the dimension.

What a reader would get wrong: the error is an estimate (Student's interval over the shifts), not a
certificate; and boxes that share a lattice err together, so a sum of boxes is summed shift by shift
(`by_shifts`) before its error is taken, never as a root of squares."""

import numpy as np
from scipy import special

from assay.kernels.arrays import Floats

SHIFTS = 12
QUANTILE = float(special.stdtrit(SHIFTS - 1, 0.9995)) / np.sqrt(SHIFTS)  # Student's, of the spread


def normal_boxes(
    low: Floats, high: Floats, correlation: Floats, points: int = 1024, seed: int = 0
) -> tuple[Floats, Floats]:
    """(probability, error estimate) of boxes (..., d) under N(0, correlation)."""
    found = by_shifts(low, high, correlation, points, seed)
    return found.mean(axis=0), QUANTILE * found.std(axis=0, ddof=1)


def by_shifts(
    low: Floats, high: Floats, correlation: Floats, points: int = 1024, seed: int = 0
) -> Floats:
    """Probabilities of boxes (..., d) under N(0, correlation), one estimate per shift, (SHIFTS,
    ...)."""
    shape, d = low.shape[:-1], low.shape[-1]
    a, b = low.reshape(-1, d), high.reshape(-1, d)
    free = np.isneginf(a) & np.isposinf(b)
    value = np.empty((SHIFTS, len(a)))
    patterns, which = np.unique(free, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == k)
        used = np.flatnonzero(~pattern)
        value[:, rows] = _constrained(
            a[np.ix_(rows, used)],
            b[np.ix_(rows, used)],
            correlation[np.ix_(used, used)],
            points,
            seed,
        )
    return value.reshape(SHIFTS, *shape)


def _constrained(a: Floats, b: Floats, r: Floats, points: int, seed: int) -> Floats:
    """(SHIFTS, boxes), or (boxes,) where there is a closed form."""
    d = a.shape[1]
    if d == 0:
        return np.ones(len(a))
    if d == 1:
        return interval(a[:, 0], b[:, 0])
    if np.abs(r - np.eye(d)).max() < 1e-15:
        return np.asarray(np.prod(interval(a, b), axis=1))
    if d == 2:
        return _rectangle(a, b, float(r[0, 1]))
    return _lattice(a, b, r, points, seed)


def interval(a: Floats, b: Floats) -> Floats:
    """P(a < Z <= b) from the tail that keeps its digits."""
    return np.maximum(
        np.where(a > 0, special.ndtr(-a) - special.ndtr(-b), special.ndtr(b) - special.ndtr(a)), 0.0
    )


def _rectangle(a: Floats, b: Floats, r: float) -> Floats:
    # 2-D: one outer Gauss-Legendre integral of a conditional interval, on the finite part of the
    # density
    s = np.sqrt(max(1 - r * r, 0.0))
    lo, hi = np.clip(a[:, 0], -9, 9), np.clip(b[:, 0], -9, 9)
    if s < 1e-12:
        sign = 1.0 if r > 0 else -1.0
        other = np.sort(sign * np.stack([a[:, 1], b[:, 1]]), axis=0)
        left, right = np.maximum(a[:, 0], other[0]), np.minimum(b[:, 0], other[1])
        return np.where(right > left, interval(left, np.maximum(left, right)), 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    panels = max(8, int(np.ceil(4 / s)))
    total = np.zeros(len(a))
    edges = lo[:, None] + (hi - lo)[:, None] * np.linspace(0, 1, panels + 1)
    for k in range(panels):
        half = (edges[:, k + 1] - edges[:, k])[:, None] / 2
        t = edges[:, k][:, None] + half * (1 + nodes)
        inner = interval((a[:, 1, None] - r * t) / s, (b[:, 1, None] - r * t) / s)
        total += (half * weights * np.exp(-t * t / 2) * inner).sum(axis=1)
    return np.asarray(total / np.sqrt(2 * np.pi))


def _lattice(a: Floats, b: Floats, r: Floats, points: int, seed: int) -> Floats:
    # narrow intervals first: the early conditionals then carry most of the variation
    order = np.argsort(interval(a, b).mean(axis=0))
    a, b, r = a[:, order], b[:, order], r[np.ix_(order, order)]
    values, vectors = np.linalg.eigh(r)
    chol = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 1e-14))).T)[1].T
    chol = chol * np.sign(np.diag(chol))
    d = a.shape[1]
    rng = np.random.default_rng(seed)
    generator = np.sqrt(
        np.array(
            [
                2,
                3,
                5,
                7,
                11,
                13,
                17,
                19,
                23,
                29,
                31,
                37,
                41,
                43,
                47,
                53,
                59,
                61,
                67,
                71,
                73,
                79,
                83,
                89,
                97,
                101,
                103,
                107,
                109,
                113,
                127,
                131,
            ][: d - 1]
            if d <= 33
            else rng.integers(2, 10**6, size=d - 1),
            dtype=float,
        )
    )
    estimates = np.empty((SHIFTS, len(a)))
    chunk = max(1, 2_000_000 // points)
    shifts = rng.random((SHIFTS, d - 1))
    for k in range(SHIFTS):
        w = np.abs(
            2 * ((np.arange(1, points + 1)[:, None] * generator + shifts[k]) % 1.0) - 1
        )  # (points, d-1)
        for start in range(0, len(a), chunk):
            rows = slice(start, start + chunk)
            estimates[k, rows] = _sequence(a[rows], b[rows], chol, w)
    return estimates


def _sequence(a: Floats, b: Floats, chol: Floats, w: Floats) -> Floats:
    m, d = a.shape
    y = np.empty((d, m, len(w)))
    product = np.ones((m, len(w)))
    for i in range(d):
        mean = np.tensordot(chol[i, :i], y[:i], axes=1) if i else 0.0
        lo, hi = (a[:, i, None] - mean) / chol[i, i], (b[:, i, None] - mean) / chol[i, i]
        flip = lo > 0  # work in the lower tail, where ndtr keeps its digits
        lo, hi = np.where(flip, -hi, lo), np.where(flip, -lo, hi)
        p_lo = special.ndtr(lo)
        p = np.maximum(special.ndtr(hi) - p_lo, 0.0)
        product = product * p
        if i < d - 1:
            z = special.ndtri(np.clip(p_lo + w[:, i] * p, 1e-300, 1 - 1e-16))
            y[i] = np.where(flip, -z, z)
    return np.asarray(product.mean(axis=1))
