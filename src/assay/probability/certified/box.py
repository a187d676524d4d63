"""One box of cells: settle it, or bound P(every margin > 0) inside it and say where to split it
next.

If the worst (best) case of the trees leaves no doubt, the box is settled; few joint cells are
listed (listing.py). Otherwise features that share trees are joined, most tightly tied first, into
groups of at most `widest` joint cells. A tree inside one group is tabulated exactly; a tree that
spans groups is pulled apart (apart.py). So L(x) <= margin(x) <= U(x), both sums of independent
tables, whose distributions are convolutions, rounded down for L and up for U (tails.py). The
largest group is not convolved but enumerated, which ties the rivals together: per cell,
low = 1 - sum_k (1 - P_k), high = min_k P_k.

What a reader would get wrong: a tree inside a group costs nothing, however wide its range. The
next split is the one that saves most expected range of the trees that *span* groups. And tables
are kept as differences along each feature, so that a tree costs its own few cells, not the box's.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel
from assay.probability.certified.convolution import tails
from assay.probability.certified.enumerate import joint_cells, list_cells
from assay.probability.certified.grouping import join, merge, shared, strides
from assay.probability.certified.leaf_tables import (
    leaf_intervals,
    meet,
    own_cuts,
    shares,
    vanishing,
)
from assay.probability.certified.reach import reachable
from assay.probability.certified.separate import pull_apart, spread, sum_up

FINE = 0.1  # rounding may cost this share of what spanning trees cost
EVEN = 0.1  # what a tree's range counts next to its cost where the next split is chosen


@kernel
def examine(
    nf,
    nc,
    nl,
    nr,
    gain,
    rough,
    roots,
    base,
    tie,
    slack,
    unit,
    cell_start,
    mass,
    lo,
    hi,
    limits,
    tied_cells,
    out,
):
    """State of the box: 1 yes, 0 no, 3 one undecided cell, 4 listed, 2 open.

    rough: how far rounding may move a sum with this leaf; tie: added to the base, positive where
    equal scores mean the label; unit > 0: sums round after each tree.
    limits: joint cells of a group, steps of a convolution, joint cells of a listed box; the last is
    the search's.
    out: low, high, split feature, split cut, work, undecided cells of a listed box (in tied_cells)
    or the logarithm of an open one's joint cells.
    """
    widest, bins, listed, _ = limits
    rivals = base.shape[0]
    used = np.zeros(mass.shape[0], np.bool_)
    moves = np.zeros(roots.shape[0])
    state, slack, margin, node, parent, side, begin, trees = reachable(
        nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, lo, hi, used, moves
    )
    count = begin[trees]
    out[4] = 50 * count + 120 * roots.shape[0]  # work: about nanoseconds
    if state != 2:
        return state

    # cells that nothing separates here are one; features that share trees are joined
    short, name, members, sizes, flat, weight, below, cut_at = merge(cell_start, mass, lo, hi, used)
    active = members.shape[0]
    joint = joint_cells(sizes, listed)
    if joint <= listed:
        out[4] += 2 * list_cells(
            nf, nc, gain, rough, node, parent, side, begin, trees, name, short, cell_start, sizes,
            flat, weight, margin + tie, slack, joint, tied_cells, out,
        )  # fmt: skip
        if out[5] <= tied_cells.shape[0]:
            _where(tied_cells[: int(out[5])], members, short, cell_start, lo, hi)
            return 4
    tree_start, tree_features, tied = shared(nf, node, begin, trees, name, active, moves)
    group, cells = join(tied, sizes, widest)
    table_start, stride, offset, chance = strides(group, cells, sizes, flat, weight)
    out[4] += 25 * active * active
    # differences along every feature of a group
    lower, upper = np.zeros((rivals, offset)), np.zeros((rivals, offset))

    # every tree into its tables
    largest, most_cells = 1, 1
    for t in range(trees):
        largest = max(largest, begin[t + 1] - begin[t])
    for a in range(active):
        most_cells = max(most_cells, cells[group[a]])
    node_lo, node_hi = np.empty((largest, active), np.int32), np.empty((largest, active), np.int32)
    cuts, parts = np.empty((active, largest), np.int32), np.empty(active, np.int64)
    leaf, where = np.empty((largest, 2), np.int64), np.empty(active, np.int64)
    leader, place = np.empty(active, np.int64), np.empty(active, np.int64)
    subsize, substride = np.empty(active, np.int64), np.empty(active, np.int64)
    meet_start = np.empty(largest * active + 1, np.int64)
    meets, share = np.empty(4 * largest * active, np.int32), np.empty((active, most_cells))
    value, error, rest = np.empty(largest), np.empty(largest), np.empty((2, largest))
    under, over = np.empty((active, most_cells)), np.empty((active, most_cells))
    leaf_low, leaf_high = np.empty((largest, active)), np.empty((largest, active))
    d, cell = np.empty(most_cells), np.empty(most_cells, np.int64)
    saved, tilt = np.zeros(flat[active] + 1), np.zeros(flat[active] + 1)
    gap = 0.0
    for t in range(trees):
        a0, k = tree_start[t], tree_start[t + 1] - tree_start[t]
        mine = tree_features[a0 : a0 + k]
        b0, b1 = begin[t], begin[t + 1]
        for j in range(k):
            where[mine[j]] = j
        own_cuts(nf, nc, node, b0, b1, name, short, cell_start, where, k, cuts, parts)
        leaves = leaf_intervals(
            nf, nc, node, parent, side, b0, b1, name, short, cell_start, where, k, cuts, parts,
            node_lo, node_hi, leaf,
        )  # fmt: skip
        n_groups = 0
        for j in range(k):
            h = 0
            while h < n_groups and leader[h] != group[mine[j]]:
                h += 1
            if h == n_groups:
                leader[h], subsize[h] = group[mine[j]], 1
                n_groups += 1
            place[j], substride[j] = h, subsize[h]
            subsize[h] *= parts[j]
        meets = meet(
            leaf, leaves, node_lo, node_hi, k, place, substride, n_groups, meet_start, meets
        )
        touched = meet_start[leaves * n_groups]
        out[4] += 60 * (b1 - b0) * k
        if n_groups > 1:
            shares(k, place, parts, cuts, mine, flat, below, n_groups, share)
        cost = 0.0
        for p in range(rivals):
            for i in range(leaves):
                value[i], error[i] = gain[leaf[i, 0], p], rough[leaf[i, 0]]
            if n_groups == 1:
                for i in range(leaves):
                    for c in range(meet_start[i], meet_start[i + 1]):
                        under[0, meets[c]] = value[i] - error[i]
                        over[0, meets[c]] = value[i] + error[i]
            else:
                cost += pull_apart(
                    value, error, leaves, n_groups, subsize, meet_start, meets, share, under, over,
                    leaf_low, leaf_high, rest,
                )  # fmt: skip
                out[4] += 25 * touched
            for h in range(n_groups):
                at = table_start[leader[h]]
                spread(under[h], h, k, place, parts, mine, cuts, stride, at, lower[p], d, cell)
                spread(over[h], h, k, place, parts, mine, cuts, stride, at, upper[p], d, cell)
        gap += cost
        vanishing(
            leaf, leaves, node_lo, node_hi, k, parts, cuts, cost + EVEN * moves[t], mine, flat,
            saved, tilt,
        )  # fmt: skip

    # convolve all but the largest group, then enumerate that one
    leaders, groups, final = np.empty(active, np.int64), 0, -1
    for g in range(active):
        if group[g] == g:
            leaders[groups] = g
            groups += 1
            if final < 0 or cells[g] > cells[final]:
                final = g
    for p in range(rivals):
        sum_up(lower[p], group, sizes, stride, table_start, cells)
        sum_up(upper[p], group, sizes, stride, table_start, cells)
    out[4] += 30 * offset * rivals
    at, size = table_start[final], cells[final]
    low_all, high_all, one_cell = np.ones(size), np.ones(size), np.empty(size)
    step = FINE * gap / rivals / groups
    for p in range(rivals):
        out[4] += 2 * tails(
            lower[p], chance, leaders[:groups], table_start, cells, final,
            margin[p] + tie[p] - slack, step, bins, 0, one_cell,
        )  # fmt: skip
        for c in range(size):
            low_all[c] -= 1.0 - one_cell[c]
        out[4] += 2 * tails(
            upper[p], chance, leaders[:groups], table_start, cells, final,
            margin[p] + tie[p] + slack, step, bins, 1, one_cell,
        )  # fmt: skip
        for c in range(size):
            high_all[c] = min(high_all[c], one_cell[c])
    low, high = 0.0, 0.0
    for c in range(size):
        low += chance[at + c] * max(low_all[c], 0.0)
        high += chance[at + c] * min(max(high_all[c], 0.0), 1.0)
    out[0], out[1] = min(low, 1.0), min(max(high, low), 1.0)

    # where to split, and how large it is
    out[5] = np.log(sizes).sum()
    top, constant, slope = -1.0, 0.0, 0.0
    for a in range(active):
        for c in range(flat[a], flat[a + 1]):
            constant += saved[c]
            slope += tilt[c]
            if c < flat[a + 1] - 1 and constant + slope * below[c] > top:
                top = constant + slope * below[c]
                out[2], out[3] = members[a], cut_at[c]
    return 2


@kernel
def _where(tied, members, short, cell_start, lo, hi):
    """Merged cells of the features that matter to cells of all features, in place."""
    active, features = members.shape[0], lo.shape[0]
    cell = np.empty(features)
    for i in range(tied.shape[0]):
        mass = tied[i, active]
        for f in range(features):
            cell[f] = lo[f]
        for a in range(active):
            f = members[a]
            j = lo[f]
            while short[cell_start[f] + j] < tied[i, a]:
                j += 1
            cell[f] = j
        tied[i, :features] = cell
        tied[i, features] = mass
