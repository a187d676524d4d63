"""Normal probabilities of many boxes at once: closed forms in 1 and 2 dimensions, Genz (1992)
beyond.

Genz turns P(a < Z <= b), Z ~ N(0, R), into an integral over the unit cube, one conditional normal
interval after the other down the Cholesky factor. Here all boxes share the same shifted lattice
points, several random shifts give an error estimate, and features a box leaves free are
integrated out first: only the constrained ones count towards the dimension.

What a reader would get wrong: the error is an estimate (Student's interval over the shifts), not a
certificate; and boxes that share a lattice err together, so a sum of boxes is summed shift by shift
(`estimates`) before its error is taken, never as a root of squares."""

from itertools import combinations

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second

from durometer.kernels.arrays import Floats

SHIFTS = 12
# Student's t with SHIFTS - 1 degrees of freedom at 0.9995, of the spread; a test computes it again.
QUANTILE = 4.436979338234516 / np.sqrt(SHIFTS)
SEEN = 1 / 3  # shifts that differ by less, relative to their mean, have seen the box
LEAST = 1e-16  # an eigenvalue below is lifted to it: numpy's own error is of this size
ROUNDING = 1e-12
JUMP = np.array([-9.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 9.0])  # in conditional deviations


def normal_boxes(
    low: Floats, high: Floats, correlation: Floats, points: int = 1024, seed: int = 0
) -> tuple[Floats, Floats]:
    """(probability, error estimate) of boxes (..., d) under N(0, correlation)."""
    found, unseen = estimates(low, high, correlation, points, seed)
    return found.mean(axis=0), QUANTILE * found.std(axis=0, ddof=1) + unseen


def estimates(
    low: Floats, high: Floats, correlation: Floats, points: int = 1024, seed: int = 0
) -> tuple[Floats, Floats]:
    """Probabilities of boxes (..., d) under N(0, correlation), an estimate per shift (SHIFTS, ...),
    and per box what their spread cannot show (...): mass where no point may have fallen, and what
    a singular correlation was moved by."""
    shape, d = low.shape[:-1], low.shape[-1]
    a, b = low.reshape(-1, d), high.reshape(-1, d)
    free = np.isneginf(a) & np.isposinf(b)
    value, unseen = np.empty((SHIFTS, len(a))), np.zeros(len(a))
    patterns, which = np.unique(free, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == k)
        used = np.flatnonzero(~pattern)
        box = a[np.ix_(rows, used)], b[np.ix_(rows, used)]
        value[:, rows], unseen[rows] = _constrained(
            *_merged(*box, correlation[np.ix_(used, used)]), points, seed
        )
    return value.reshape(SHIFTS, *shape), unseen.reshape(shape)


def _merged(a: Floats, b: Floats, r: Floats) -> tuple[Floats, Floats, Floats]:
    """Features whose correlation is +-1 are one number: one of them stays, with all their bounds.

    Columns in two units are such a pair; a Cholesky factor of their correlation does not exist.
    """
    a, b = a.copy(), b.copy()
    kept: list[int] = []
    for f in range(len(r)):
        same = next((k for k in kept if abs(r[k, f]) >= 1), None)
        if same is None:
            kept.append(f)
            continue
        low, high = (a[:, f], b[:, f]) if r[same, f] > 0 else (-b[:, f], -a[:, f])
        a[:, same] = np.maximum(a[:, same], low)
        b[:, same] = np.maximum(np.minimum(b[:, same], high), a[:, same])
    return a[:, kept], b[:, kept], r[np.ix_(kept, kept)]


def _constrained(
    a: Floats, b: Floats, r: Floats, points: int, seed: int
) -> tuple[Floats, Floats | float]:
    """(SHIFTS, boxes), or (boxes,) where there is a closed form; and the unseen mass, (boxes,)."""
    d = a.shape[1]
    if d == 0:
        return np.ones(len(a)), 0.0
    if d == 1:
        return interval(a[:, 0], b[:, 0]), 0.0
    if np.abs(r - np.eye(d)).max() < 1e-15:
        return np.asarray(np.prod(interval(a, b), axis=1)), 0.0
    if d == 2:
        return _rectangle(a, b, float(r[0, 1])), 0.0
    value = _lattice(a, b, r, points, seed)
    return value, _unseen(a, b, r, value, points)


