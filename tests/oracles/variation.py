"""MOEVA's mating in plain Python: parents, crossover, polynomial mutation."""

import math

import numpy as np
from tests.oracles.splitmix import SplitMix


def mutated(value, low, high, u, eta):
    """Polynomial mutation of one gene by the random number u (Deb & Agrawal 1999)."""
    span = high - low
    if u <= 0.5:
        rest = 1.0 - (value - low) / span
        move = (2.0 * u + (1.0 - 2.0 * u) * rest ** (eta + 1.0)) ** (1.0 / (eta + 1.0)) - 1.0
    else:
        rest = 1.0 - (high - value) / span
        move = 1.0 - (2.0 * (1.0 - u) + (2.0 * u - 1.0) * rest ** (eta + 1.0)) ** (1 / (eta + 1.0))
    return min(max(value + move * span, low), high)


def _parents(random, order, wanted):
    """Draws without replacement; a draw of half the population starts anew with all of it."""
    half = max(len(order) // 2, 1)
    chosen = np.empty(wanted, np.int64)
    for start in range(0, wanted, half):
        some = min(half, wanted - start)
        random.shuffle(order, some)
        chosen[start : start + some] = order[:some]
    return chosen


def _skip(random, size):
    """How many genes are passed over before the next one mutates, each with chance 1 / size."""
    if size == 1:
        return 0
    return int(math.log1p(-random.uniform()) / math.log1p(-1.0 / size))


def vary(genes, low, high, kinds, words, offspring, rate=0.9, eta=20.0):
    children = np.empty((len(genes), offspring + offspring % 2, genes.shape[2]), genes.dtype)
    ends, whole = np.concatenate([[0], np.cumsum(kinds)]), (0.0, 1.0, 1.0)
    matings = children.shape[1] // 2
    order = np.arange(genes.shape[1])
    for r in range(len(genes)):
        random = SplitMix(words[r])
        order[:] = np.arange(genes.shape[1])
        who = _parents(random, order, 2 * matings)
        for k in range(matings):
            a, b = children[r, k], children[r, matings + k]
            a[:] = genes[r, who[2 * k]]
            b[:] = genes[r, who[2 * k + 1]]
            for kind in range(len(ends) - 1):
                start, stop = ends[kind], ends[kind + 1]
                size = stop - start
                if size < 2 or random.uniform() >= rate:
                    continue
                cut = 1 + int(random.uniform() * (size - 1))
                end = size
                if size > 2:  # two different cuts of 1..size-1
                    end = 1 + int(random.uniform() * (size - 2))
                    end += end >= cut
                for g in range(start + min(cut, end), start + max(cut, end)):
                    a[g], b[g] = b[g].copy(), a[g].copy()
        for kind in range(len(ends) - 1):
            start, stop = ends[kind], ends[kind + 1]
            size, margin = stop - start, 0.5 * whole[kind]
            if size == 0:
                continue
            place = _skip(random, size)
            while place < 2 * matings * size:
                k, g = place // size, start + place % size
                place += 1 + _skip(random, size)
                if not low[r, g] < high[r, g]:
                    continue
                bottom, top = float(low[r, g]) - margin, float(high[r, g]) + margin
                value = mutated(float(children[r, k, g]), bottom, top, random.uniform(), eta)
                if whole[kind]:
                    value = min(max(float(np.rint(value)), float(low[r, g])), float(high[r, g]))
                children[r, k, g] = value
    return children[:, :offspring]
