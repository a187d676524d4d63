"""Margins of all joint cells of some features, from the trees that ask about them alone.

A leaf is a product of intervals, so it enters the table as differences: signed corners along all
features but the first, a stretch along the first, whose cells are next to each other in memory.
Summing up feature by feature then gives every cell's margin: a few additions per cell however many
trees there are, all of them on neighbours.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def fill(
    nf, nc, gain, rough, node, parent, side, begin, mine, name, short, cell_start, sizes, order,
    table, error,
):  # fmt: skip
    """Add the trees `mine` to table (rivals, joint cells), and to `error` what rounding may do.

    order: the features, fastest first; with room for no error the leaves have none. Returns the
    work.
    """
    active, doubt = sizes.shape[0], error.shape[0] > 0
    stride = np.zeros(active, np.int64)
    n = 1
    for a in order:
        stride[a] = n
        n *= sizes[a]
    inner = order[0]
    largest = 1
    for t in mine:
        largest = max(largest, begin[t + 1] - begin[t])
    lo, hi = np.empty((largest, active), np.int32), np.empty((largest, active), np.int32)
    corner, sign = np.empty(64, np.int64), np.empty(64)
    work = 0
    for t in mine:
        for i in range(begin[t], begin[t + 1]):
            me = i - begin[t]
            if me == 0:
                for a in order:
                    lo[0, a], hi[0, a] = 0, sizes[a] - 1
            else:
                above = parent[i] - begin[t]
                for a in order:
                    lo[me, a], hi[me, a] = lo[above, a], hi[above, a]
                m = node[parent[i]]
                a, c = name[nf[m]], short[cell_start[nf[m]] + nc[m]]
                if side[i] == 0:
                    hi[me, a] = min(hi[me, a], c)
                else:
                    lo[me, a] = max(lo[me, a], c + 1)
            if nf[node[i]] >= 0:
                continue
            bounded = 0
            for a in order:
                bounded += hi[me, a] < sizes[a] - 1
            if 2**bounded > corner.shape[0]:
                corner, sign = np.empty(2**bounded, np.int64), np.empty(2**bounded)
            n = _corners(lo[me], hi[me], sizes, order, stride, corner, sign)
            first, last = lo[me, inner], hi[me, inner]
            for c in range(n):
                for p in range(table.shape[0]):
                    v = sign[c] * gain[node[i], p]
                    for j in range(corner[c] + first, corner[c] + last + 1):
                        table[p, j] += v
                if doubt and rough[node[i]] > 0.0:
                    for j in range(corner[c] + first, corner[c] + last + 1):
                        error[j] += sign[c] * rough[node[i]]
            work += n * (4 + (last - first) // 4)
    for a in order[1:]:
        for p in range(table.shape[0]):
            _sum_along(table[p], stride[a], sizes[a])
        if doubt:
            _sum_along(error, stride[a], sizes[a])
    return work + table.shape[1] * (table.shape[0] + doubt) * (order.shape[0] + 2) // 4


@kernel
def chances(sizes, order, flat, weight):
    """Mass of every joint cell."""
    joint = 1
    for a in order:
        joint *= sizes[a]
    chance = np.empty(joint)
    chance[0] = 1.0
    n = 1
    for a in order:
        for c in range(sizes[a] - 1, -1, -1):  # the first block is overwritten last
            _times(chance[c * n : c * n + n], chance[:n], weight[flat[a] + c])
        n *= sizes[a]
    return chance


@kernel
def doubtful(nf, rough, node, count):
    """Does any leaf bring a rounding of its own?"""
    doubts = 0
    for i in range(count):
        doubts += nf[node[i]] < 0 and rough[node[i]] > 0.0
    return doubts > 0


@kernel
def _corners(lo, hi, sizes, order, stride, corner, sign):
    """Where a leaf's differences are, and their signs."""
    n = 1
    corner[0], sign[0] = 0, 1.0
    for a in order[1:]:
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
def _times(to, what, by):
    for j in range(to.shape[0]):
        to[j] = what[j] * by
