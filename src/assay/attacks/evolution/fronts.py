"""Non-dominated fronts of three objectives, by a staircase (all minimised).

Once the individuals are sorted by the first objective, those already in a front are a staircase in
the other two, and "is it dominated?" is a binary search. Equal to pymoo 0.6's ranks (tests).

What a reader would get wrong: equal individuals do not dominate each other, and a population that
starts as copies of one point is nothing but equal individuals.
"""

from __future__ import annotations

import numpy as np

from assay.kernels.arrays import Array
from assay.kernels.compile import kernel


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
