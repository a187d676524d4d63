"""Certified bounds on P(label = class) for ensembles under independent noise, record by record, in
parallel.

`bounds` cuts the ensemble down to what each record's noise reaches (local.py), bounds it
(search.py), lets the model itself decide single cells that lie within rounding of a tie, and adds
the clipped tails to the upper bound. Every interval contains the truth; a wide one says that the
budget ended first."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.arrays import Floats, Ints
from assay.probability.certified.branch_and_bound import Found, search
from assay.probability.leaves import ROUNDING
from assay.probability.localise import CELL, OPEN, YES, Local, localise
from assay.probability.sampling import clopper_pearson
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid
from assay.trees.rounding import Rounding

PACE = 700_000_000  # units of work one core of an ordinary machine does in a second
SHARE = 0.1  # of the budget that bounds get where draws follow, which narrow more in the same time


@dataclass(frozen=True)
class Draws:
    """Sampling of what the bounds leave open: `most` draws per record, from a generator per
    record."""

    most: int
    confidence: float
    generators: Sequence[np.random.Generator]


def bounds(
    ensemble: Ensemble,
    grid: Grid,
    masses: Floats,
    x: Floats,
    label: Ints,
    *,
    tolerance: float = 1e-6,
    budget: float = 1.0,
    widest: int = 256,
    bins: int = 2048,
    listed: int = 65_536,
    crossed: int = 32_768,
    workers: int | None = None,
    draws: Draws | None = None,
) -> tuple[Floats, Floats, Ints]:
    """(low, high, work): bounds on P(label stays `label[i]`) for each record.

    `budget` is in seconds of an ordinary core, but is counted as work: results do not depend on
    the machine.
    `widest`, `bins`, `listed`, `crossed`: joint cells of a group, steps of a convolution, joint
    cells of a box that is listed, steps of one that is met in the middle: they trade time for
    tightness.
    With `draws`, wide bounds are narrowed by a confidence interval for the open boxes: no
    certificate then.
    """
    rounding = Rounding.of(ensemble)
    noisy = max(
        int(
            ((masses[:, grid.start[:-1]] < 1) & (np.diff(grid.start) > 1))
            .sum(axis=1)
            .max(initial=1)
        ),
        1,
    )
    tail = tolerance / 10 / noisy  # a fifth of the tolerance, over both tails of each feature
    share = 1.0 if draws is None else SHARE
    representative = grid.representatives()
    nan = np.isnan(x)

    def one(i: int) -> tuple[float, float, int]:
        local = localise(ensemble, grid, masses[i], nan[i], int(label[i]), tail, rounding)
        kept, work = local.kept, len(local.nf)
        point = representative[grid.start[:-1] + local.first]
        point[nan[i]] = np.nan

        def stays(cells: NDArray[np.integer]) -> NDArray[np.bool_]:
            """Does the library itself give the label in these local cells (n, local features)?"""
            rows = np.repeat(point[None], len(cells), axis=0)
            rows[:, local.original] = representative[local.seen[local.start[:-1] + cells]]
            return np.asarray(ensemble.decide(rows) == label[i])

        if local.status == OPEN:
            found = search(
                local, 0.8 * tolerance, int(share * budget * PACE), (widest, bins, listed, crossed)
            )
            low, high, work = found.low, found.high, found.work
            yes = 0.0
            if len(found.tied):
                yes = float(found.tied[stays(found.ties)].sum())
                low, high = low + yes, high - (float(found.tied.sum()) - yes)
            if draws is not None and high - low > tolerance and len(found.mass):
                a, b = _sampled(local, found, stays, draws, draws.generators[i])
                low, high = (
                    max(low, found.settled[0] + yes + a),
                    min(high, found.settled[1] + yes + b),
                )
        elif local.status == CELL:
            low = high = float(ensemble.decide(point[None])[0] == label[i])
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
        np.clip(table[:, 0] - ROUNDING, 0, 1),
        np.clip(table[:, 1] + ROUNDING, 0, 1),
        table[:, 2].astype(np.int64),
    )


def _sampled(
    local: Local,
    found: Found,
    stays: Callable[[NDArray[np.integer]], NDArray[np.bool_]],
    draws: Draws,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """A Clopper-Pearson interval of the open boxes' share, boxes drawn by mass."""
    counts = rng.multinomial(draws.most, found.mass / found.mass.sum())
    cells = np.empty((draws.most, len(local.start) - 1), dtype=np.int64)
    at = 0
    for lo, hi, n in zip(found.first, found.last, counts, strict=True):
        if n:
            u = rng.random((n, cells.shape[1]))
            for f, s in enumerate(local.start[:-1]):
                share = np.cumsum(local.mass[s + lo[f] : s + hi[f] + 1])
                cells[at : at + n, f] = lo[f] + np.minimum(
                    np.searchsorted(share, u[:, f] * share[-1]), hi[f] - lo[f]
                )
            at += n
    hits = np.array([int(stays(cells).sum())])
    low, high = clopper_pearson(hits, np.array([draws.most]), draws.confidence)
    return float(found.mass.sum() * low[0]), float(found.mass.sum() * high[0])
