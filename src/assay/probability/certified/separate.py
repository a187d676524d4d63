"""A tree that spans groups of features, between two sums of functions of one group each.

sum_h b_h(x_h) <= tree(x) <= sum_h a_h(x_h). Both start from the slices through the likeliest cell,
where trees of boosted ensembles are nearly additive. Because leaves are products, the least of
tree - sum_{h != g} b_h over a leaf is its value minus the groups' maxima there: exact, at the cost
of the leaves. Setting b_g to that least rest makes the sum a lower bound that touches the tree;
doing so for one group after the other can only raise it. The same from above.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def pull_apart(
    v, error, leaves, n_groups, subsize, meet_start, meets, share, below, above, low, high, rest
):
    """Fill below[h, cell] and above[h, cell]; returns the expected gap between their sums.

    v, error: the leaves' values, up to rounding; meets[meet_start[i * n_groups + h] ...]: cells of
    group h in leaf i; share[h, cell]: a cell's chance. low, high, rest: room.
    """
    _slices(v, leaves, n_groups, subsize, meet_start, meets, share, below)
    for i in range(leaves):
        rest[0, i], rest[1, i] = v[i] - error[i], v[i] + error[i]
        for h in range(n_groups):
            at = i * n_groups + h
            a, b = np.inf, -np.inf
            for c in range(meet_start[at], meet_start[at + 1]):
                e = below[h, meets[c]]
                a, b = min(a, e), max(b, e)
            low[i, h], high[i, h] = a, b
            rest[0, i] -= b
            rest[1, i] -= a
    # the group that leaves the smallest gap is first to touch
    main, best = 0, np.inf
    for turn in range(2 * n_groups):
        h = turn if turn < n_groups else (main + turn) % n_groups
        for s in range(subsize[h]):
            below[h, s], above[h, s] = np.inf, -np.inf
        for i in range(leaves):
            at = i * n_groups + h
            a, b = rest[0, i] + high[i, h], rest[1, i] + low[i, h]
            for c in range(meet_start[at], meet_start[at + 1]):
                s = meets[c]
                below[h, s], above[h, s] = min(below[h, s], a), max(above[h, s], b)
        if turn < n_groups:
            cost = 0.0
            for s in range(subsize[h]):
                cost += share[h, s] * (above[h, s] - below[h, s])
            if cost < best - 1e-12:
                best, main = cost, h
            continue
        for i in range(leaves):
            at = i * n_groups + h
            a, b = np.inf, -np.inf
            for c in range(meet_start[at], meet_start[at + 1]):
                a, b = min(a, above[h, meets[c]]), max(b, below[h, meets[c]])
            rest[0, i] += high[i, h] - b
            rest[1, i] += low[i, h] - a
            low[i, h], high[i, h] = a, b
    gap = 0.0
    for h in range(n_groups):
        for s in range(subsize[h]):
            gap += share[h, s] * (above[h, s] - below[h, s])
    return gap


@kernel
def _slices(v, leaves, n_groups, subsize, meet_start, meets, share, out):
    likely = np.zeros(n_groups, np.int64)
    for h in range(n_groups):
        for s in range(subsize[h]):
            if share[h, s] > share[h, likely[h]]:
                likely[h] = s
    for i in range(leaves):
        missed, where = 0, 0
        for h in range(n_groups):
            at = i * n_groups + h
            inside = False
            for c in range(meet_start[at], meet_start[at + 1]):
                inside = inside or meets[c] == likely[h]
            if not inside:
                missed += 1
                where = h
        if missed > 1:
            continue
        for h in range(n_groups):
            if missed == 0 or h == where:
                at = i * n_groups + h
                for c in range(meet_start[at], meet_start[at + 1]):
                    out[h, meets[c]] = v[i]


@kernel
def spread(values, h, k, place, parts, mine, cuts, stride, at, table, d, cell):
    """Add a tree's function of group h to the group's table, as differences along each feature.

    d, cell: room for one number per own cell.
    """
    size = 1
    cell[0] = at
    for j in range(k):
        if place[j] == h:
            for c in range(parts[j] - 1, 0, -1):
                jump = (cuts[j, c - 1] + 1) * stride[mine[j]]
                for s in range(size):
                    cell[c * size + s] = cell[s] + jump
            size *= parts[j]
    for s in range(size):
        d[s] = values[s]
    block = 1
    for j in range(k):
        if place[j] == h:
            wide = block * parts[j]
            for start in range(0, size, wide):
                for s in range(start + wide - 1, start + block - 1, -1):
                    d[s] -= d[s - block]
            block = wide
    for s in range(size):
        table[cell[s]] += d[s]


@kernel
def sum_up(table, group, sizes, stride, table_start, cells):
    """Differences to values, feature by feature."""
    for a in range(group.shape[0]):
        at, n = table_start[group[a]], cells[group[a]]
        w, block = stride[a], stride[a] * sizes[a]
        for start in range(at, at + n, block):
            for i in range(start + w, start + block):
                table[i] += table[i - w]
