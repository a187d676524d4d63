"""Confidence sequences for any classifier: draw until the question is decided, valid whenever one
looks.

The question is of one number per record, p = P(label in the allowed classes). Against every value p
somebody bets with a mixture over other values q: after k hits of n draws the wealth is

    M_n(p) = integral q^k (1 - q)^(n - k) dF(q)  /  p^k (1 - p)^(n - k),

a martingale of start 1 if p is the truth, so it ever reaches 1 / alpha with a probability of at
most alpha (Ville 1939; Robbins 1970; as betting: Waudby-Smith & Ramdas 2024). The values not yet
refuted are an interval, and all intervals of all n hold the truth at once with a probability of
1 - alpha: stopping may depend on anything that was seen. F is a mixture of beta distributions, for
a threshold t on either side of it, and a point at 1 (most records hardly change), so the numerator
is closed.

What a reader would get wrong: F is chosen before the first draw. It may depend on the threshold,
never on the draws. And a record's readings come in blocks, each one draw of its own stream, so that
the m-th reading of a record is the same in any batch and under any stopping rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
import torch

from durometer.core.errors import DurometerError
from durometer.core.streams import Stream, keys
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.noise.joint import Noise

PURPOSE = "noise by betting"
BLOCK = 16  # readings that share one draw of a stream
GROWTH = 1 / 8  # a look after so many more draws, as a share of those made: the overshoot is less
NUMBERS = 4_000_000  # random numbers in memory at a time
HALVINGS = 60  # of the interval in which an end is searched
ROUNDING = 1e-9  # of a logarithm of wealth: far above what special functions are off by

Predict = Callable[[Floats], Ints]


@dataclass(frozen=True)
class Mixture:
    """What is bet on: weights of beta distributions within bounds, and of the point 1.

    Args:
        weights: One per component; they add up to 1 at most, together with `ones`.
        shapes: The two parameters of each beta distribution.
        bounds: What each is restricted to.
        ones: The weight of q = 1.
    """

    weights: tuple[float, ...]
    shapes: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...]
    ones: float = 0.0

    @classmethod
    def about(cls, threshold: float | None) -> Mixture:
        """For deciding whether p reaches a threshold; None: for an interval at any p."""
        if threshold is None:
            return cls((0.75,), ((0.5, 0.5),), ((0.0, 1.0),), 0.25)
        above, below = (threshold, 1.0), (0.0, threshold)
        return cls((0.25, 0.5), ((0.5, 0.5), (0.5, 0.5)), (above, below), 0.25)

    def log_evidence(self, hits: Ints, draws: Ints) -> Floats:
        """log of the integral of q^hits (1 - q)^(draws - hits) over the mixture.

        Args:
            hits: Draws that landed in the allowed classes (n,).
            draws: All draws (n,).
        """
        k, lost = hits.astype(float), (draws - hits).astype(float)
        parts = [np.where(lost == 0, _log(self.ones), -np.inf)]
        for weight, (a, b), (low, high) in zip(self.weights, self.shapes, self.bounds, strict=True):
            after = _log_within(a + k, b + lost, low, high) + scipy.special.betaln(a + k, b + lost)
            before = _log_within(np.array(a), np.array(b), low, high) + scipy.special.betaln(a, b)
            parts.append(np.log(weight) + after - before)
        return np.asarray(scipy.special.logsumexp(np.stack(parts), axis=0))


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else -np.inf


def _log_within(a: Floats, b: Floats, low: float, high: float) -> Floats:
    """log P(low < q <= high) of a beta distribution; one end is 0 or 1. What underflows bets
    nothing, which is allowed."""
    if (low, high) == (0.0, 1.0):
        return np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)))
    with np.errstate(divide="ignore"):
        inside = (
            scipy.special.betainc(a, b, high) if low == 0.0 else scipy.special.betaincc(a, b, low)
        )
        return np.asarray(np.log(inside))


def log_wealth(mixture: Mixture, hits: Ints, draws: Ints, p: Floats | float) -> Floats:
    """log M_n(p): what the bets against `p` have made of 1.

    >>> round(float(log_wealth(Mixture.about(None), np.array([600]), np.array([600]), 0.99)[0]), 2)
    4.71
    """
    return mixture.log_evidence(hits, draws) - _log_likelihood(hits, draws, np.asarray(p, float))


def _log_likelihood(hits: Ints, draws: Ints, p: Floats) -> Floats:
    return np.asarray(scipy.special.xlogy(hits, p) + scipy.special.xlog1py(draws - hits, -p))


def confidence_sequence(
    hits: Ints, draws: Ints, confidence: float, threshold: float | None = None
) -> tuple[Floats, Floats]:
    """The values of p that the bets have not refuted: an interval that holds at every number of
    draws at once.

    Args:
        hits: Draws that landed in the allowed classes (n,).
        draws: All draws (n,).
        confidence: Probability that no interval ever misses the truth.
        threshold: The value that the bets are placed about; None: none in particular.

    >>> low, high = confidence_sequence(np.array([600]), np.array([600]), 0.99, threshold=0.99)
    >>> float(low[0].round(4)), float(high[0])
    (0.9906, 1.0)
    """
    hits, draws = np.asarray(hits, np.int64), np.asarray(draws, np.int64)
    evidence = Mixture.about(threshold).log_evidence(hits, draws)
    # refuted: likelihood <= evidence * alpha; the likelihood rises up to hits / draws, then falls
    level = evidence + np.log(1 - confidence) - ROUNDING
    with np.errstate(invalid="ignore"):
        peak = np.where(draws > 0, hits / np.maximum(draws, 1), 0.5)
    ends = []
    for edge in (0.0, 1.0):
        out, inside = np.full(len(peak), edge), peak.copy()  # `out` stays on the refuted side
        for _ in range(HALVINGS):
            middle = (out + inside) / 2
            kept = _log_likelihood(hits, draws, middle) > level
            out, inside = np.where(kept, out, middle), np.where(kept, middle, inside)
        open_edge = _log_likelihood(hits, draws, np.full(len(peak), edge)) > level
        ends.append(np.where(open_edge, edge, out))
    return ends[0], ends[1]


@dataclass(frozen=True, eq=False)
class Found:
    """Intervals of records, and what they took.

    Args:
        low: Lower ends (n,).
        high: Upper ends (n,).
        hits: Draws in the allowed classes (n,).
        draws: Draws made (n,).
    """

    low: Floats
    high: Floats
    hits: Ints
    draws: Ints

    def decided(self, threshold: float) -> Bools:
        """Whether it is known on which side of the threshold each record lies, (n,)."""
        return (self.low >= threshold) | (self.high < threshold)


Enough = Callable[[Ints, "Found"], Bools]  # (positions of rows, their intervals) -> may they stop?


def until_decided(threshold: float | None, width: float) -> Enough:
    """Stops a record when its interval lies on one side of the threshold, or is narrow enough."""

    def enough(rows: Ints, found: Found) -> Bools:
        narrow = found.high - found.low <= width
        return narrow if threshold is None else narrow | found.decided(threshold)

    return enough


def sequential(
    predict: Predict,
    noise: Noise,
    x: Floats,
    allowed: Bools,
    ids: Sequence[object],
    *,
    seed: int = 0,
    threshold: float | None = None,
    enough: Enough,
    most: int = 100_000,
    confidence: float = 0.99,
    purpose: str = PURPOSE,
) -> Found:
    """P(label in allowed[i]) by draws that stop record by record.

    Args:
        predict: Records (m, features) to labels.
        noise: The noise.
        x: Records (n, features).
        allowed: The classes of each record (n, C), bool.
        ids: Ids of the records, for their random numbers.
        seed: Seed of the draws.
        threshold: The value that the question is about: where bets are placed.
        enough: Which records may stop; it may look at anything that was drawn.
        most: Largest number of draws per record.
        confidence: Of the intervals, whenever they stop.
        purpose: Name of the draws: another purpose has other random numbers.
    """
    if not 0 < confidence < 1 or most < 1:
        raise DurometerError(
            f"confidence={confidence}, draws={most}: expected within (0, 1) and at least 1"
        )
    if threshold is not None and not 0 < threshold < 1:
        raise DurometerError(
            f"threshold={threshold}: expected a probability between 0 and 1, e.g. 0.99"
        )
    stream = Stream(seed, keys(np.asarray(ids)), purpose=purpose)
    hits, low, high = np.zeros(len(x), np.int64), np.zeros(len(x)), np.ones(len(x))
    draws = np.zeros(len(x), np.int64)
    rows, made = np.arange(len(x)), 0
    while len(rows) and made < most:
        n = min(BLOCK * max(1, int(made * GROWTH) // BLOCK), most - made)
        seen = class_counts(predict, noise, x[rows], allowed.shape[1], stream, rows, n)
        hits[rows] += np.where(allowed[rows], seen, 0).sum(axis=1)
        made += n
        draws[rows] = made
        a, b = confidence_sequence(hits[rows], draws[rows], confidence, threshold)
        # all intervals hold at once, so what they share does; if nothing is shared, the newest
        shared = np.maximum(a, low[rows]), np.minimum(b, high[rows])
        some = shared[0] <= shared[1]
        low[rows], high[rows] = np.where(some, shared[0], a), np.where(some, shared[1], b)
        rows = rows[~enough(rows, Found(low[rows], high[rows], hits[rows], draws[rows]))]
    return Found(low, high, hits, draws)


def class_counts(
    predict: Predict, noise: Noise, x: Floats, classes: int, stream: Stream, rows: Ints, n: int
) -> Ints:
    """Of `n` further readings of each record, how many have which label, (len(rows), classes).

    Args:
        predict: Records (m, features) to labels.
        noise: The noise.
        x: The records (len(rows), features).
        classes: Number of classes.
        stream: Where the random numbers come from.
        rows: Positions of the records in the stream.
        n: Readings per record.
    """
    d, blocks = x.shape[1], -(-n // BLOCK)
    found = np.zeros((len(rows), classes), np.int64)
    size = max(1, NUMBERS // (BLOCK * d))
    for start in range(0, len(rows), size):
        some = slice(start, min(start + size, len(rows)))
        at = torch.from_numpy(rows[some])
        together = max(1, NUMBERS // (len(at) * BLOCK * d))  # blocks that fit
        for first in range(0, blocks, together):
            drawn = [
                stream.normal(at, BLOCK * d).numpy().reshape(len(at), BLOCK, d)
                for _ in range(min(together, blocks - first))
            ]
            z = np.concatenate(drawn, axis=1)[:, : n - first * BLOCK]
            label = predict(noise.place(x[some], z).reshape(-1, d)).reshape(len(at), -1)
            for c in range(classes):
                found[some, c] += (label == c).sum(axis=1)
    return found
