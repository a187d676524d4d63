"""Intervals and paired tests: Wilson, cluster bootstrap, McNemar, Wilcoxon.

Every figure durometer prints is an `Estimate`: value, 95 % interval, and the number of rows it is
over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval and the number of rows behind it.

    It compares and formats like its value; compare `low` or `high` where the interval should
    decide.

    Args:
        value: The figure itself.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: Number of rows it is computed from.

    >>> e = Estimate(0.93, 0.79, 0.98, 30)
    >>> e > 0.9, f"{e:.1%}", float(e)
    (True, '93.0%', 0.93)
    """

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        if self.n == 0:
            return "- (n = 0)"
        value, low, high = self.written(".3f")
        return f"{value} [{low}, {high}] (n = {self.n})"

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Estimate):
            mine, theirs = ((e.value, e.low, e.high, e.n) for e in (self, other))
            return mine == theirs
        return self.value == other if isinstance(other, int | float) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: float | Estimate) -> bool:
        return self.value < float(other)

    def __le__(self, other: float | Estimate) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: float | Estimate) -> bool:
        return self.value > float(other)

    def __ge__(self, other: float | Estimate) -> bool:
        return self.value >= float(other)

    def __format__(self, spec: str) -> str:
        """`f"{estimate:.2f}"` is the value, `f"{estimate}"` all of it."""
        return format(self.value, spec) if spec else str(self)

    def written(self, usual: str) -> tuple[str, str, str]:
        """Value, low and high as text.

        Args:
            usual: The format to use, e.g. ".3f". A value below 0.002 is written with an exponent
                instead.

        >>> Estimate(2.5e-6, 1e-7, 1e-5, 9).written(".3f")
        ('2.5e-06', '1.0e-07', '1.0e-05')
        """
        form = ".1e" if 0 < self.value < 2e-3 else usual
        return f"{self.value:{form}}", f"{self.low:{form}}", f"{self.high:{form}}"


Z = 1.959963984540054  # the normal quantile of 0.975
MANY = 5000  # clusters


def quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either side."""
    from scipy.special import ndtri

    return Z if level == 0.95 else float(ndtri((1 + level) / 2))


def wilson(successes: float, n: int, z: float = Z) -> Estimate:
    """A share with Wilson's score interval: right also at 0 and 1 and for small n.

    >>> wilson(0, 10).low
    0.0
    """
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Estimate(p, low, high, n)


def clopper_pearson(successes: float, n: float) -> tuple[float, float]:
    """The exact 95 % interval of a share; n may be an effective number, not a whole one.

    >>> tuple(round(end, 3) for end in clopper_pearson(0, 5))
    (0.0, 0.522)
    """
    from scipy.special import betaincinv

    failures = n - successes
    low = 0.0 if successes < 1e-9 else float(betaincinv(successes, failures + 1, 0.025))
    high = 1.0 if failures < 1e-9 else float(betaincinv(successes + 1, failures, 0.975))
    return low, high


def bootstrap(
    values: np.ndarray,
    clusters: np.ndarray | None = None,
    draws: int = 2000,
    seed: int = 0,
    second: np.ndarray | None = None,
    level: float = 0.95,
) -> Estimate:
    """The mean with a percentile interval; whole clusters (ids) are drawn where they repeat.

    With `second` (the runs of a random player) clusters of both kinds are drawn and a value counts
    as often as its two clusters together: rows that share a run are not independent either.

    Beyond `MANY` clusters the interval is the normal one of a ratio of sums (its variance by
    linearisation): the bootstrap would agree with it to a hundredth of its width, and take minutes.
    """
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if clusters is None:
        sums, sizes = values, np.ones(n)
    else:
        inverse = _codes(clusters)
        sums, sizes = np.bincount(inverse, values), np.bincount(inverse).astype(float)
    if second is not None and clusters is not None:
        return _crossed(values, clusters, second, draws, seed, level)
    if len(sums) > MANY:
        return _linearised(sums, sizes, n, level)
    rng = np.random.default_rng(seed)
    # Weights of a bootstrap draw are multinomial counts, so no (draws, n) table of indices is made.
    means = np.empty(draws)
    for k in range(draws):
        weight = np.bincount(rng.integers(0, len(sums), len(sums)), minlength=len(sums))
        means[k] = weight @ sums / (weight @ sizes)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(values.mean()), float(low), float(high), n)


def _codes(clusters: np.ndarray) -> np.ndarray:
    """Each value's cluster by number; hashing, because sorting a million texts takes seconds."""
    if len(clusters) <= MANY:
        return np.unique(clusters, return_inverse=True)[1]
    import pandas as pd

    return pd.factorize(np.asarray(clusters))[0]


def _linearised(sums: np.ndarray, sizes: np.ndarray, n: int, level: float) -> Estimate:
    """The mean of clustered values with its normal interval (Cochran, Sampling Techniques, 6.3)."""
    z = quantile(level)
    total, k = float(sizes.sum()), len(sums)
    mean = float(sums.sum()) / total
    error = math.sqrt(float(((sums - mean * sizes) ** 2).sum()) * k / (k - 1)) / total
    return Estimate(mean, mean - z * error, mean + z * error, n)


def mean_of_sums(n: int, total: float, squares: float) -> Estimate:
    """The mean of values of which only the sums are known, with its normal interval.

    >>> e = mean_of_sums(4, 10.0, 30.0)  # of 1, 2, 3, 4
    >>> e.value, round(e.low, 3), e.n
    (2.5, 1.235, 4)
    """
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = total / n
    error = math.sqrt(max(0.0, squares / n - mean * mean) / max(1, n - 1))
    return Estimate(mean, mean - Z * error, mean + Z * error, n)


def _crossed(
    values: np.ndarray, rows: np.ndarray, columns: np.ndarray, draws: int, seed: int, level: float
) -> Estimate:
    """The bootstrap of a table whose rows and columns are both random (Owen's pigeonhole)."""
    _, i = np.unique(rows, return_inverse=True)
    _, j = np.unique(columns, return_inverse=True)
    size = (i.max() + 1, j.max() + 1)
    total, count = np.zeros(size), np.zeros(size)
    np.add.at(total, (i, j), values)
    np.add.at(count, (i, j), 1.0)
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(draws):
        a, b = (np.bincount(rng.integers(0, n, n), minlength=n) for n in size)
        weight = a @ count @ b
        if weight:
            means.append(a @ total @ b / weight)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(values.mean()), float(low), float(high), len(values))


def at_most(hits: int, n: int, chance: float) -> float:
    """The probability of `hits` or fewer of n, each a hit with probability `chance`.

    >>> at_most(0, 10, 0.5) == 2**-10
    True
    """
    from scipy.special import bdtr

    return float(bdtr(hits, n, chance)) if n else 1.0


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value that two paired rates are equal, from the discordant pairs."""
    from scipy.stats import binomtest

    n = only_first + only_second
    return float(binomtest(only_first, n, 0.5).pvalue) if n else 1.0


def wilcoxon(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value that paired differences are centred at 0 (signed ranks)."""
    from scipy.stats import wilcoxon as test

    difference = np.asarray(first, float) - np.asarray(second, float)
    difference = difference[difference != 0]
    return float(test(difference).pvalue) if len(difference) else 1.0


def paired_difference(
    first: np.ndarray, second: np.ndarray, clusters: np.ndarray | None = None
) -> Estimate:
    """Mean of first - second over pairs, bootstrapped; by whole clusters (ids) where given."""
    return bootstrap(np.asarray(first, float) - np.asarray(second, float), clusters)
