"""Certified bounds on P(label = class) for ensembles under independent noise, record by record, in
parallel.

The kernel cuts the ensemble down to what each record's noise reaches (localise.cpp) and bounds it
(branch_and_bound.cpp, box.cpp); where tables get stuck it starts again with moments (moments.cpp).
Here the library itself decides single cells that lie within rounding of a tie, and the clipped
tails go to the upper bound. Every interval contains the truth; a wide one says that the budget
ended first, or that more of it would not help."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.kernels.bundle import unpack
from durometer.kernels.native import Kernel, Layout
from durometer.probability.leaves import ROUNDING
from durometer.probability.sampling import clopper_pearson
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.gridded import LAYOUT, Gridded

PACE = 700_000_000  # units of work one core of an ordinary machine does in a second
SHARE = 0.1  # of the budget that bounds get where draws follow, which narrow more in the same time
ASKED = Layout(
    tail="float64",
    tolerance="float64",
    work="int64",
    widest="int64",
    bins="int64",
    listed="int64",
    crossed="int64",
    draws="int64",
)
ANSWER = Layout(
    n="size",
    low="out float64[n]",
    high="out float64[n]",
    floor="out float64[n]",
    ceiling="out float64[n]",
    sure_low="out float64[n]",
    sure_high="out float64[n]",
    open="out float64[n]",
    kept="out float64[n]",
    status="out int64[n]",
    work="out int64[n]",
    hits="out int64[n]",
)
_certified_bounds = Kernel(
    "certified_bounds",
    ensemble=LAYOUT,
    asked=ASKED,
    answer=ANSWER,
    cells="size",
    features="size",
    threads="int64",
    masses="float64[n, cells]",
    nan="bool[n, features]",
    label="int64[n]",
    word="uint64[n]",
    stop="int64[1]",
    handle="out int64[1]",
)


@dataclass(frozen=True)
class Draws:
    """Sampling of what the bounds leave open: `most` draws per record, from a generator per
    record."""

    most: int
    confidence: float
    generators: Sequence[np.random.Generator]


@dataclass(frozen=True)
class _Asked:
    """`struct Asked` of bounds.cpp."""

    tail: float
    tolerance: float
    work: int
    widest: int
    bins: int
    listed: int
    crossed: int
    draws: int


@dataclass(frozen=True, eq=False)
class _Answer:
    """`struct Answer` of bounds.cpp: bounds given the mass that is kept, before ties."""

    n: int
    low: Floats = field(init=False)
    high: Floats = field(init=False)
    floor: Floats = field(init=False)  # from a second search by moments, ties left undecided
    ceiling: Floats = field(init=False)
    sure_low: Floats = field(init=False)  # of the settled and resolved boxes alone
    sure_high: Floats = field(init=False)
    open: Floats = field(init=False)  # mass that was drawn from
    kept: Floats = field(init=False)
    status: Ints = field(init=False)
    work: Ints = field(init=False)
    hits: Ints = field(init=False)  # draws that surely keep the label

    def __post_init__(self) -> None:
        for name, kind in ANSWER.fields.items():
            if kind != "size":
                dtype = np.int64 if "int64" in kind else np.float64
                object.__setattr__(self, name, np.zeros(self.n, dtype))


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
    n, nan = len(x), np.isnan(x)
    noisy = (masses[:, grid.start[:-1]] < 1) & (np.diff(grid.start) > 1)
    # a fifth of the tolerance, over both tails of each feature
    tail = tolerance / 10 / max(int(noisy.sum(axis=1).max(initial=1)), 1)
    work = int((1.0 if draws is None else SHARE) * budget * PACE)
    most = 0 if draws is None else draws.most
    asked = _Asked(tail, tolerance, work, widest, bins, listed, crossed, most)
    words = np.zeros(n, np.uint64)
    if draws is not None:
        words[:] = [g.integers(2**64, dtype=np.uint64) for g in draws.generators]
    answer = _Answer(n)
    threads = workers or os.cpu_count() or 1
    ties, drawn, mass, cells = _search(ensemble, asked, answer, masses, nan, label, words, threads)
    asks = ties + drawn  # a record's ties come before its doubtful draws
    of = np.repeat(np.arange(n), asks)
    stays = _ask(ensemble, grid, nan[of], label[of], cells)
    tied = np.arange(len(of)) - np.repeat(np.cumsum(asks) - asks, asks) < ties[of]
    yes = np.bincount(of[tied], mass * stays[tied], n)
    low, high = answer.low + yes, answer.high - (np.bincount(of[tied], mass, n) - yes)
    low, high = np.maximum(low, answer.floor), np.minimum(high, answer.ceiling)
    some = np.flatnonzero(answer.open > 0)
    if draws is not None and len(some):
        hits = answer.hits + np.bincount(of[~tied], stays[~tied], n).astype(np.int64)
        a, b = clopper_pearson(hits[some], np.full(len(some), most), draws.confidence)
        low[some] = np.maximum(low[some], (answer.sure_low + yes)[some] + answer.open[some] * a)
        high[some] = np.minimum(high[some], (answer.sure_high + yes)[some] + answer.open[some] * b)
    low, high = low * answer.kept, high * answer.kept + (1 - answer.kept)
    return np.clip(low - ROUNDING, 0, 1), np.clip(high + ROUNDING, 0, 1), answer.work


def _search(
    ensemble: Ensemble,
    asked: _Asked,
    answer: _Answer,
    masses: Floats,
    nan: Bools,
    label: Ints,
    words: NDArray[np.uint64],
    threads: int,
) -> list[Any]:
    """Fill `answer`; (ties, doubtful draws) per record, masses of the ties, cells of both.

    More than a second of work runs in a thread of its own, so that Python hears an interrupt.
    """
    stop, handle = np.zeros(1, np.int64), np.zeros(1, np.int64)
    label = np.ascontiguousarray(label, np.int64)
    arguments = (
        Gridded.of(ensemble),
        asked,
        answer,
        threads,
        masses,
        nan,
        label,
        words,
        stop,
        handle,
    )
    if len(label) * asked.work <= PACE:
        _certified_bounds(*arguments)
    else:
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(_certified_bounds, *arguments)
            try:
                job.result()
            except BaseException:
                stop[0] = 1
                raise
    return unpack(handle, np.int64, np.int64, np.float64, np.int64)


def _ask(ensemble: Ensemble, grid: Grid, nan: Bools, label: Ints, cells: Ints) -> Bools:
    """Does the library itself give the label in these cells (one per feature, flat)?"""
    if not len(label):
        return np.zeros(0, dtype=bool)
    rows = grid.representatives()[cells.reshape(len(label), -1)]
    rows[nan] = np.nan
    return np.asarray(ensemble.decide(rows) == label)
