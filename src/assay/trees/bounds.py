"""Certified bounds on P(label = class) for ensembles under independent noise, record by record, in parallel.

`bounds` cuts the ensemble down to what each record's noise reaches (local.py), bounds it (search.py), lets the
model itself decide single cells that lie within rounding of a tie, and adds the clipped tails to the upper
bound. Every interval contains the truth; a wide one says that the budget ended first.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from assay.noise.marginal import Floats
from assay.trees.ensemble import Ensemble, Ints
from assay.trees.grid import Grid
from assay.trees.leaves import ROUNDING
from assay.trees.local import CELL, OPEN, YES, localise
from assay.trees.search import search

PACE = 40_000_000  # units of work one core of an ordinary machine does in a second


def bounds(
    ensemble: Ensemble, grid: Grid, masses: Floats, x: Floats, label: Ints, *, tolerance: float = 1e-6,
    budget: float = 1.0, widest: int = 256, bins: int = 512, workers: int | None = None,
) -> tuple[Floats, Floats, Ints]:
    """(low, high, work): bounds on P(label stays `label[i]`) for each record.

    `budget` is in seconds of an ordinary core, but is counted as work: results do not depend on the machine.
    """
    slack = ensemble.slack()
    noisy = max(int(((masses[:, grid.start[:-1]] < 1) & (np.diff(grid.start) > 1)).sum(axis=1).max(initial=1)), 1)
    tail = tolerance / 10 / noisy  # a fifth of the tolerance, over both tails of each feature
    representative = grid.representatives()
    nan = np.isnan(x)

    def one(i: int) -> tuple[float, float, int]:
        local = localise(ensemble, grid, masses[i], nan[i], int(label[i]), tail, slack)
        kept, work = local.kept, len(local.nf)
        point = representative[grid.start[:-1] + local.first]
        point[nan[i]] = np.nan
        if local.status == OPEN:
            low, high, work, ties = search(local, 0.8 * tolerance, int(budget * PACE), widest, bins)
            if ties:
                rows = np.repeat(point[None], len(ties), axis=0)
                rows[:, local.original] = representative[local.seen[local.start[:-1] + np.array([c for c, _ in ties])]]
                weight = np.array([w for _, w in ties])
                stays = float(weight[ensemble.predict(rows) == label[i]].sum())
                low, high = low + stays, high - (float(weight.sum()) - stays)
        elif local.status == CELL:
            low = high = float(ensemble.predict(point[None])[0] == label[i])
        else:
            low = high = float(local.status == YES)
        return low * kept, high * kept + (1 - kept), work

    threads = workers or min(os.cpu_count() or 1, len(x))
    if threads == 1 or len(x) < 2:
        results = [one(i) for i in range(len(x))]
    else:
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(one, range(len(x))))
    table = np.asarray(results, dtype=np.float64).reshape(-1, 3)
    return (
        np.clip(table[:, 0] - ROUNDING, 0, 1), np.clip(table[:, 1] + ROUNDING, 0, 1), table[:, 2].astype(np.int64),
    )
