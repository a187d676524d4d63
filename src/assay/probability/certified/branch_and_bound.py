"""Best-first branch and bound over boxes of cells: certified bounds on P(every margin > 0) for one
record.

A box is a range of cells per feature. `convolve.examine` settles it or bounds its probability; the
open box with the largest gap (mass times width) is next: it is resolved if it falls apart into
halves (halves.py), else split where `examine` says. The bounds of all boxes add up, and the best
ever seen are kept, since a split may loosen them for a while.

What a reader would get wrong: the budget is *work* (nodes and table entries touched), not seconds,
so that the same call gives the same bounds on any machine and with any number of threads. All of
it is compiled, but returns every few tenths of a second: Python must hear an interrupt."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.arrays import Floats
from assay.kernels.compile import kernel
from assay.probability.certified.box import examine
from assay.probability.certified.meet_in_the_middle import resolve
from assay.probability.localise import Local

NO, YES, OPEN, TIE, LISTED = range(5)
Cells = NDArray[np.int32]
WEIGHT, LOW, HIGH, FEATURE, CUT, NUMBER, HALVES = range(7)  # what is known of a box
UNTRIED, USELESS, MET = range(3)  # what halves do for it
SURE_LOW, SURE_HIGH, OPEN_LOW, OPEN_HIGH, TIED, BEST_LOW, BEST_HIGH, WORK, BORN = range(9)
TIES = 64  # undecided cells that a listed box may have
BREATH = 200_000_000  # work between two looks at Python


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds given the kept mass, and what they leave open."""

    low: float
    high: float
    work: int
    ties: Cells  # (n, features) single cells that the model itself must decide
    tied: Floats  # (n,) their masses
    settled: tuple[float, float]  # bounds of the settled and resolved boxes alone
    first: Cells  # (n, features) first cells of the open boxes
    last: Cells
    mass: Floats  # (n,) the open boxes' masses


def search(local: Local, tolerance: float, budget: int, limits: tuple[int, int, int, int]) -> Found:
    """Split the widest box until the bounds are within `tolerance` or the work is done."""
    tree = local.nf, local.nc, local.nl, local.nr, local.gain, local.rough, local.roots
    rule = local.base, local.tie, local.slack, local.unit
    features = len(local.start) - 1
    room = 4 * TIES
    cells, facts = np.zeros((room, 2, features), np.int32), np.zeros((room, 7))
    cells[0, 1] = np.diff(local.start) - 1
    facts[0, WEIGHT] = 1.0
    heap, ties, free = (np.empty(room, np.int32) for _ in range(3))
    free[:] = np.arange(room)[::-1]
    counts = np.array([0, 0, room - 1])  # in the heap, tied, free: the whole box is slot 0
    sums = np.zeros(9)
    sums[BEST_HIGH] = 1.0
    done = False
    while not done:
        pause = min(int(sums[WORK]) + BREATH, budget)
        done, cells, facts, heap, ties, free = _go_on(
            *tree, *rule, local.start, local.mass, tolerance, pause, limits,
            sums, counts, cells, facts, heap, ties, free,
        )  # fmt: skip
        done = done or sums[WORK] >= budget
    slots, tied = heap[: counts[0]], ties[: counts[1]]
    met = facts[slots, HALVES] == MET  # known but for rounding
    known = facts[slots[met]][:, [LOW, HIGH]].sum(axis=0)
    slots = slots[~met]
    # what running sums over so many boxes, and over the cells of one, can lose
    drift = 1e-15 * (sums[BORN] + len(tied) + 1) + 1.2e-16 * (limits[2] + 2 * limits[3])
    return Found(
        sums[BEST_LOW] - drift,
        sums[BEST_HIGH] + drift,
        int(sums[WORK]),
        cells[tied, 0],
        facts[tied, WEIGHT],
        (sums[SURE_LOW] + known[0] - drift, sums[SURE_HIGH] + known[1] + drift),
        cells[slots, 0],
        cells[slots, 1],
        facts[slots, WEIGHT],
    )


