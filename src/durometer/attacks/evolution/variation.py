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

from functools import cache
from typing import NamedTuple

import numpy as np

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Array, Bools, Ints
from durometer.kernels.native import Kernel, Layout
from durometer.kernels.threads import threads_for_rows

MATING = Layout(
    ends="size",
    kinds="size",
    first="int64[ends]",
    whole="bool[kinds]",
    rate="float64",
    eta="float64",
)


class Mating(NamedTuple):
    """The fields of `MATING`: what kinds of genes there are, and how they are varied."""

    first: Ints  # (kinds + 1,) first gene of each kind
    whole: Bools  # (kinds,)
    rate: float  # of crossover
    eta: float  # of polynomial mutation


@cache
def _vary(kind: str) -> Kernel:
    if kind not in ("float32", "float64"):
        raise Unsupported(
            f"genes of type {kind}: a genetic search needs inputs in float32 or float64"
        )
    return Kernel(
        f"vary_{kind}",
        mating=MATING,
        n="size",
        population="size",
        children="size",
        genes="size",
        threads="int64",
        words="uint64[n]",
        parents=f"{kind}[n, population, genes]",
        low=f"{kind}[n, genes]",
        high=f"{kind}[n, genes]",
        out=f"out {kind}[n, children, genes]",
    )


def vary(genes: Array, low: Array, high: Array, kinds: tuple[int, int, int], words: Array,
          offspring: int, rate: float = 0.9, eta: float = 20.0) -> Array:  # fmt: skip
    """Children (n, offspring, G) of populations (n, P, G).

    `kinds` says how many of the genes are real, integer and category, in this order; `low` and
    `high` (n, G) are the bounds in the genes' own units; `words`: one random word per row.
    """
    children = np.empty((len(genes), offspring + offspring % 2, genes.shape[2]), genes.dtype)
    first = np.concatenate([[0], np.cumsum(kinds)]).astype(np.int64)
    mating = Mating(first, np.array([False, True, True]), rate, eta)
    read = words, *(np.ascontiguousarray(a) for a in (genes, low, high))
    _vary(genes.dtype.name)(mating, threads_for_rows(len(genes)), *read, children)
    return children[:, :offspring]
