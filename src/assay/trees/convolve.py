"""Bounds on P(every margin > 0) inside one box of cells, by convolution of independent groups of features.

Features that share trees are joined, most tightly tied first, into groups of at most `widest` joint cells. A
tree inside one group is tabulated exactly; a tree that spans groups goes to the group that moves it most,
with its least (greatest) value over the rest. So L(x) <= margin(x) <= U(x), and L and U are sums of independent
tables: their distributions are convolutions, rounded down for L and up for U. The largest group is not
convolved but enumerated, which ties the rivals together: per cell, low = 1 - sum_k (1 - P_k), high = min_k P_k.
With one group left the answer is exact.
"""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def grouped(nf, nc, nl, nr, gain, roots, n_roots, base, cell_start, mass, lo, hi, slack, widest, bins, largest_share):  # type: ignore[no-untyped-def]
    """(low, high, work) of the conditional probability in the box; (0, 1) where trees span too much."""
    rivals, features = base.shape[0], lo.shape[0]
    work = 0

    # 1. reachable nodes of every tree, which cuts they use, how far each tree can move
    room = 256
    node, parent, side = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int8)
    begin = np.empty(n_roots + 1, np.int64)
    count = 0
    used = np.zeros(mass.shape[0], np.bool_)
    moves = np.zeros(n_roots)
    least, most = np.empty(rivals), np.empty(rivals)
    for t in range(n_roots):
        begin[t] = count
        node, parent, side = _room(node, count + 1), _room(parent, count + 1), _room(side, count + 1)
        node[count], parent[count], side[count] = roots[t], -1, 0
        count += 1
        at = begin[t]
        least[:] = np.inf
        most[:] = -np.inf
        while at < count:
            k = node[at]
            while nf[k] >= 0:
                if hi[nf[k]] <= nc[k]:
                    k = nl[k]
                elif lo[nf[k]] > nc[k]:
                    k = nr[k]
                else:
                    break
            node[at] = k
            if nf[k] >= 0:
                used[cell_start[nf[k]] + nc[k]] = True
                if count + 2 > node.shape[0]:
                    node, parent, side = _room(node, count + 2), _room(parent, count + 2), _room(side, count + 2)
                node[count], parent[count], side[count] = nl[k], at, 0
                node[count + 1], parent[count + 1], side[count + 1] = nr[k], at, 1
                count += 2
            else:
                for p in range(rivals):
                    v = gain[k, p]
                    least[p], most[p] = min(least[p], v), max(most[p], v)
            at += 1
        for p in range(rivals):
            moves[t] += most[p] - least[p]
    begin[n_roots] = count
    work += count

    # 2. merge cells that nothing separates in this box
    short = np.zeros(mass.shape[0], np.int32)
    sizes = np.ones(features, np.int64)
    weight = np.zeros(mass.shape[0])
    name = np.full(features, -1, np.int64)
    active = 0
    for f in range(features):
        s, n, whole = cell_start[f], 0, 0.0
        for j in range(lo[f], hi[f] + 1):
            short[s + j] = n
            weight[s + n] += mass[s + j]
            whole += mass[s + j]
            if j < hi[f] and used[s + j]:
                n += 1
        for j in range(n + 1):
            weight[s + j] /= whole
        sizes[f] = n + 1
        if n > 0:
            name[f] = active
            active += 1
    if active == 0:
        return 0.0, 1.0, work
    members = np.empty(active, np.int64)
    for f in range(features):
        if name[f] >= 0:
            members[name[f]] = f

    # 3. features of each tree, with how much each splits; pairs tied by shared trees
    tied = np.zeros((active, active))
    stamp = np.full(active, -1, np.int64)
    tree_start = np.empty(n_roots + 1, np.int64)
    tree_features = np.empty(count, np.int64)
    n_listed = 0
    for t in range(n_roots):
        tree_start[t] = n_listed
        for i in range(begin[t], begin[t + 1]):
            k = node[i]
            if nf[k] >= 0:
                a = name[nf[k]]
                if stamp[a] != t:
                    stamp[a] = t
                    tree_features[n_listed] = a
                    n_listed += 1
        n = n_listed - tree_start[t]
        for i in range(tree_start[t], n_listed):
            for j in range(i + 1, n_listed):
                a, b = tree_features[i], tree_features[j]
                v = moves[t] / (n - 1)
                tied[min(a, b), max(a, b)] += v
    tree_start[n_roots] = n_listed

    # 4. groups
    group = np.arange(active)
    cells = np.empty(active, np.int64)
    for a in range(active):
        cells[a] = sizes[members[a]]
    pairs = 0
    for a in range(active):
        for b in range(a + 1, active):
            pairs += tied[a, b] > 0
    first, second, strength = np.empty(pairs, np.int64), np.empty(pairs, np.int64), np.empty(pairs)
    pairs = 0
    for a in range(active):
        for b in range(a + 1, active):
            if tied[a, b] > 0:
                first[pairs], second[pairs], strength[pairs] = a, b, -tied[a, b]
                pairs += 1
    order = np.argsort(strength)
    for i in range(pairs):
        a, b = group[first[order[i]]], group[second[order[i]]]
        if a != b and cells[a] * cells[b] <= widest:
            cells[a] *= cells[b]
            for c in range(active):
                if group[c] == b:
                    group[c] = a
    total, spanning = 0.0, 0.0
    for t in range(n_roots):
        total += moves[t]
        g = group[tree_features[tree_start[t]]]
        for i in range(tree_start[t] + 1, tree_start[t + 1]):
            if group[tree_features[i]] != g:
                spanning += moves[t]
                break
    work += pairs * 4
    if spanning > largest_share * total:
        return 0.0, 1.0, work

    # 5. tables: strides of a feature within its group
    table_start = np.full(active, -1, np.int64)
    stride = np.zeros(active, np.int64)
    offset, groups = 0, 0
    leaders = np.empty(active, np.int64)
    for g in range(active):
        if group[g] != g:
            continue
        leaders[groups] = g
        groups += 1
        table_start[g] = offset
        s = 1
        for a in range(active):
            if group[a] == g:
                stride[a] = s
                s *= sizes[members[a]]
        offset += s
    lower, upper = np.zeros((rivals, offset)), np.zeros((rivals, offset))
    chance = np.ones(offset)
    for i in range(groups):
        g = leaders[i]
        for a in range(active):
            if group[a] == g:
                size, s = sizes[members[a]], cell_start[members[a]]
                for cell in range(cells[g]):
                    chance[table_start[g] + cell] *= weight[s + (cell // stride[a]) % size]
    big = np.max(cells)
    some_least, some_most = np.empty((rivals, big)), np.empty((rivals, big))
    from_cell, to_cell, digit = np.empty(active, np.int64), np.empty(active, np.int64), np.empty(active, np.int64)
    inside = np.empty(active, np.int64)
    matter = np.zeros(active)
    for t in range(n_roots):
        g = group[tree_features[tree_start[t]]]
        one = True
        for i in range(tree_start[t], tree_start[t + 1]):
            one = one and group[tree_features[i]] == g
        if not one:
            # the group whose features split the tree nearest its root, where a split moves most
            for i in range(tree_start[t], tree_start[t + 1]):
                matter[group[tree_features[i]]] = 0.0
            for i in range(begin[t], begin[t + 1]):
                k = node[i]
                if nf[k] >= 0:
                    deep, up = 1.0, parent[i]
                    while up >= 0:
                        deep *= 0.5
                        up = parent[up]
                    matter[group[name[nf[k]]]] += deep
            for i in range(tree_start[t], tree_start[t + 1]):
                if matter[group[tree_features[i]]] > matter[g]:
                    g = group[tree_features[i]]
            some_least[:, : cells[g]] = np.inf
            some_most[:, : cells[g]] = -np.inf
        n = 0
        for i in range(tree_start[t], tree_start[t + 1]):
            if group[tree_features[i]] == g:
                inside[n] = tree_features[i]
                n += 1
        # features of the group that this tree does not use run free
        for a in range(active):
            if group[a] == g:
                known = False
                for i in range(n):
                    known = known or inside[i] == a
                if not known:
                    inside[n] = a
                    n += 1
        at = table_start[g]
        for i in range(begin[t], begin[t + 1]):
            k = node[i]
            if nf[k] >= 0:
                continue
            for j in range(n):
                from_cell[j], to_cell[j] = 0, sizes[members[inside[j]]] - 1
            child, above = i, parent[i]
            while above >= 0:
                split = node[above]
                a = name[nf[split]]
                if group[a] == g:
                    j = 0
                    while inside[j] != a:
                        j += 1
                    c = short[cell_start[nf[split]] + nc[split]]
                    if side[child] == 0:
                        to_cell[j] = min(to_cell[j], c)
                    else:
                        from_cell[j] = max(from_cell[j], c + 1)
                child, above = above, parent[above]
            index = 0
            empty = False
            for j in range(n):
                digit[j] = from_cell[j]
                index += from_cell[j] * stride[inside[j]]
                empty = empty or from_cell[j] > to_cell[j]
            if empty:
                continue
            running = True
            while running:
                work += 1
                if one:
                    for p in range(rivals):
                        lower[p, at + index] += gain[k, p]
                        upper[p, at + index] += gain[k, p]
                else:
                    for p in range(rivals):
                        v = gain[k, p]
                        some_least[p, index], some_most[p, index] = min(some_least[p, index], v), max(some_most[p, index], v)
                j = 0
                while True:
                    if j == n:
                        running = False
                        break
                    digit[j] += 1
                    index += stride[inside[j]]
                    if digit[j] <= to_cell[j]:
                        break
                    index -= (digit[j] - from_cell[j]) * stride[inside[j]]
                    digit[j] = from_cell[j]
                    j += 1
        if not one:
            for p in range(rivals):
                for c in range(cells[g]):
                    lower[p, at + c] += some_least[p, c]
                    upper[p, at + c] += some_most[p, c]

    # 6. convolve all but the largest group, then enumerate that one
    final = leaders[0]
    for i in range(groups):
        if cells[leaders[i]] > cells[final]:
            final = leaders[i]
    at, size = table_start[final], cells[final]
    low_all, high_all = np.ones(size), np.ones(size)
    one_cell = np.empty(size)
    for p in range(rivals):
        work += _tails(lower[p], chance, leaders[:groups], table_start, cells, final, base[p] - slack, bins, 0, one_cell)
        for c in range(size):
            low_all[c] -= 1.0 - one_cell[c]
        work += _tails(upper[p], chance, leaders[:groups], table_start, cells, final, base[p] + slack, bins, 1, one_cell)
        for c in range(size):
            high_all[c] = min(high_all[c], one_cell[c])
    low_sum, high_sum = 0.0, 0.0
    for c in range(size):
        low_sum += chance[at + c] * max(low_all[c], 0.0)
        high_sum += chance[at + c] * min(max(high_all[c], 0.0), 1.0)
    return min(low_sum, 1.0), min(high_sum, 1.0), work


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _tails(table, chance, leaders, table_start, cells, final, base, bins, up, out):  # type: ignore[no-untyped-def]
    """P(base + table[cell] + sum of the other groups > 0) per cell of `final`, rounded down (up=0) or up (up=1)."""
    work = 0
    least, span = base, 0.0
    for i in range(leaders.shape[0]):
        g = leaders[i]
        if g != final:
            a, b = np.inf, -np.inf
            for c in range(table_start[g], table_start[g] + cells[g]):
                a, b = min(a, table[c]), max(b, table[c])
            least += a
            span += b - a
    at, size = table_start[final], cells[final]
    if span <= 0.0:
        for c in range(size):
            out[c] = 1.0 if least + table[at + c] > 0.0 else 0.0
        return size
    step = span / bins
    length = 1
    sums, fresh = np.zeros(bins + leaders.shape[0] + 2), np.zeros(bins + leaders.shape[0] + 2)
    histogram = np.zeros(bins + 2)
    sums[0] = 1.0
    for i in range(leaders.shape[0]):
        g = leaders[i]
        if g == final:
            continue
        a, b = np.inf, -np.inf
        for c in range(table_start[g], table_start[g] + cells[g]):
            a, b = min(a, table[c]), max(b, table[c])
        width = min(int(np.ceil((b - a) / step)), bins) + 1
        histogram[:width] = 0.0
        for c in range(table_start[g], table_start[g] + cells[g]):
            # a hair of rounding in the wrong direction must not move an atom inwards
            k = int(np.ceil((table[c] - a) / step - 1e-13 * bins)) if up else int((table[c] - a) / step + 1e-13 * bins)
            histogram[min(max(k, 0), width - 1)] += chance[c]
        fresh[: length + width - 1] = 0.0
        for k in range(width):
            h = histogram[k]
            if h > 0.0:
                work += length
                for j in range(length):
                    fresh[k + j] += h * sums[j]
        length += width - 1
        sums, fresh = fresh, sums
    for j in range(length - 2, -1, -1):
        sums[j] += sums[j + 1]
    # the atoms' own rounding: up to 1e-13 bins of one step per group, taken off the base
    least += (1.0 if up else -1.0) * 1e-12 * span * leaders.shape[0]
    for c in range(size):
        need = -(least + table[at + c])  # the sum must exceed this
        if need < 0.0:
            out[c] = 1.0
        else:
            j = int(need / step) + 1  # first atom above
            if up and (j - 1) * step > need:
                j -= 1
            out[c] = sums[j] if j < length else 0.0
    return work // 4 + size


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _room(a, n):  # type: ignore[no-untyped-def]
    if n <= a.shape[0]:
        return a
    out = np.empty(max(n, 2 * a.shape[0]), a.dtype)
    out[: a.shape[0]] = a
    return out
