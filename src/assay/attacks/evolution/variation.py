"""Mating for many populations at once: MOEVA's parents, crossover and mutation.

Parents are drawn without replacement (the published tournament is on a violation that is always 0,
which is a fair coin). Two-point crossover with probability 0.9 and polynomial mutation (eta = 20,
each gene with probability 1 / number of genes of its kind) work separately on the real, the
integer and the category genes, in raw units. Integers and categories mutate within bounds widened
by a half and are rounded.

What a reader would get wrong: the kinds are mutated at different rates. On URL a real gene mutates
with probability 1/5, an integer gene with 1/58; one rate for all is a different search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.kernels.arrays import Array
from assay.kernels.compile import kernel
from assay.kernels.splitmix import shuffle, uniform
from assay.kernels.threads import in_threads


@kernel
def mutated(value: float, low: float, high: float, u: float, eta: float) -> Any:
    """Polynomial mutation of one gene by the random number u (Deb & Agrawal 1999)."""
    span = high - low
    if u <= 0.5:
        rest = 1.0 - (value - low) / span
        move = (2.0 * u + (1.0 - 2.0 * u) * rest ** (eta + 1.0)) ** (1.0 / (eta + 1.0)) - 1.0
    else:
        rest = 1.0 - (high - value) / span
        move = 1.0 - (2.0 * (1.0 - u) + (2.0 * u - 1.0) * rest ** (eta + 1.0)) ** (1 / (eta + 1.0))
    return min(max(value + move * span, low), high)


@kernel
def _parents(state: Array, order: Array, wanted: int) -> Array:
    """Draws without replacement; a draw of half the population starts anew with all of it."""
    half = max(len(order) // 2, 1)
    chosen = np.empty(wanted, np.int64)
    for start in range(0, wanted, half):
        some = min(half, wanted - start)
        shuffle(state, order, some)
        chosen[start : start + some] = order[:some]
    return chosen


@kernel
def _skip(state: Array, size: int) -> int:
    """How many genes are passed over before the next one mutates, each with chance 1 / size."""
    if size == 1:
        return 0
    return int(np.log1p(-uniform(state)) / np.log1p(-1.0 / size))


@kernel
def _vary(genes: Array, low: Array, high: Array, words: Array, children: Array, ends: Array,
           whole: Array, rate: float, eta: float) -> None:  # fmt: skip
    matings = children.shape[1] // 2
    order = np.arange(genes.shape[1])
    for r in range(len(genes)):
        state = words[r : r + 1].copy()
        order[:] = np.arange(genes.shape[1])
        who = _parents(state, order, 2 * matings)
        for k in range(matings):
            a, b = children[r, k], children[r, matings + k]
            a[:] = genes[r, who[2 * k]]
            b[:] = genes[r, who[2 * k + 1]]
            for kind in range(len(ends) - 1):
                start, stop = ends[kind], ends[kind + 1]
                size = stop - start
                if size < 2 or uniform(state) >= rate:
                    continue
                cut = 1 + int(uniform(state) * (size - 1))
                end = size
                if size > 2:  # two different cuts of 1..size-1
                    end = 1 + int(uniform(state) * (size - 2))
                    end += end >= cut
                for g in range(start + min(cut, end), start + max(cut, end)):
                    a[g], b[g] = b[g], a[g]
        for kind in range(len(ends) - 1):
            start, stop = ends[kind], ends[kind + 1]
            size, margin = stop - start, 0.5 * whole[kind]
            if size == 0:
                continue
            place = _skip(state, size)
            while place < 2 * matings * size:
                k, g = place // size, start + place % size
                place += 1 + _skip(state, size)
                if not low[r, g] < high[r, g]:
                    continue
                bottom, top = low[r, g] - margin, high[r, g] + margin
                value = mutated(children[r, k, g], bottom, top, uniform(state), eta)
                if whole[kind]:
                    value = min(max(np.rint(value), low[r, g]), high[r, g])
                children[r, k, g] = value


def vary(genes: Array, low: Array, high: Array, kinds: tuple[int, int, int], words: Array,
          offspring: int, rate: float = 0.9, eta: float = 20.0) -> Array:  # fmt: skip
    """Children (n, offspring, G) of populations (n, P, G).

    `kinds` says how many of the genes are real, integer and category, in this order; `low` and
    `high` (n, G) are the bounds in the genes' own units; `words`: one random word per row.
    """
    children = np.empty((len(genes), offspring + offspring % 2, genes.shape[2]), genes.dtype)
    ends = np.concatenate([[0], np.cumsum(kinds)])
    whole = np.array([0.0, 1.0, 1.0])

    def kernel(*parts: Array) -> None:
        _vary(*parts, ends, whole, rate, eta)

    in_threads(kernel, genes, low, high, words, children)
    return children[:, :offspring]
