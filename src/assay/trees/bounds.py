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
from assay.trees.local import localise
from assay.trees.search import search

PACE = 100_000_000  # units of work one core of an ordinary machine does in a second


def bounds(
    ensemble: Ensemble, grid: Grid, masses: Floats, x: Floats, label: Ints, *, tolerance: float = 1e-6,
    budget: float = 1.0, widest: int = 256, bins: int = 512, share: float = 1.0, workers: int | None = None,
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
        status, kept, nf, nc, nl, nr, gain, roots, base, start, mass, seen, original, first, _ = localise(
            ensemble.feature, grid.cut, ensemble.left, ensemble.right, ensemble.missing_left, ensemble.value,
            ensemble.roots, ensemble.base, ensemble.cut, slack, masses[i], grid.start, nan[i], int(label[i]), tail,
        )
        if status == 0:
            return 0.0, 1 - kept, len(nf)
        if status == 1:
            return kept, 1.0, len(nf)
        point = representative[grid.start[:-1] + first]
        point[nan[i]] = np.nan
        if status == 3:
            stays = int(ensemble.predict(point[None])[0]) == label[i]
            return (kept, 1.0, len(nf)) if stays else (0.0, 1 - kept, len(nf))
        low, high, work, cells, weight = search(
            nf, nc, nl, nr, gain, roots, base, start, mass, slack, 0.8 * tolerance, int(budget * PACE), widest, bins, share
        )
        if len(weight):
            rows = np.repeat(point[None], len(weight), axis=0)
            rows[:, original] = representative[seen[start[:-1] + cells]]
            stays_mass = float(weight[ensemble.predict(rows) == label[i]].sum())
            low += stays_mass
            high -= float(weight.sum()) - stays_mass
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
