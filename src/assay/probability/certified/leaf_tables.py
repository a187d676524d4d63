"""One tree inside one box, as its leaves: which of a group's cells each leaf meets.

A leaf is a product of intervals, so it meets a group of features in a set of cells; the cells here
are the tree's own (between its own cuts), few, and not the box's. Nothing is ever tabulated over
all features of a tree: a deep tree costs its leaves.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def own_cuts(nf, nc, node, begin, end, name, short, cell_start, where, k, cuts, parts):
    """The tree's own cuts of each of its features, sorted, as merged cells; parts[j] intervals."""
    for j in range(k):
        parts[j] = 1
    for i in range(begin, end):
        m = node[i]
        if nf[m] < 0:
            continue
        j = where[name[nf[m]]]
        c = short[cell_start[nf[m]] + nc[m]]
        n = parts[j] - 1
        at = n
        while at > 0 and cuts[j, at - 1] > c:
            at -= 1
        if at > 0 and cuts[j, at - 1] == c:
            continue
        for b in range(n, at, -1):
            cuts[j, b] = cuts[j, b - 1]
        cuts[j, at] = c
        parts[j] = n + 2


@kernel
def leaf_intervals(
    nf,
    nc,
    node,
    parent,
    side,
    begin,
    end,
    name,
    short,
    cell_start,
    where,
    k,
    cuts,
    parts,
    lo,
    hi,
    leaf,
):
    """First and last own interval of every reachable node; returns the number of leaves, listed in
    `leaf` as (node, position)."""
    leaves = 0
    for j in range(k):
        lo[0, j], hi[0, j] = 0, parts[j] - 1
    for i in range(begin + 1, end):
        me, above = i - begin, parent[i] - begin
        for j in range(k):
            lo[me, j], hi[me, j] = lo[above, j], hi[above, j]
        m = node[parent[i]]
        j = where[name[nf[m]]]
        c = short[cell_start[nf[m]] + nc[m]]
        n = 0
        while cuts[j, n] != c:
            n += 1
        if side[i] == 0:
            hi[me, j] = n
        else:
            lo[me, j] = n + 1
        if nf[node[i]] < 0:
            leaf[leaves, 0], leaf[leaves, 1] = node[i], me
            leaves += 1
    return leaves


@kernel
def meet(leaf, leaves, lo, hi, k, place, substride, n_groups, meet_start, meets):
    """Cells of each group that each leaf meets, flat; returns `meets`, larger if it had to be."""
    count = 0
    for i in range(leaves):
        me = leaf[i, 1]
        for h in range(n_groups):
            meet_start[i * n_groups + h] = count
            n = 1
            for j in range(k):
                if place[j] == h:
                    n *= hi[me, j] - lo[me, j] + 1
            if count + n > meets.shape[0]:
                bigger = np.empty(2 * (count + n), np.int32)
                bigger[:count] = meets[:count]
                meets = bigger
            meets[count] = 0
            n = 1  # cells so far; each feature of the group multiplies them
            for j in range(k):
                if place[j] == h:
                    for c in range(hi[me, j], lo[me, j] - 1, -1):  # the first block last
                        add = c * substride[j]
                        block = count + (c - lo[me, j]) * n
                        for s in range(n):
                            meets[block + s] = meets[count + s] + add
                    n *= hi[me, j] - lo[me, j] + 1
            count += n
    meet_start[leaves * n_groups] = count
    return meets


@kernel
def shares(k, place, parts, cuts, features, flat, below, n_groups, share):
    """Chance of every own cell of every group."""
    for h in range(n_groups):
        n = 1
        share[h, 0] = 1.0
        for j in range(k):
            if place[j] != h:
                continue
            at = flat[features[j]]
            for c in range(parts[j] - 1, -1, -1):  # the first block last
                last = below[at + cuts[j, c]] if c < parts[j] - 1 else 1.0
                q = max(last - (below[at + cuts[j, c - 1]] if c > 0 else 0.0), 0.0)
                for s in range(n):
                    share[h, c * n + s] = share[h, s] * q
            n *= parts[j]


@kernel
def vanishing(leaf, leaves, lo, hi, k, parts, cuts, worth, features, flat, saved, tilt):
    """Add, for every cut of the tree's features, `worth` times the share of its leaves that a split
    there is expected to remove from the box.

    A leaf below the cut vanishes with the mass above it, and the reverse: saved + tilt * (mass
    below), both kept as differences along the cells.
    """
    v = worth / leaves
    for i in range(leaves):
        me = leaf[i, 1]
        for j in range(k):
            at, end = flat[features[j]], flat[features[j] + 1]
            if hi[me, j] < parts[j] - 1:
                c = at + cuts[j, hi[me, j]]
                saved[c] += v
                tilt[c] -= v
                saved[end] -= v
                tilt[end] += v
            if lo[me, j] > 0:
                tilt[at] += v
                tilt[at + cuts[j, lo[me, j] - 1] + 1] -= v
