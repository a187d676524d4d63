"""Monte Carlo for any classifier (Scher & Truegler 2022): draw readings, count labels, stop when
sure enough.

Intervals are Clopper & Pearson's: exact for a fixed number of draws. Sequential stopping looks
several times, so the error level is shared between the looks (a look at draws n, 2n, 4n, ... each
at level alpha / looks). Each record has its own generator, seeded by (seed, record id): batches,
order and workers cannot change what a record is tried with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats, Ints
from durometer.noise.joint import Noise


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each class was seen, (n, classes), of `draws` (n,)."""

    seen: Ints
    draws: Ints
    confidence: float

    def interval(self, allowed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Clopper-Pearson bounds on P(label in allowed[i])."""
        return clopper_pearson(
            np.where(allowed, self.seen, 0).sum(axis=1), self.draws, self.confidence
        )


def clopper_pearson(hits: Ints, draws: Ints, confidence: float) -> tuple[Floats, Floats]:
    """Exact binomial interval.

    >>> low, high = clopper_pearson(np.array([10]), np.array([10]), 0.95)
    >>> float(low[0].round(4)), float(high[0])
    (0.6915, 1.0)
    """
    tail = (1 - confidence) / 2
    low = np.where(hits > 0, scipy.stats.beta.ppf(tail, np.maximum(hits, 1), draws - hits + 1), 0.0)
    high = np.where(
        hits < draws, scipy.stats.beta.ppf(1 - tail, hits + 1, np.maximum(draws - hits, 1)), 1.0
    )
    return low, high


def generator(seed: int, identity: object) -> np.random.Generator:
    """A record's own random numbers."""
    name = (
        int(identity) if isinstance(identity, int | np.integer) else crc32(str(identity).encode())
    )
    return np.random.default_rng([seed, name & 0xFFFFFFFF, (name >> 32) & 0xFFFFFFFF])


def monte_carlo(
    predict: Callable[[Floats], Ints],
    noise: Noise,
    x: Floats,
    classes: int,
    ids: Sequence[object],
    *,
    seed: int = 0,
    width: float = 0.01,
    first: int = 1000,
    most: int = 1_000_000,
    confidence: float = 0.99,
    allowed: NDArray[np.bool_] | None = None,
) -> Counts:
    """Draw until the interval of P(label in allowed) (or of every class) is narrower than `width`,
    or `most` draws."""
    if not 0 < confidence < 1 or not width > 0:
        raise DurometerError(
            f"confidence={confidence}, width={width}: expected within (0, 1) and positive"
        )
    looks = 1 + max(int(np.ceil(np.log2(most / first))), 0)
    level = 1 - (1 - confidence) / looks
    seen, draws = np.zeros((len(x), classes), np.int64), np.zeros(len(x), np.int64)
    streams = [generator(seed, i) for i in ids]
    n = min(first, most)
    open_rows = np.arange(len(x))
    while len(open_rows):
        chunk = max(1, 200_000 // n)
        for start in range(0, len(open_rows), chunk):
            rows = open_rows[start : start + chunk]
            readings = np.concatenate([noise.sample(x[i : i + 1], n, streams[i]) for i in rows])
            label = predict(readings.reshape(len(rows) * n, -1)).reshape(len(rows), n)
            for c in range(classes):
                seen[rows, c] += (label == c).sum(axis=1)
            draws[rows] += n
        here = Counts(seen[open_rows], draws[open_rows], level)
        if allowed is None:
            widths = np.stack(
                [
                    np.subtract(
                        *here.interval(
                            np.eye(classes, dtype=bool)[None, c].repeat(len(open_rows), 0)
                        )[::-1]
                    )
                    for c in range(classes)
                ]
            ).max(axis=0)
        else:
            low, high = here.interval(allowed[open_rows])
            widths = high - low
        open_rows = open_rows[(widths > width) & (2 * draws[open_rows] <= most)]
        n = int(draws[open_rows].max()) if len(open_rows) else n
    return Counts(seen, draws, level)
