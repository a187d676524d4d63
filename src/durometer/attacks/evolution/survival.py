"""R-NSGA-III survival for many populations at once (Vesikar, Deb & Blank 2018), three objectives.

Per row: rank the individuals by non-dominated fronts until enough are ranked; measure their extent
from the extreme points; turn the reference points into directions in that normalised space, give
each individual to its nearest direction, and fill up from the last front, emptiest niche first. All
of it is compiled, row by row (kernels/native/attacks/survival.cpp). Each step equals pymoo 0.6's on
the same population, quirks included (`tests/attacks/test_survival.py`).

What a reader would get wrong: the reference points count as seen. They move the ideal and the worst
point and may be extreme points themselves.

Points spread evenly over the unit simplex: minimal Riesz s-energy (Blank, Deb et al. 2021).

    E = sum_{i<j} |p_i - p_j|^-s,   s = 2 * dimension

Minimised by projected gradient steps with Adam from a lattice, so the points are the same for
everybody; the published MOEVA draws its start with the attack's seed. The energy reached equals
pymoo's within a percent of its logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from durometer.kernels.arrays import Array, Floats, Ints
from durometer.kernels.native import Kernel, Layout
from durometer.kernels.threads import threads_for_rows

STATE = Layout(
    n="size",
    points="size",
    reference="float64[points, 3]",
    ideal="out float64[n, 3]",
    worst="out float64[n, 3]",
    extreme="out float64[n, 3, 3]",
)
_fronts = Kernel("fronts", n="size", enough="int64", f="float64[n, 3]", rank="out int64[n]")
_survive = Kernel(
    "survive",
    state=STATE,
    n="size",
    individuals="size",
    wanted="size",
    threads="int64",
    f="float64[n, individuals, 3]",
    words="uint64[n]",
    kept="out int64[n, wanted]",
)


@cache
def _replace(kind: str) -> Kernel:
    return Kernel(
        f"replace_{kind}",
        n="size",
        size="size",
        offspring="size",
        genes="size",
        threads="int64",
        kept="int64[n, size]",
        children=f"{kind}[n, offspring, genes]",
        found="float64[n, offspring, 3]",
        population=f"out {kind}[n, size, genes]",
        values="out float64[n, size, 3]",
    )


def fronts(f: Floats, enough: int) -> Ints:
    """Front (0 first) of each individual (M, 3); -1 beyond the front that completes `enough`.

    What is not a number counts as very far. Equal individuals are in the same front.
    """
    rank = np.empty(len(f), np.int64)
    _fronts(enough, f, rank)
    return rank


def replace(kept: Ints, population: Array, values: Floats, children: Array, found: Floats) -> None:
    """Children that survive take the places of those that do not, in place: nothing else moves."""
    read = kept, np.ascontiguousarray(children), np.ascontiguousarray(found)
    threads = threads_for_rows(len(kept))
    _replace(population.dtype.name)(threads, *read, population, values)


@dataclass(eq=False)
class Survival:
    """What a row's survival remembers from one generation to the next, for a block of rows."""

    reference: Floats  # (K, 3): the reference points
    ideal: Floats  # (n, 3)
    worst: Floats
    extreme: Floats  # (n, 3, 3)

    @classmethod
    def of(cls, points: Floats, rows: int) -> Survival:
        """The state before the first generation: the reference points count as seen."""
        low, high = points.min(0), points.max(0)
        far = np.full((rows, 3, 3), np.inf)
        return cls(points, np.tile(low, (rows, 1)), np.tile(high, (rows, 1)), far)

    def __call__(self, f: Floats, words: Array, wanted: int) -> Ints:
        """Places (n, wanted) of the survivors among (n, M, 3); `words`: one random word per row."""
        kept = np.empty((len(f), wanted), np.int64)
        _survive(self, threads_for_rows(len(f)), f, words, kept)
        return kept

    def take(self, rows: Array) -> Survival:
        return Survival(self.reference, self.ideal[rows], self.worst[rows], self.extreme[rows])


_STEPS, _LENGTH = 800, 0.005
_spread_points = Kernel("spread_points", n="size", d="size", steps="int64", alpha="float64",
                        points="float64[n, d]", spread="out float64[n, d]")  # fmt: skip


@lru_cache
def reference_points(count: int) -> Floats:
    """`count` points (count, 3) on the simplex x + y + z = 1, x, y, z >= 0."""
    side = 1
    while (side + 1) * (side + 2) // 2 < count:
        side += 1
    lattice = np.array([(i, j, side - i - j) for i in range(side + 1) for j in range(side + 1 - i)])
    inner = (lattice > 0).all(1)
    # The lattice has a few points too many; leave out inner ones, evenly along the list.
    spare = len(lattice) - count
    leave = np.nonzero(inner)[0]
    if spare > len(leave):
        leave = np.arange(len(lattice))
    gone = leave[np.linspace(0, len(leave) - 1, spare).astype(int)] if spare else leave[:0]
    points = np.delete(lattice, gone, axis=0) / side
    if count < 2:
        return points
    spread = np.empty_like(points)
    _spread_points(_STEPS, _LENGTH, points, spread)
    spread.setflags(write=False)
    return spread
