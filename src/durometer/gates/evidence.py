"""Evidence that a mean lies above a bound, valid whenever one looks: an e-process of bets.

Rows come in random order, each with a value x in [0, 1]. Whoever doubts that the mean is above the
bound m loses money against these bets: start with 1, stake a share on every row, and the wealth is

    W_n = sum_q w_q prod_i (1 + (q - m) / (m (1 - m)) (x_i - m)),        q > m

For 0/1 values each product is the likelihood ratio of q against m; for others it is a bet that pays
no more than fairly while the mean is at most m (Waudby-Smith & Ramdas 2024). So W is a
supermartingale there, and by Ville's inequality it ever reaches 1 / alpha with probability at most
alpha: the decision may be looked at after every row and stopped at any time. An interval that is
looked at again and again has no such promise: at the bound it is wrong in a third of all runs.

Differences between two runs, paired row by row, are mostly 0: they vary far less than zeros and
ones do, and may be bet on much more boldly. `paired` evidence spreads its money over large stakes,
with a part on the largest: where nothing changes at all, that one gains fastest.

What a reader would get wrong: the weights are not a prior belief that must be right. They say at
which distances from the bound rows are spared (a few points); validity holds for any weights.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats

NEAREST = 0.01  # the smallest distance from the bound at which a bet is placed
TYPICAL, SPREAD = 0.06, 0.7  # where most money is, and how widely (in logarithms) it is spread
BETS = 40
BOLD, BOLDEST, BOLD_FROM = 0.6, 0.2, 0.1  # paired: money on large stakes and on the largest one


class Evidence:
    """Wealth of the bets against "the mean is at most `bound`", row after row.

    >>> evidence = Evidence(0.8)
    >>> bool(evidence.add(np.ones(60))[-1] > np.log(20))
    True
    """

    def __init__(self, bound: float, paired: bool = False) -> None:
        self.bound = bound
        self.paired = paired
        self.rows = 0
        self.bets = np.zeros(len(self._alternatives))  # logarithm of each product

    @cached_property
    def _alternatives(self) -> Floats:
        room = 0.98 * (1 - self.bound)
        usual = np.geomspace(min(NEAREST, room / 2), room, BETS)
        bold = np.geomspace(BOLD_FROM * room, room, BETS if self.paired else 0)
        return self.bound + np.concatenate([usual, bold])

    @cached_property
    def _log_weights(self) -> Floats:
        distance = self._alternatives[:BETS] - self.bound
        weight = np.exp(-0.5 * (np.log(distance / TYPICAL) / SPREAD) ** 2)
        weight /= weight.sum()
        if self.paired:
            bold = np.full(BETS, BOLD / BETS)
            bold[-1] += BOLDEST
            weight = np.concatenate([(1 - BOLD - BOLDEST) * weight, bold])
        logs: Floats = np.log(weight)
        return logs

    def gains(self, values: NDArray[Any]) -> Floats:
        """What each value does to the logarithm of each bet: (values, bets)."""
        stake = (self._alternatives - self.bound) / (self.bound * (1 - self.bound))
        made: Floats = np.log1p(np.outer(np.asarray(values, dtype=float) - self.bound, stake))
        return made

    def wealth(self, bets: Floats) -> Floats:
        """The logarithm of the wealth where the bets' logarithms are these: (n, bets) -> (n,)."""
        logs = bets + self._log_weights
        top = logs.max(1)
        total: Floats = top + np.log(np.exp(logs.T - top).sum(0))
        return total

    def add(self, values: NDArray[Any]) -> Floats:
        """See further rows; the logarithm of the wealth after each of them."""
        if not len(values):
            return np.empty(0)
        bets = self.bets + np.cumsum(self.gains(values), axis=0)
        self.bets = bets[-1]
        self.rows += len(bets)
        return self.wealth(bets)

    @property
    def log_wealth(self) -> float:
        """The logarithm of the wealth after the last row."""
        return float(self.wealth(self.bets[None])[0])

    @property
    def gained(self) -> bool:
        """Whether any bet stands higher than it began."""
        return bool((self.bets > 0).any())
