"""Best-first branch and bound over boxes of cells: certified bounds on P(every margin > 0) for one
record.

A box is a range of cells per feature. `convolve.examine` settles it or bounds its probability; the
open box with the largest gap (mass times width) is split next, where `examine` says. The bounds of
all boxes add up, and the best ever seen are kept, since a split may loosen them for a while.

What a reader would get wrong: the budget is *work* (nodes and table entries touched), not seconds,
so that the same call gives the same bounds on any machine and with any number of threads."""

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.trees.convolve import examine
from assay.trees.local import Local

NO, YES, OPEN, TIE = 0, 1, 2, 3
Cells = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds given the kept mass, and what they leave open."""

    low: float
    high: float
    work: int
    ties: list[
        tuple[Cells, float]
    ]  # single cells that the model itself must decide, with their mass
    settled: tuple[float, float]  # bounds of the settled boxes alone
    left: list[tuple[float, Cells, Cells]]  # open boxes: mass, first and last cells


def search(local: Local, tolerance: float, budget: int, widest: int, bins: int) -> Found:
    """Split the widest box until the bounds are within `tolerance` or the work is done."""
    tree = local.nf, local.nc, local.nl, local.nr, local.gain, local.rough
    rule = local.base, local.tie, local.slack, local.unit
    grid = local.start, local.mass
    out = np.zeros(5)
    sure_low = sure_high = open_low = open_high = tied = 0.0
    best_low, best_high = 0.0, 1.0
    work = 0
    ties: list[tuple[Cells, float]] = []
    heap: list[tuple[float, int, tuple[Any, ...]]] = []
    number = 0
    low_cells, high_cells = np.zeros(len(local.start) - 1, np.int64), np.diff(local.start) - 1
    pending = [(1.0, low_cells, high_cells, local.roots.copy())]
    while True:
        for weight, lo, hi, alive in pending:
            state = examine(*tree, alive, *rule, *grid, lo, hi, widest, bins, out)
            low, high, feature, cut, cost = out.tolist()
            work += int(cost)
            if state == YES:
                sure_low += weight
                sure_high += weight
            elif state == TIE:
                ties.append((lo, weight))
                tied += weight
            elif state == OPEN and high - low > 1e-15:
                low, high = weight * low, weight * high
                open_low += low
                open_high += high
                box = weight, low, high, lo, hi, alive, int(feature), int(cut)
                heapq.heappush(heap, (low - high, number, box))
                number += 1
            elif state == OPEN:
                sure_low += weight * low
                sure_high += weight * high
        best_low = max(best_low, sure_low + open_low)
        best_high = min(best_high, sure_high + open_high + tied)
        if not heap or best_high - best_low - tied <= tolerance or work >= budget:
            left = [(box[0], box[3], box[4]) for _, _, box in heap]
            drift = 1e-15 * (
                number + len(ties) + 1
            )  # what running sums over so many boxes can lose
            settled = (sure_low - drift, sure_high + drift)
            return Found(best_low - drift, best_high + drift, work, ties, settled, left)
        weight, low, high, lo, hi, alive, feature, cut = heapq.heappop(heap)[2]
        open_low -= low
        open_high -= high
        at = int(local.start[feature])
        below = float(local.mass[at + lo[feature] : at + cut + 1].sum())
        above = float(local.mass[at + cut + 1 : at + hi[feature] + 1].sum())
        left_hi, right_lo = hi.copy(), lo.copy()
        left_hi[feature], right_lo[feature] = cut, cut + 1
        share = below / (below + above)
        pending = [(weight * share, lo, left_hi, alive.copy())] if below > 0 else []
        if above > 0:
            pending.append((weight * (1 - share), right_lo, hi, alive))