@kernel
def _go_on(
    nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, mass, tolerance, pause,
    limits, sums, counts, cells, facts, heap, ties, free,
):  # fmt: skip
    """Go on until the bounds are close, nothing is open (both: True) or the work reaches `pause`.

    Boxes live in slots of `cells` and `facts`; `heap`, `ties` and `free` hold slots.
    """
    out, tied_cells = np.empty(6), np.empty((TIES, cells.shape[2] + 1))
    begin = sums[BORN] == 0.0
    pair = np.empty(2, np.int64)
    while True:
        pending = 0
        if begin:  # the whole box
            pair[0], pending, begin = 0, 1, False
        else:
            gap = sums[BEST_HIGH] - sums[BEST_LOW] - sums[TIED]
            if counts[0] == 0 or gap <= tolerance:
                return True, cells, facts, heap, ties, free
            if sums[WORK] >= pause:
                return False, cells, facts, heap, ties, free
            if counts[2] <= 2 * TIES:
                cells, facts, heap, ties, free = _grow(counts, cells, facts, heap, ties, free)
            pair[0], pair[1] = _pop(heap, counts, facts), free[counts[2] - 1]
            slot = pair[0]
            if facts[slot, HALVES] == UNTRIED:
                done = resolve(
                    nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, mass,
                    cells[slot, 0], cells[slot, 1], limits[3], out,
                )  # fmt: skip
                sums[WORK] += out[4]
                if done:
                    sums[OPEN_LOW] -= facts[slot, LOW]
                    sums[OPEN_HIGH] -= facts[slot, HIGH]
                    facts[slot, HALVES] = MET
                    _open(slot, out, heap, counts, facts, sums)
                    _best(sums)
                    continue
            pending = _split(pair, cells, facts, cell_start, mass, sums)
            counts[2] -= pending == 2
        for i in range(pending):
            slot = pair[i]
            state = examine(
                nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, mass,
                cells[slot, 0], cells[slot, 1], limits, tied_cells, out,
            )  # fmt: skip
            weight = facts[slot, WEIGHT]
            sums[WORK] += out[4]
            sums[BORN] += 1.0
            if state == TIE:
                _tie(slot, ties, counts, sums, weight)
                continue
            if state == OPEN and out[1] - out[0] > 1e-15:
                useless = base.shape[0] > 1 or out[5] > 2 * np.log(limits[3])
                facts[slot, HALVES] = USELESS if useless else UNTRIED
                _open(slot, out, heap, counts, facts, sums)
                continue
            if state == YES:
                out[0] = out[1] = 1.0
            elif state == NO:
                out[0] = out[1] = 0.0
            elif state == LISTED:
                out[1] = out[0]
                for k in range(int(out[5])):
                    counts[2] -= 1
                    two = free[counts[2]]
                    for a in range(cells.shape[2]):
                        cells[two, 0, a] = tied_cells[k, a]
                    facts[two, WEIGHT] = weight * tied_cells[k, cells.shape[2]]
                    _tie(two, ties, counts, sums, facts[two, WEIGHT])
            sums[SURE_LOW] += weight * out[0]
            sums[SURE_HIGH] += weight * out[1]
            free[counts[2]] = slot
            counts[2] += 1
        _best(sums)


@kernel
def _best(sums):
    low = sums[SURE_LOW] + sums[OPEN_LOW]
    high = sums[SURE_HIGH] + sums[OPEN_HIGH] + sums[TIED]
    sums[BEST_LOW], sums[BEST_HIGH] = max(sums[BEST_LOW], low), min(sums[BEST_HIGH], high)


@kernel
def _open(slot, out, heap, counts, facts, sums):
    """Put a box with the bounds and the split of `out` on the heap."""
    facts[slot, LOW] = facts[slot, WEIGHT] * out[0]
    facts[slot, HIGH] = facts[slot, WEIGHT] * out[1]
    facts[slot, FEATURE], facts[slot, CUT] = out[2], out[3]
    facts[slot, NUMBER] = sums[BORN]
    sums[OPEN_LOW] += facts[slot, LOW]
    sums[OPEN_HIGH] += facts[slot, HIGH]
    _push(slot, heap, counts, facts)


@kernel
def _tie(slot, ties, counts, sums, weight):
    ties[counts[1]] = slot
    counts[1] += 1
    sums[TIED] += weight


@kernel
def _split(pair, cells, facts, cell_start, mass, sums):
    """Cut the first box of the pair in two, in place; returns how many parts have mass."""
    one, two = pair[0], pair[1]
    sums[OPEN_LOW] -= facts[one, LOW]
    sums[OPEN_HIGH] -= facts[one, HIGH]
    f, cut, weight = int(facts[one, FEATURE]), int(facts[one, CUT]), facts[one, WEIGHT]
    below = above = 0.0
    for j in range(cells[one, 0, f], cells[one, 1, f] + 1):
        if j <= cut:
            below += mass[cell_start[f] + j]
        else:
            above += mass[cell_start[f] + j]
    share = below / (below + above)
    if below <= 0.0:
        cells[one, 0, f] = cut + 1
        return 1
    for side in range(2):
        for a in range(cells.shape[2]):
            cells[two, side, a] = cells[one, side, a]
    cells[one, 1, f] = cut
    cells[two, 0, f] = cut + 1
    facts[one, WEIGHT], facts[two, WEIGHT] = weight * share, weight * (1 - share)
    return 2 if above > 0.0 else 1


@kernel
def _before(a, b, facts):
    """Is slot a split before slot b?"""
    x, y = facts[a, HIGH] - facts[a, LOW], facts[b, HIGH] - facts[b, LOW]
    return x > y or (x == y and facts[a, NUMBER] < facts[b, NUMBER])


@kernel
def _push(slot, heap, counts, facts):
    at = counts[0]
    counts[0] += 1
    while at > 0 and _before(slot, heap[(at - 1) // 2], facts):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = slot


@kernel
def _pop(heap, counts, facts):
    first = heap[0]
    counts[0] -= 1
    last, at, child = heap[counts[0]], 0, 1
    while child < counts[0]:
        if child + 1 < counts[0] and _before(heap[child + 1], heap[child], facts):
            child += 1
        if not _before(heap[child], last, facts):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = last
    return first


@kernel
def _grow(counts, cells, facts, heap, ties, free):
    """Twice the slots."""
    room = facts.shape[0]
    more_cells = np.empty((2 * room, 2, cells.shape[2]), np.int32)
    more_facts = np.zeros((2 * room, facts.shape[1]))
    more_cells[:room], more_facts[:room] = cells, facts
    free = _doubled(free)
    for slot in range(2 * room - 1, room - 1, -1):
        free[counts[2]] = slot
        counts[2] += 1
    return more_cells, more_facts, _doubled(heap), _doubled(ties), free


@kernel
def _doubled(a):
    out = np.empty(2 * a.shape[0], a.dtype)
    out[: a.shape[0]] = a
    return out