def _unseen(a: Floats, b: Floats, r: Floats, value: Floats, points: int) -> Floats:
    """Where the shifts disagree by a third few points, or none, saw the box, and their spread says
    little. A part of the cube that all points missed is, but for one case in 2,000, at most
    log(2000) / points of it; the integrand there is at most the first interval's probability, and
    the box holds no more than any two of its features allow."""
    mean, spread = value.mean(axis=0), value.std(axis=0, ddof=1)
    more = _moved_by_rounding(a, b, r)
    rows = np.flatnonzero(spread >= SEEN * mean)
    if len(rows):
        a, b = a[rows], b[rows]
        single = interval(a, b)
        share = min(1.0, np.log(2000) / (SHIFTS * points))
        missed = share * single.max(axis=1)  # whichever feature the lattice took first
        for i, j in combinations(range(len(r)), 2):
            two = a[:, [i, j]], b[:, [i, j]]
            missed = np.minimum(missed, _rectangle(*two, float(r[i, j])) + ROUNDING)
        more[rows] += missed
    return more


def _moved_by_rounding(a: Floats, b: Floats, r: Floats) -> Floats:
    """A correlation that is singular up to rounding has its least eigenvalues lifted to `LEAST`:
    each reading moves by some 1e-8 standard deviations, over each of the box's finite sides with
    at most the density there."""
    if np.linalg.eigvalsh(r)[0] > 100 * LEAST:
        return np.zeros(len(a))
    sides = np.isfinite(a).sum(axis=1) + np.isfinite(b).sum(axis=1)
    return np.asarray(sides * (2 / np.pi) * np.sqrt(LEAST))


def interval(a: Floats, b: Floats) -> Floats:
    """P(a < Z <= b) from the tail that keeps its digits."""
    return np.maximum(
        np.where(
            a > 0,
            scipy.special.ndtr(-a) - scipy.special.ndtr(-b),
            scipy.special.ndtr(b) - scipy.special.ndtr(a),
        ),
        0.0,
    )


def _rectangle(a: Floats, b: Floats, r: float) -> Floats:
    # 2-D: one outer Gauss-Legendre integral of a conditional interval, on the finite part of the
    # density. Near |r| = 1 the conditional jumps within sqrt(1 - r^2): panels are laid around both
    # jumps, as narrow as they are, instead of ever more panels everywhere.
    if abs(r) >= 1:
        low, high, _ = _merged(a, b, np.array([[1.0, r], [r, 1.0]]))
        return interval(low[:, 0], high[:, 0])
    s = np.sqrt((1 - r) * (1 + r))
    lo, hi = np.clip(a[:, 0], -9, 9)[:, None], np.clip(b[:, 0], -9, 9)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(24)
    around = JUMP * s / max(abs(r), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        jumps = np.concatenate([np.divide(end[:, 1, None], r) + around for end in (a, b)], axis=1)
    edges = np.concatenate([lo + (hi - lo) * np.linspace(0, 1, 9), jumps], axis=1)
    edges = np.sort(np.clip(np.nan_to_num(edges, nan=0.0), lo, hi), axis=1)
    total = np.zeros(len(a))
    for k in range(edges.shape[1] - 1):
        half = (edges[:, k + 1] - edges[:, k])[:, None] / 2
        t = edges[:, k][:, None] + half * (1 + nodes)
        inner = interval((a[:, 1, None] - r * t) / s, (b[:, 1, None] - r * t) / s)
        total += (half * weights * np.exp(-t * t / 2) * inner).sum(axis=1)
    return np.asarray(total / np.sqrt(2 * np.pi))


def snapped(correlation: Floats) -> Floats:
    """Correlations within a few roundings of +-1 are +-1: 2 sin(pi / 6) is 0.9999999999999999, and
    the probability that two columns in two units are told apart by that is 1e-9, not nothing."""
    near = 1 - np.abs(correlation) < 8 * np.finfo(float).eps
    return np.where(near, np.sign(correlation), correlation)


def _lattice(a: Floats, b: Floats, r: Floats, points: int, seed: int) -> Floats:
    # narrow intervals first: the early conditionals then carry most of the variation
    order = np.argsort(interval(a, b).mean(axis=0))
    a, b, r = a[:, order], b[:, order], r[np.ix_(order, order)]
    values, vectors = np.linalg.eigh(r)
    chol = np.linalg.qr((vectors * np.sqrt(np.maximum(values, LEAST))).T)[1].T
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
        p_lo = scipy.special.ndtr(lo)
        p = np.maximum(scipy.special.ndtr(hi) - p_lo, 0.0)
        product = product * p
        if i < d - 1:
            z = scipy.special.ndtri(np.clip(p_lo + w[:, i] * p, 1e-300, 1 - 1e-16))
            y[i] = np.where(flip, -z, z)
    return np.asarray(product.mean(axis=1))
