"""R-NSGA-III survival for many populations at once (Vesikar, Deb & Blank 2018), three objectives.

Per row: rank the individuals by non-dominated fronts until enough are ranked; measure the front's
extent from its extreme points; turn the reference points into directions in that normalised space;
give each individual to its nearest direction; fill up from the last front, emptiest niche first.
Each step equals pymoo 0.6's on the same population, quirks included (`tests/search/test_nsga.py`).

Two things make it fast. With three objectives a front is a staircase in the last two once points
are sorted by the first, so "is it dominated?" is a binary search. Niching has a closed form: the
k-th pick of a niche that already holds c members has level c + k, and niching takes the candidates
of lowest level. All of it is compiled by numba, row by row, with the GIL released.

What a reader would get wrong: equal individuals do not dominate each other, and a population that
starts as copies of one point is nothing but equal individuals.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.attacks.dice import Array, shuffle
from assay.kernel import fast_kernel, kernel


@kernel
def _before(f: Array, i: int, j: int) -> bool:
    """Lexicographic order of two individuals."""
    if f[i, 0] != f[j, 0]:
        return bool(f[i, 0] < f[j, 0])
    if f[i, 1] != f[j, 1]:
        return bool(f[i, 1] < f[j, 1])
    return bool(f[i, 2] < f[j, 2])


@kernel
def _sorted(f: Array) -> Array:
    """Places in lexicographic order."""
    order = np.argsort(f[:, 0])
    for k in range(1, len(f)):  # ties in the first objective are short or already in order
        i, at = order[k], k
        while at > 0 and _before(f, i, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    return order


@kernel
def fronts(f: Array, enough: int) -> Array:
    """Front (0 first) of each individual; -1 beyond the front that completes `enough`.

    A front's staircase holds, by increasing second objective, the lowest third objective so far.
    """
    n = len(f)
    order = _sorted(f)
    rank = np.full(n, -1, np.int64)
    ranked, front = 0, 0
    second, third = np.empty(n), np.empty(n)
    left = n
    while ranked < enough and ranked < n:
        steps, last, over = 0, -1, 0
        for place in range(left):
            i = order[place]
            if last >= 0 and not _before(f, last, i):  # equal to the last member: same front
                rank[i] = front
                ranked += 1
                continue
            low, high = 0, steps  # first step whose second objective exceeds this one's
            while low < high:
                middle = (low + high) // 2
                if second[middle] <= f[i, 1]:
                    low = middle + 1
                else:
                    high = middle
            if low > 0 and third[low - 1] <= f[i, 2]:
                order[over] = i  # dominated: left for the next front
                over += 1
                continue
            rank[i] = front
            ranked += 1
            last = i
            stop = low  # steps from `low` on that are no lower are covered by the new one
            while stop < steps and third[stop] >= f[i, 2]:
                stop += 1
            if low > 0 and second[low - 1] == f[i, 1]:
                low -= 1
            shift = low + 1 - stop
            if shift > 0:
                for k in range(steps - 1, stop - 1, -1):
                    second[k + shift], third[k + shift] = second[k], third[k]
            elif shift < 0:
                for k in range(stop, steps):
                    second[k + shift], third[k + shift] = second[k], third[k]
            steps += shift
            second[low], third[low] = f[i, 1], f[i, 2]
        front += 1
        left = over
    return rank


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
def directions(points: Array, ideal: Array, nadir: Array) -> Array:
    """Reference points, normalised and moved along rays to the plane sum = 1; then the axes."""
    k = len(points)
    rays = np.zeros((k + 3, 3))
    for i in range(k):
        total = 0.0
        for m in range(3):
            span = nadir[m] - ideal[m]
            rays[i, m] = (points[i, m] - ideal[m]) / (span if span != 0.0 else 1e-12)
            total += rays[i, m]
        if abs(total) > 1e-6 * np.sqrt(3.0):
            for m in range(3):
                rays[i, m] /= total
        else:  # a point at the ideal has no ray: the nearest point of the plane
            for m in range(3):
                rays[i, m] += (1.0 - total) / 3.0
        total = 0.0
        for m in range(3):
            rays[i, m] = max(rays[i, m], 0.0)
            total += rays[i, m]
        for m in range(3):
            rays[i, m] /= total
    for m in range(3):
        rays[k + m, m] = 1.0
    return rays


@fast_kernel
def _highest(values: Array) -> Any:
    high = values[0]
    for v in values:  # fast-math lets the compiler take several at a time
        high = max(high, v)
    return high


@kernel
def _first_of(values: Array, value: float) -> int:
    for j in range(len(values)):
        if values[j] == value:
            return j
    return 0


@kernel
def associate(f: Array, rank: Array, rays: Array, ideal: Array, nadir: Array) -> Any:
    """Nearest direction of each ranked individual, and the distance to it."""
    n, k = len(f), len(rays)
    unit = np.empty((3, k))
    for j in range(k):
        size = np.sqrt(rays[j, 0] ** 2 + rays[j, 1] ** 2 + rays[j, 2] ** 2)
        for m in range(3):
            unit[m, j] = rays[j, m] / size
    niche, away = np.zeros(n, np.int64), np.zeros(n)
    span = nadir - ideal
    for m in range(3):
        span[m] = span[m] if span[m] != 0.0 else 1e-12
    along = np.empty(k)
    for i in range(n):
        if rank[i] < 0:
            continue
        a = (f[i, 0] - ideal[0]) / span[0]
        b = (f[i, 1] - ideal[1]) / span[1]
        c = (f[i, 2] - ideal[2]) / span[2]
        for j in range(k):
            along[j] = a * unit[0, j] + b * unit[1, j] + c * unit[2, j]
        best = _first_of(along, _highest(along))  # all are >= 0: the nearest is the most along
        niche[i] = best
        a -= along[best] * unit[0, best]
        b -= along[best] * unit[1, best]
        c -= along[best] * unit[2, best]
        away[i] = np.sqrt(a * a + b * b + c * c)
    return niche, away


@kernel
def niching(wanted: int, count: Array, niche: Array, away: Array, last: Array, order: Array,
            turns: Array) -> Array:  # fmt: skip
    """`wanted` of the individuals `last`; `order` and `turns` break ties among them and niches.

    The nearest member of an empty niche goes first, all others in the order given.
    """
    n, k = len(last), len(count)
    nearest = np.full(k, -1, np.int64)
    for i in order:
        j = niche[last[i]]
        if count[j] == 0 and (nearest[j] < 0 or away[last[i]] < away[last[nearest[j]]]):
            nearest[j] = i
    level = np.empty(n, np.int64)
    filled = count.copy()
    for j in range(k):
        if nearest[j] >= 0:
            level[nearest[j]] = 0
            filled[j] = 1
    for i in order:
        j = niche[last[i]]
        if nearest[j] != i:
            level[i] = filled[j]
            filled[j] += 1
    sizes = np.zeros(filled.max() + 1, np.int64)
    for i in range(n):
        sizes[level[i]] += 1
    full, taken = 0, 0
    while taken + sizes[full] <= wanted and full < len(sizes) - 1:
        taken += sizes[full]
        full += 1
    chosen = np.empty(wanted, np.int64)
    at = np.full(k, -1, np.int64)  # who stands at the level that cannot be taken whole
    place = 0
    for i in range(n):
        if level[i] < full:
            chosen[place] = last[i]
            place += 1
        elif level[i] == full:
            at[niche[last[i]]] = last[i]
    for j in turns:
        if place < wanted and at[j] >= 0:
            chosen[place] = at[j]
            place += 1
    return chosen


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
        dice = words[r : r + 1].copy()
        order, turns = np.arange(len(last)), np.arange(k)
        shuffle(dice, order, len(last))
        shuffle(dice, turns, k)
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


def in_threads(kernel: Any, *arrays: Array, shared: tuple[int, ...] = ()) -> None:
    """Run a compiled kernel on slices of rows, one thread each; `shared` arguments are not sliced.

    As many threads as torch uses. Threads of our own, because numba's default pool must not be
    entered from two Python threads at once.
    """
    rows = len(arrays[0])
    parts = max(1, min(torch.get_num_threads(), rows // 4))
    cuts = np.linspace(0, rows, parts + 1).astype(int)

    def slices(i: int) -> list[Array]:
        piece = slice(cuts[i], cuts[i + 1])
        return [a if k in shared else a[piece] for k, a in enumerate(arrays)]

    if parts == 1:
        kernel(*arrays)
        return
    with ThreadPoolExecutor(parts) as pool:
        for done in [pool.submit(kernel, *slices(i)) for i in range(parts)]:
            done.result()
