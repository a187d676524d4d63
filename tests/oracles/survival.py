"""R-NSGA-III survival in plain numpy, step by step; compared with pymoo and with the kernel."""

import numpy as np
from tests.oracles.splitmix import SplitMix


def fronts(f, enough):
    """Front (0 first) of each individual; -1 beyond the front that completes `enough`."""
    no_worse = (f[:, None] <= f[None]).all(2)
    dominates = no_worse & (f[:, None] < f[None]).any(2)
    rank, front = np.full(len(f), -1, np.int64), 0
    while (rank >= 0).sum() < min(enough, len(f)):
        left = rank < 0
        rank[left & ~dominates[left].any(0)] = front
        front += 1
    return rank


def directions(points, ideal, nadir):
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


def associate(f, rank, rays, ideal, nadir):
    """Nearest direction of each ranked individual, and the distance to it."""
    n, k = len(f), len(rays)
    unit = np.empty((3, k))
    for j in range(k):
        a, b, c = rays[j]
        size = np.sqrt(a * a + b * b + c * c)
        for m in range(3):
            unit[m, j] = rays[j, m] / size
    niche, away = np.zeros(n, np.int64), np.zeros(n)
    span = nadir - ideal
    for m in range(3):
        span[m] = span[m] if span[m] != 0.0 else 1e-12
    for i in range(n):
        if rank[i] < 0:
            continue
        a = (f[i, 0] - ideal[0]) / span[0]
        b = (f[i, 1] - ideal[1]) / span[1]
        c = (f[i, 2] - ideal[2]) / span[2]
        along = a * unit[0] + b * unit[1] + c * unit[2]
        equal = np.flatnonzero(along == np.fmax.reduce(along))
        best = equal[0] if len(equal) else 0  # all are >= 0: the nearest is the most along
        niche[i] = best
        a -= along[best] * unit[0, best]
        b -= along[best] * unit[1, best]
        c -= along[best] * unit[2, best]
        away[i] = np.sqrt(a * a + b * b + c * c)
    return niche, away


def niching(wanted, count, niche, away, last, order,
            turns):  # fmt: skip
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


def extremes(f, rank, points, ideal, extreme):
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


def nadir_point(f, rank, extreme, ideal, worst):
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


def survive(f, points, ideal, worst, extreme, words,
             wanted):  # fmt: skip
    """Places (rows, wanted) of the survivors; ideal, worst and extreme (rows, ...) move on."""
    f = np.nan_to_num(f, nan=1e300, posinf=1e300)
    kept = np.empty((len(f), wanted), np.int64)
    k = len(points) + 3
    for r in range(len(f)):
        for i in range(f.shape[1]):
            for m in range(3):
                ideal[r, m] = min(ideal[r, m], f[r, i, m])
                worst[r, m] = max(worst[r, m], f[r, i, m])
        rank = fronts(f[r], wanted)
        extremes(f[r], rank, points, ideal[r], extreme[r])
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
        random = SplitMix(words[r])
        order, turns = np.arange(len(last)), np.arange(k)
        random.shuffle(order, len(last))
        random.shuffle(turns, k)
        kept[r, place:] = niching(wanted - place, count, niche, away, last, order, turns)
    return kept


def replace(kept, population, values, children, found):
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
