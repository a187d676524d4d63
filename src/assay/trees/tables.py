"""One tree inside one box, as a dense table over the cells it tells apart; and how to pull it into
pieces.

`own_table` tabulates a tree over its own intervals (few: a tree reaches two or three features in a
box). `pull_apart` bounds a tree that spans several groups of features from both sides by sums of
functions of one group each: L(x) = l(x_g) + sum_h a_h(x_h) <= tree(x) <= u(x_g) + sum_h a_h(x_h),
with l and u the least and greatest rest. The a_h are main effects; three choices are tried for
each main group g (none, means, the slice through the likeliest cell) and the one with the smallest
expected gap u - l is kept. Trees of boosted ensembles are nearly additive, so this leaves a small
part of their range."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernel import kernel


@kernel
def own_table(
    nf,
    nc,
    gain,
    node,
    parent,
    side,
    begin,
    end,
    name,
    short,
    cell_start,
    sizes,
    features,
    k,
    own,
    parts,
    strides,
    table,
    lo,
    hi,
):
    """Fill `own` (cell -> own interval), `parts` and `strides`; returns the table's size, 0 if too
    large."""
    for j in range(k):
        f = features[j]
        n = sizes[f]
        for c in range(n):
            own[j, c] = 0
        for i in range(begin, end):
            m = node[i]
            if nf[m] >= 0 and name[nf[m]] == f:
                own[j, short[cell_start[nf[m]] + nc[m]] + 1] = (
                    1  # an interval starts after this cut
                )
        for c in range(1, n):
            own[j, c] += own[j, c - 1]
        parts[j] = own[j, n - 1] + 1
    size = 1
    for j in range(k):
        strides[j] = size
        size *= parts[j]
        if size > table.shape[1]:
            return 0
    rivals = gain.shape[1]
    for i in range(begin, end):
        m = node[i]
        if nf[m] >= 0:
            continue
        for j in range(k):
            lo[j], hi[j] = 0, parts[j] - 1
        child, above = i, parent[i]
        while above >= 0:
            split = node[above]
            j = 0
            while features[j] != name[nf[split]]:
                j += 1
            c = own[j, short[cell_start[nf[split]] + nc[split]]]
            if side[child] == 0:
                hi[j] = min(hi[j], c)
            else:
                lo[j] = max(lo[j], c + 1)
            child, above = above, parent[above]
        index, empty = 0, False
        for j in range(k):
            index += lo[j] * strides[j]
            empty = empty or lo[j] > hi[j]
        if empty:
            continue
        if k == 0:
            continue
        # an odometer over the leaf's sub-box; `at` counts from the top digit down
        count = 1
        for j in range(k):
            count *= hi[j] - lo[j] + 1
        for step in range(count):
            rest, cell = step, index
            for j in range(k):
                width = hi[j] - lo[j] + 1
                cell += (rest % width) * strides[j]
                rest //= width
            for p in range(rivals):
                table[p, cell] = gain[m, p]
    return size


@kernel
def savings(
    table, size, k, parts, strides, rivals, sizes, features, own, weight, flat, factor, saved
):
    """Add `factor` times the expected range a split would save, for every cut of every feature of
    the tree."""
    whole = 0.0
    for p in range(rivals):
        a, b = np.inf, -np.inf
        for i in range(size):
            a, b = min(a, table[p, i]), max(b, table[p, i])
        whole += b - a
    most = 0
    for j in range(k):
        most = max(most, parts[j])
    up, down = np.zeros(most), np.zeros(most)
    least, greatest = np.empty(most), np.empty(most)
    for j in range(k):
        n = parts[j]
        for c in range(n):
            up[c], down[c] = 0.0, 0.0
        for p in range(rivals):
            for c in range(n):
                least[c], greatest[c] = np.inf, -np.inf
            for i in range(size):
                c = (i // strides[j]) % n
                v = table[p, i]
                if v < least[c]:
                    least[c] = v
                if v > greatest[c]:
                    greatest[c] = v
            a, b = np.inf, -np.inf
            for c in range(n):
                a, b = min(a, least[c]), max(b, greatest[c])
                up[c] += b - a
            a, b = np.inf, -np.inf
            for c in range(n - 1, -1, -1):
                a, b = min(a, least[c]), max(b, greatest[c])
                down[c] += b - a
        at = flat[features[j]]
        below = 0.0
        for c in range(sizes[features[j]] - 1):
            below += weight[at + c]
            saved[at + c] += factor * (
                whole - below * up[own[j, c]] - (1.0 - below) * down[own[j, c + 1]]
            )
    return whole


@kernel
def pull_apart(
    table,
    size,
    k,
    parts,
    strides,
    rivals,
    groups_of,
    n_groups,
    chance,
    sub,
    subsize,
    best_main,
    best_least,
    best_most,
    best_effect,
):
    """The cheapest split of a spanning tree into one-group functions; returns its expected gap.

    groups_of[j]: which of the tree's n_groups group feature j is in; chance[i]: mass of table
    entry i;
    sub[h, i]: entry i's cell within group h. Fills best_main[0] = g, best_least/most[p, cell of
    g], best_effect[p, h, cell].
    """
    share = np.zeros((n_groups, size))
    for i in range(size):
        for h in range(n_groups):
            share[h, sub[h, i]] += chance[i]
    lift = np.zeros(
        (n_groups, size), np.int64
    )  # table index of a group's cell with all others at 0
    for i in range(size):
        for h in range(n_groups):
            others = 0
            for g in range(n_groups):
                if g != h:
                    others += sub[g, i]
            if others == 0:
                lift[h, sub[h, i]] = i
    likely = np.zeros(n_groups, np.int64)
    for h in range(n_groups):
        for s in range(subsize[h]):
            if share[h, s] > share[h, likely[h]]:
                likely[h] = s
    effect = np.zeros((2, rivals, n_groups, size))  # means, slices
    for p in range(rivals):
        for i in range(size):
            for h in range(n_groups):
                effect[0, p, h, sub[h, i]] += chance[i] * table[p, i]
        for h in range(n_groups):
            corner = 0
            for g in range(n_groups):
                if g != h:
                    corner += lift[g, likely[g]]
            for s in range(subsize[h]):
                effect[0, p, h, s] = effect[0, p, h, s] / share[h, s] if share[h, s] > 0.0 else 0.0
                effect[1, p, h, s] = table[p, corner + lift[h, s]]
    best = np.inf
    least, most = np.empty(size), np.empty(size)
    for g in range(n_groups):
        for option in range(3):
            cost = 0.0
            for p in range(rivals):
                for s in range(subsize[g]):
                    least[s], most[s] = np.inf, -np.inf
                for i in range(size):
                    r = table[p, i]
                    if option > 0:
                        for h in range(n_groups):
                            if h != g:
                                r -= effect[option - 1, p, h, sub[h, i]]
                    s = sub[g, i]
                    if r < least[s]:
                        least[s] = r
                    if r > most[s]:
                        most[s] = r
                for s in range(subsize[g]):
                    cost += share[g, s] * (most[s] - least[s])
            if cost < best - 1e-12:
                best = cost
                best_main[0], best_main[1] = g, option
    g, option = best_main[0], best_main[1]
    for p in range(rivals):
        for s in range(subsize[g]):
            best_least[p, s], best_most[p, s] = np.inf, -np.inf
        for h in range(n_groups):
            for s in range(subsize[h]):
                best_effect[p, h, s] = effect[option - 1, p, h, s] if option > 0 else 0.0
        for i in range(size):
            r = table[p, i]
            if option > 0:
                for h in range(n_groups):
                    if h != g:
                        r -= effect[option - 1, p, h, sub[h, i]]
            s = sub[g, i]
            best_least[p, s], best_most[p, s] = min(best_least[p, s], r), max(best_most[p, s], r)
    return best
