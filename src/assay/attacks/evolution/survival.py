"""R-NSGA-III survival for many populations at once (Vesikar, Deb & Blank 2018), three objectives.

Per row: rank the individuals by non-dominated fronts (`fronts`) until enough are ranked; measure
their extent from the extreme points; turn the reference points into directions in that normalised
space, give each individual to its nearest direction, and fill up from the last front, emptiest
niche first (`niches`). All of it is compiled, row by row. Each step equals pymoo 0.6's on the same
population, quirks included (`tests/search/test_nsga.py`).

What a reader would get wrong: the reference points count as seen. They move the ideal and the worst
point and may be extreme points themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.attacks.evolution.fronts import fronts
from assay.attacks.evolution.niching import associate, directions, niching
from assay.kernels.arrays import Array
from assay.kernels.compile import kernel
from assay.kernels.splitmix import shuffle
from assay.kernels.threads import in_threads


@kernel
def _extremes(f: Array, rank: Array, points: Array, ideal: Array, extreme: Array) -> None:
    """Lowest achievement value per axis over old extremes, first front, reference points."""
    old = extreme.copy()
    best = np.full(3, np.inf)
    for k in range(3 + len(f) + len(points)):
        if k < 3:
            point = old[k]
        elif k < 3 + len(f):
            if rank[k - 3] != 0:
                continue
            point = f[k - 3]
        else:
            point = points[k - 3 - len(f)]
        for axis in range(3):
            value = -np.inf
            for m in range(3):
                d = point[m] - ideal[m]
                d = 0.0 if d < 1e-3 else d
                value = max(value, d if m == axis else d * 1e6)
            if value < best[axis]:
                best[axis] = value
                extreme[axis] = point


@kernel
def nadir_point(f: Array, rank: Array, extreme: Array, ideal: Array, worst: Array) -> Array:
    """Intercepts of the plane through the extreme points; the population's worst where it fails."""
    top, front = np.full(3, -np.inf), np.full(3, -np.inf)
    for i in range(len(f)):
        for m in range(3):
            top[m] = max(top[m], f[i, m])
            if rank[i] == 0:
                front[m] = max(front[m], f[i, m])
    a = np.empty((3, 4))
    for i in range(3):
        for m in range(3):
            a[i, m] = extreme[i, m] - ideal[m]
        a[i, 3] = 1.0
    whole = a.copy()
    plane = np.zeros(3)
    sound = True
    for c in range(3):  # Gaussian elimination with row pivots
        p = c
        for i in range(c + 1, 3):
            if abs(a[i, c]) > abs(a[p, c]):
                p = i
        if a[p, c] == 0.0:
            sound = False
            break
        for m in range(4):
            a[c, m], a[p, m] = a[p, m], a[c, m]
        for i in range(c + 1, 3):
            by = a[i, c] / a[c, c]
            for m in range(c, 4):
                a[i, m] -= by * a[c, m]
    if sound:
        for i in range(2, -1, -1):
            value = a[i, 3]
            for m in range(i + 1, 3):
                value -= a[i, m] * plane[m]
            plane[i] = value / a[i, i]
        for i in range(3):
            side = whole[i, 0] * plane[0] + whole[i, 1] * plane[1] + whole[i, 2] * plane[2]
            sound &= abs(side - 1.0) <= 1e-5 + 1e-8
            sound &= plane[i] == 0.0 or not 1.0 / plane[i] <= 1e-6
    nadir = np.empty(3)
    for m in range(3):
        if sound:
            span = np.inf if plane[m] == 0.0 else 1.0 / plane[m]
            nadir[m] = min(ideal[m] + span, worst[m])
        else:
            nadir[m] = top[m]
        if nadir[m] - ideal[m] <= 1e-6:
            nadir[m] = front[m]
    return nadir


@kernel
def _survive(f: Array, points: Array, ideal: Array, worst: Array, extreme: Array, words: Array,
             kept: Array) -> None:  # fmt: skip
    wanted = kept.shape[1]
    k = len(points) + 3
    for r in range(len(f)):
        for i in range(f.shape[1]):
            for m in range(3):
                ideal[r, m] = min(ideal[r, m], f[r, i, m])
                worst[r, m] = max(worst[r, m], f[r, i, m])
        rank = fronts(f[r], wanted)
        _extremes(f[r], rank, points, ideal[r], extreme[r])
        nadir = nadir_point(f[r], rank, extreme[r], ideal[r], worst[r])
        rays = directions(points, ideal[r], nadir)
        niche, away = associate(f[r], rank, rays, ideal[r], nadir)
        bottom = rank.max()
        count = np.zeros(k, np.int64)
        place = 0
        for i in range(f.shape[1]):
            if 0 <= rank[i] < bottom:
                kept[r, place] = i
                count[niche[i]] += 1
                place += 1
        last = np.nonzero(rank == bottom)[0]
        state = words[r : r + 1].copy()
        order, turns = np.arange(len(last)), np.arange(k)
        shuffle(state, order, len(last))
        shuffle(state, turns, k)
        kept[r, place:] = niching(wanted - place, count, niche, away, last, order, turns)


@kernel
def _replace(kept: Array, population: Array, values: Array, children: Array, found: Array) -> None:
    size = population.shape[1]
    lives = np.zeros(size, np.bool_)
    for r in range(len(kept)):
        lives[:] = False
        for i in kept[r]:
            if i < size:
                lives[i] = True
        free = 0
        for i in kept[r]:
            if i < size:
                continue
            while lives[free]:
                free += 1
            lives[free] = True
            population[r, free] = children[r, i - size]
            values[r, free] = found[r, i - size]


def replace(kept: Array, population: Array, values: Array, children: Array, found: Array) -> None:
    """Children that survive take the places of those that do not, in place: nothing else moves."""
    in_threads(_replace, kept, population, values, children, found)


@dataclass(eq=False)
class Survival:
    """What a row's survival remembers from one generation to the next, for a block of rows."""

    points: Array  # (K, 3): the reference points
    ideal: Array  # (n, 3)
    worst: Array
    extreme: Array  # (n, 3, 3)

    @classmethod
    def of(cls, points: Array, rows: int) -> Survival:
        """The state before the first generation: the reference points count as seen."""
        low, high = points.min(0), points.max(0)
        far = np.full((rows, 3, 3), np.inf)
        return cls(points, np.tile(low, (rows, 1)), np.tile(high, (rows, 1)), far)

    def __call__(self, f: Array, words: Array, wanted: int) -> Array:
        """Places (n, wanted) of the survivors among (n, M, 3); `words`: one random word per row."""
        f = np.nan_to_num(f, nan=1e300, posinf=1e300)
        kept = np.empty((len(f), wanted), np.int64)
        in_threads(_survive, f, self.points, self.ideal, self.worst, self.extreme, words, kept,
                   shared=(1,))  # fmt: skip
        return kept

    def take(self, rows: Array) -> Survival:
        return Survival(self.points, self.ideal[rows], self.worst[rows], self.extreme[rows])
