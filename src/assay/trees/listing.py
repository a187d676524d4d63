"""A small box, cell by cell: P(every margin > 0) to the last bit of float64.

A leaf is a product of intervals, so it enters a table of all joint cells as differences: signed
corners along all features but the first, a stretch along the first (the one with most cells, next
to each other in memory). Summing up feature by feature then gives every cell's margin: a few
additions per cell however many trees there are, all of them on neighbours. Cells within rounding
of zero are named, for the model itself to decide.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernel import fast_kernel, kernel


@kernel
def joint_cells(sizes, most):
    """How many joint cells the features have, `most` + 1 if more."""
    joint = 1
    for n in sizes:
        joint *= n
        if joint > most:
            return most + 1
    return joint


@kernel
def list_cells(
    nf, nc, gain, rough, node, parent, side, begin, trees, name, short, cell_start, sizes, flat,
    weight, base, slack, joint, tied, out,
):  # fmt: skip
    """out[0]: the mass of all cells that are sure; out[5]: how many are within rounding of zero.

    base: margins of the settled trees, tie rule included; tied: room for the doubtful cells (merged
    cells per feature, mass last). More of them than it holds: out[5] is larger. Returns the work.
    """
    active, rivals = sizes.shape[0], base.shape[0]
    order = _order(sizes)
    stride = np.empty(active, np.int64)
    n = 1
    for a in order:
        stride[a] = n
        n *= sizes[a]
    inner = order[0]
    largest, doubt = 1, False
    for t in range(trees):
        largest = max(largest, begin[t + 1] - begin[t])
        for i in range(begin[t], begin[t + 1]):
            doubt = doubt or (nf[node[i]] < 0 and rough[node[i]] > 0.0)
    lo, hi = np.empty((largest, active), np.int64), np.empty((largest, active), np.int64)
    corner, sign = np.empty(2 ** min(active, 40), np.int64), np.empty(2 ** min(active, 40))
    table = np.zeros((rivals, joint))
    error = np.zeros(joint if doubt else 0)
    work = 0
    for t in range(trees):
        for i in range(begin[t], begin[t + 1]):
            me = i - begin[t]
            if me == 0:
                for a in range(active):
                    lo[0, a], hi[0, a] = 0, sizes[a] - 1
            else:
                above = parent[i] - begin[t]
                for a in range(active):
                    lo[me, a], hi[me, a] = lo[above, a], hi[above, a]
                m = node[parent[i]]
                a, c = name[nf[m]], short[cell_start[nf[m]] + nc[m]]
                if side[i] == 0:
                    hi[me, a] = min(hi[me, a], c)
                else:
                    lo[me, a] = max(lo[me, a], c + 1)
            if nf[node[i]] < 0:
                n = _corners(lo[me], hi[me], sizes, stride, inner, corner, sign)
                first, last = lo[me, inner], hi[me, inner]
                for p in range(rivals):
                    v = gain[node[i], p]
                    for c in range(n):
                        for j in range(corner[c] + first, corner[c] + last + 1):
                            table[p, j] += sign[c] * v
                if doubt and rough[node[i]] > 0.0:
                    for c in range(n):
                        for j in range(corner[c] + first, corner[c] + last + 1):
                            error[j] += sign[c] * rough[node[i]]
                work += n * (4 + (last - first) // 4)
    # slice by slice along the last feature, so that all sums but the last stay in the cache
    last = order[active - 1]
    piece = joint // sizes[last] if active > 1 else joint
    chance = _chances(sizes, order[: max(active - 1, 1)], flat, weight, piece)
    margin, wrong = np.empty(piece), np.zeros(piece)
    low, found = 0.0, 0
    for start in range(0, joint, piece):
        for p in range(rivals):
            _go_to(start, piece, table[p], order, stride, sizes)
            _least(margin, table[p, start : start + piece], base[p], p == 0)
        if doubt:
            _go_to(start, piece, error, order, stride, sizes)
            wrong = error[start : start + piece]
        at = start // piece
        by = weight[flat[last] + at] if active > 1 else 1.0
        sure, open_cells = _above(margin, wrong, chance, slack)
        low += by * sure
        for j in range(piece if open_cells else 0):
            if abs(margin[j]) <= slack + wrong[j]:
                if found < tied.shape[0]:
                    for a in order:
                        tied[found, a] = (start + j) // stride[a] % sizes[a]
                    tied[found, active] = by * chance[j]
                found += 1
    out[0], out[5] = min(low, 1.0), found
    return work + joint * (rivals + doubt) * (active + 2) // 4


@kernel
def _go_to(start, piece, table, order, stride, sizes):
    """Differences to values in the slice from `start` on; the one before it is done."""
    now = table[start : start + piece]
    for a in order[1 : sizes.shape[0] - 1]:
        _sum_along(now, stride[a], sizes[a])
    if start > 0:
        _add(now, table[start - piece : start])


@kernel
def _order(sizes):
    """The largest feature first, the next largest last."""
    order = np.argsort(-sizes)
    second = order[min(1, sizes.shape[0] - 1)]
    for i in range(1, sizes.shape[0] - 1):
        order[i] = order[i + 1]
    order[sizes.shape[0] - 1] = second
    return order


@kernel
def _corners(lo, hi, sizes, stride, inner, corner, sign):
    """Where a leaf's differences are, and their signs."""
    n = 1
    corner[0], sign[0] = 0, 1.0
    for a in range(sizes.shape[0]):
        if a == inner:
            continue
        if hi[a] < sizes[a] - 1:
            for c in range(n):
                corner[n + c] = corner[c] + (hi[a] + 1) * stride[a]
                sign[n + c] = -sign[c]
            for c in range(n):
                corner[c] += lo[a] * stride[a]
            n *= 2
        elif lo[a] > 0:
            for c in range(n):
                corner[c] += lo[a] * stride[a]
    return n


@kernel
def _sum_along(table, stride, size):
    block = stride * size
    for start in range(0, table.shape[0], block):
        for at in range(start + stride, start + block, stride):
            _add(table[at : at + stride], table[at - stride : at])


@kernel
def _add(to, what):
    for j in range(to.shape[0]):
        to[j] += what[j]


@kernel
def _chances(sizes, order, flat, weight, joint):
    """Mass of every joint cell."""
    chance = np.empty(joint)
    chance[0] = 1.0
    n = 1
    for a in order:
        for c in range(sizes[a] - 1, -1, -1):  # the first block is overwritten last
            _times(chance[c * n : c * n + n], chance[:n], weight[flat[a] + c])
        n *= sizes[a]
    return chance


@kernel
def _times(to, what, by):
    for j in range(to.shape[0]):
        to[j] = what[j] * by


@kernel
def _least(least, margin, base, first):
    for j in range(least.shape[0]):
        now = margin[j] + base
        least[j] = now if first else min(least[j], now)


@fast_kernel
def _above(margin, wrong, chance, slack):
    """(mass of the cells surely above zero, is any neither surely above nor surely below)."""
    sure, doubtful = 0.0, 0
    for j in range(margin.shape[0]):
        border = slack + wrong[j]
        sure += chance[j] if margin[j] > border else 0.0
        doubtful += abs(margin[j]) <= border
    return sure, doubtful > 0
