"""Which features belong together in a box: cells merged, features joined where trees tie them.

Cells that no reachable test separates are one cell. Two features are tied by the range of the trees
they share; the strongest ties are joined first, while a group stays within `widest` joint cells.
"""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def merge(cell_start, mass, lo, hi, used):
    """Merged cells of the features that matter in the box.

    (cell -> merged cell, feature -> name, names' features, sizes, flat starts, chances, chances
    below and in a cell, cuts).
    """
    features = lo.shape[0]
    short = np.zeros(mass.shape[0], np.int32)
    name = np.full(features, -1, np.int64)
    active = 0
    for f in range(features):
        n = 0
        for j in range(cell_start[f] + lo[f], cell_start[f] + hi[f]):
            short[j] = n
            n += used[j]
        short[cell_start[f] + hi[f]] = n
        if n > 0:
            name[f] = active
            active += 1
    members, sizes, flat = (
        np.empty(active, np.int64),
        np.empty(active, np.int64),
        np.zeros(active + 1, np.int64),
    )
    for f in range(features):
        if name[f] >= 0:
            a = name[f]
            members[a] = f
            sizes[a] = short[cell_start[f] + hi[f]] + 1
            flat[a + 1] = flat[a] + sizes[a]
    weight, cut_at = np.zeros(flat[active]), np.zeros(flat[active], np.int64)
    below = np.empty(flat[active])
    for a in range(active):
        f = members[a]
        whole = 0.0
        for j in range(lo[f], hi[f] + 1):
            k = flat[a] + short[cell_start[f] + j]
            weight[k] += mass[cell_start[f] + j]
            whole += mass[cell_start[f] + j]
            cut_at[k] = j  # the last local cell of a merged cell: where its upper cut is
        under = 0.0
        for k in range(flat[a], flat[a + 1]):
            weight[k] /= whole
            under += weight[k]
            below[k] = under
    return short, name, members, sizes, flat, weight, below, cut_at


@kernel
def shared(nf, node, begin, trees, name, active, moves):
    """The features of each tree, flat, and how strongly each pair of features is tied."""
    count = begin[trees]
    tied = np.zeros((active, active))
    stamp = np.full(active, -1, np.int64)
    tree_start, tree_features = np.empty(trees + 1, np.int64), np.empty(count, np.int64)
    listed = 0
    for t in range(trees):
        tree_start[t] = listed
        for i in range(begin[t], begin[t + 1]):
            if nf[node[i]] >= 0:
                a = name[nf[node[i]]]
                if stamp[a] != t:
                    stamp[a] = t
                    tree_features[listed] = a
                    listed += 1
        n = listed - tree_start[t]
        for i in range(tree_start[t], listed):
            for j in range(i + 1, listed):
                a, b = tree_features[i], tree_features[j]
                tied[min(a, b), max(a, b)] += moves[t] / (n - 1)
    tree_start[trees] = listed
    return tree_start, tree_features, tied


@kernel
def join(tied, sizes, widest):
    """(leader of each feature's group, joint cells of each leader's group); uses up `tied`."""
    active = sizes.shape[0]
    group, cells = np.arange(active), sizes.copy()
    while True:
        strongest, x, y = 0.0, -1, -1
        for a in range(active):
            for b in range(a + 1, active):
                if tied[a, b] > strongest:
                    if group[a] == group[b] or cells[group[a]] * cells[group[b]] > widest:
                        tied[a, b] = 0.0
                    else:
                        strongest, x, y = tied[a, b], group[a], group[b]
        if x < 0:
            break
        cells[x] *= cells[y]
        for c in range(active):
            if group[c] == y:
                group[c] = x
    return group, cells


@kernel
def strides(group, cells, sizes, flat, weight):
    """(first entry of each leader's table, stride of each feature in it, entries, chances)."""
    active = sizes.shape[0]
    table_start, stride = np.full(active, -1, np.int64), np.zeros(active, np.int64)
    offset = 0
    for g in range(active):
        if group[g] == g:
            table_start[g] = offset
            offset += cells[g]
    chance = np.empty(offset)
    for g in range(active):
        if group[g] == g:
            n, at = 1, table_start[g]
            chance[at] = 1.0
            for a in range(active):
                if group[a] == g:
                    stride[a] = n
                    for c in range(sizes[a] - 1, -1, -1):  # the first block is overwritten last
                        for i in range(n):
                            chance[at + c * n + i] = chance[at + i] * weight[flat[a] + c]
                    n *= sizes[a]
    return table_start, stride, offset, chance
