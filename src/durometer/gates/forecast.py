"""How many further rows would probably decide a criterion: the run played on, many times over.

Shares of the values seen are drawn anew (Dirichlet: so many rows know them no better), rows are
drawn with these shares, and both sides' bets go on from where they stand. The answer is the median
of the rows until either of them suffices: half of the continuations are decided by then.

What a reader would get wrong: log wealth per row, drawn on as a line, is far off. Early rows pay
for the spreading of the bets, and a wealth that wavers reaches its goal sooner than one that climbs
steadily. Nor does the figure's mean suffice: of a paired criterion most rows give the same, and it
is decided tens of times sooner than a share with that mean.
"""

from __future__ import annotations

import math

import numpy as np

from durometer.gates.evidence import Evidence
from durometer.kernels.arrays import Floats

FUTURES = 64
AT_MOST = 200  # times the rows seen: beyond that nothing is said
VALUES = 64  # kinds of rows that are told apart
STEPS = 25  # a step is this part of the rows seen and played on


def expected_rows_to_decision(
    sides: tuple[Evidence, Evidence], rows: tuple[Floats, Floats], goals: tuple[float, float]
) -> float:
    """Rows until one of two sides probably reaches its goal; `rows`: what each gave to either.

    Infinite where no bet of either side has gained so far: nothing points either way.

    >>> seen = np.tile([1.0, 1.0, 1.0, 1.0, 0.0], 20)
    >>> sides = Evidence(0.7), Evidence(0.3)
    >>> _ = sides[0].add(seen), sides[1].add(1 - seen)
    >>> 20 < expected_rows_to_decision(sides, (seen, 1 - seen), (math.log(40), math.log(40))) < 200
    True
    """
    n = len(rows[0])
    if not n or not any(side.gained for side in sides):
        return math.inf
    rng = np.random.default_rng(0)
    kinds, counts = _kinds(np.stack(rows, 1))
    shares = rng.dirichlet(counts + 1 / len(kinds), FUTURES)
    gains = [side.gains(kinds[:, k]) for k, side in enumerate(sides)]
    bets = [np.tile(side.bets, (FUTURES, 1)) for side in sides]
    played, decided = 0, np.full(FUTURES, math.inf)
    while played < AT_MOST * n and np.isfinite(decided).sum() < FUTURES / 2:
        step = max(1, (n + played) // STEPS)
        played += step
        drawn = rng.multinomial(step, shares)
        for k, side in enumerate(sides):
            bets[k] += drawn @ gains[k]
            reached = (side.wealth(bets[k]) >= goals[k]) & np.isinf(decided)
            decided[reached] = played
    return float(np.sort(decided)[FUTURES // 2 - 1])


def _kinds(rows: Floats) -> tuple[Floats, Floats]:
    """The different rows and how often each came; of very many, rows at even distances."""
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    if len(kinds) <= VALUES:
        return kinds, counts.astype(float)
    order = rows[np.argsort(rows.sum(1), kind="stable")]
    places = (np.arange(VALUES) + 0.5) * len(rows) / VALUES
    return order[places.astype(int)], np.full(VALUES, len(rows) / VALUES)
