"""One box of cells: settle it, or bound P(every margin > 0) inside it and say where to split it
next.

Trees that cannot move in the box are folded into its margins. If the worst (best) case of the
others leaves no doubt, the box is settled. Otherwise features that share trees are joined, most
tightly tied first, into groups of at most `widest` joint cells. A tree inside one group is
tabulated exactly; a tree that spans groups is pulled apart (tables.py). So L(x) <= margin(x) <=
U(x), both sums of independent tables, whose distributions are convolutions, rounded down for L and
up for U. The largest group is not convolved but enumerated, which ties the rivals together: per
cell, low = 1 - sum_k (1 - P_k), high = min_k P_k. With one group left the answer is exact.

What a reader would get wrong: a tree inside a group costs nothing, however wide its range. The
next split is the one that saves most expected range of the trees that *span* groups."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernel import kernel
from assay.trees.groups import join, merge, shared
from assay.trees.tables import own_table, pull_apart, savings
from assay.trees.tails import tails

# largest table of one tree; beyond, a tree counts with its whole range until the box is smaller
TABLE = 1024


@kernel
def examine(
    nf, nc, nl, nr, gain, alive, n_alive, margin, cell_start, mass, lo, hi, slack, widest, bins, out
):
    """State of the box: 1 yes, 0 no, 3 one undecided cell, 2 open.

    Folds constant trees into `margin` in place.

    out: low, high, split feature, split cut, trees left, work.
    """
    rivals = margin.shape[0]

    # 1. reachable nodes of every tree, which cuts they use, how far each tree can move
    room = 512
    node, parent, side = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int8)
    begin = np.empty(n_alive + 1, np.int64)
    count, trees = 0, 0
    used = np.zeros(mass.shape[0], np.bool_)
    moves = np.zeros(n_alive)
    least, most = np.empty(rivals), np.empty(rivals)
    worst, best = margin.copy(), margin.copy()
    for t in range(n_alive):
        k = _settle(alive[t], nf, nc, nl, nr, lo, hi)
        if nf[k] < 0:
            for p in range(rivals):
                margin[p] += gain[k, p]
                worst[p] += gain[k, p]
                best[p] += gain[k, p]
            continue
        alive[trees] = k
        begin[trees] = count
        if count + 1 > node.shape[0]:
            node, parent, side = (
                _room(node, count + 1),
                _room(parent, count + 1),
                _room(side, count + 1),
            )
        node[count], parent[count], side[count] = k, -1, 0
        at = count
        count += 1
        for p in range(rivals):
            least[p], most[p] = np.inf, -np.inf
        while at < count:
            k = _settle(node[at], nf, nc, nl, nr, lo, hi)
            node[at] = k
            if nf[k] >= 0:
                used[cell_start[nf[k]] + nc[k]] = True
                if count + 2 > node.shape[0]:
                    node, parent, side = (
                        _room(node, count + 2),
                        _room(parent, count + 2),
                        _room(side, count + 2),
                    )
                node[count], parent[count], side[count] = nl[k], at, 0
                node[count + 1], parent[count + 1], side[count + 1] = nr[k], at, 1
                count += 2
            else:
                for p in range(rivals):
                    v = gain[k, p]
                    least[p], most[p] = min(least[p], v), max(most[p], v)
            at += 1
        for p in range(rivals):
            moves[trees] += most[p] - least[p]
            worst[p] += least[p]
            best[p] += most[p]
        trees += 1
    begin[trees] = count
    out[4], out[5] = trees, count + n_alive
    certain = True
    for p in range(rivals):
        if best[p] < -slack:
            return 0
        certain = certain and worst[p] > slack
    if certain:
        return 1
    if trees == 0:
        return 3

    # 2. cells that nothing separates here are one; features that share trees are joined
    short, name, members, sizes, flat, weight, cut_at = merge(cell_start, mass, lo, hi, used)
    active = members.shape[0]
    widest_feature = 1
    for a in range(active):
        widest_feature = max(widest_feature, sizes[a])
    tree_start, tree_features, tied = shared(nf, node, begin, trees, name, active, moves)
    group, cells = join(tied, sizes, widest)

    # 3. tables per group: feature strides, chances
    table_start, stride = np.full(active, -1, np.int64), np.zeros(active, np.int64)
    offset = 0
    for g in range(active):
        if group[g] == g:
            table_start[g] = offset
            s = 1
            for a in range(active):
                if group[a] == g:
                    stride[a] = s
                    s *= sizes[a]
            offset += s
    lower, upper = np.zeros((rivals, offset)), np.zeros((rivals, offset))
    chance = np.ones(offset)
    for a in range(active):
        g = group[a]
        for cell in range(cells[g]):
            chance[table_start[g] + cell] *= weight[flat[a] + (cell // stride[a]) % sizes[a]]

    # 4. every tree into its tables
    table = np.zeros((rivals, TABLE))
    own = np.zeros((active, widest_feature), np.int64)
    parts, strides, place = (
        np.empty(active, np.int64),
        np.empty(active, np.int64),
        np.empty(active, np.int64),
    )
    low_cell, high_cell = np.empty(active, np.int64), np.empty(active, np.int64)
    saved = np.zeros(flat[active])
    sub, entry_chance = np.zeros((active, TABLE), np.int64), np.empty(TABLE)
    subsize, leader, substride = (
        np.empty(active, np.int64),
        np.empty(active, np.int64),
        np.empty(active, np.int64),
    )
    main = np.zeros(2, np.int64)
    piece_least, piece_most, piece = (
        np.empty((rivals, TABLE)),
        np.empty((rivals, TABLE)),
        np.empty((rivals, active, TABLE)),
    )
    base_low, base_high = margin.copy(), margin.copy()
    gap, fallback, fallback_tree = 0.0, 0.0, -1
    for t in range(trees):
        a0, k = tree_start[t], tree_start[t + 1] - tree_start[t]
        mine = tree_features[a0 : a0 + k]
        size = own_table(
            nf,
            nc,
            gain,
            node,
            parent,
            side,
            begin[t],
            begin[t + 1],
            name,
            short,
            cell_start,
            sizes,
            mine,
            k,
            own,
            parts,
            strides,
            table,
            low_cell,
            high_cell,
        )
        out[5] += 4 * size
        if size == 0:
            gap += moves[t]
            if moves[t] > fallback:
                fallback, fallback_tree = moves[t], t
            for p in range(rivals):
                x0, x1 = np.inf, -np.inf
                for i in range(begin[t], begin[t + 1]):
                    if nf[node[i]] < 0:
                        x0, x1 = min(x0, gain[node[i], p]), max(x1, gain[node[i], p])
                base_low[p] += x0
                base_high[p] += x1
            continue
        n_groups = 0
        for j in range(k):
            h = 0
            while h < n_groups and leader[h] != group[mine[j]]:
                h += 1
            if h == n_groups:
                leader[h] = group[mine[j]]
                subsize[h] = 1
                n_groups += 1
            place[j] = h
            substride[j] = subsize[h]
            subsize[h] *= parts[j]
        cost = 0.0
        if n_groups > 1:
            for i in range(size):
                q = 1.0
                for h in range(n_groups):
                    sub[h, i] = 0
                for j in range(k):
                    c = (i // strides[j]) % parts[j]
                    sub[place[j], i] += c * substride[j]
                    entry = 0.0
                    for cell in range(sizes[mine[j]]):
                        if own[j, cell] == c:
                            entry += weight[flat[mine[j]] + cell]
                    q *= entry
                entry_chance[i] = q
            cost = pull_apart(
                table,
                size,
                k,
                parts,
                strides,
                rivals,
                place,
                n_groups,
                entry_chance,
                sub,
                subsize,
                main,
                piece_least,
                piece_most,
                piece,
            )
            out[5] += 12 * size * n_groups * rivals
        factor = (cost / moves[t] if moves[t] > 0.0 else 0.0) + 0.02
        savings(
            table, size, k, parts, strides, rivals, sizes, mine, own, weight, flat, factor, saved
        )
        gap += cost
        for h in range(n_groups):
            g = leader[h]
            at = table_start[g]
            out[5] += cells[g] * rivals
            for cell in range(cells[g]):
                s = 0
                for j in range(k):
                    if place[j] == h:
                        a = mine[j]
                        s += own[j, (cell // stride[a]) % sizes[a]] * (
                            substride[j] if n_groups > 1 else strides[j]
                        )
                if n_groups == 1:
                    for p in range(rivals):
                        lower[p, at + cell] += table[p, s]
                        upper[p, at + cell] += table[p, s]
                elif h == main[0]:
                    for p in range(rivals):
                        lower[p, at + cell] += piece_least[p, s]
                        upper[p, at + cell] += piece_most[p, s]
                else:
                    for p in range(rivals):
                        lower[p, at + cell] += piece[p, h, s]
                        upper[p, at + cell] += piece[p, h, s]

    # 5. convolve all but the largest group, then enumerate that one
    leaders, groups, final = np.empty(active, np.int64), 0, -1
    for g in range(active):
        if group[g] == g:
            leaders[groups] = g
            groups += 1
            if final < 0 or cells[g] > cells[final]:
                final = g
    at, size = table_start[final], cells[final]
    low_all, high_all, one_cell = np.ones(size), np.ones(size), np.empty(size)
    for p in range(rivals):
        out[5] += tails(
            lower[p],
            chance,
            leaders[:groups],
            table_start,
            cells,
            final,
            base_low[p] - slack,
            bins,
            0,
            one_cell,
        )
        for c in range(size):
            low_all[c] -= 1.0 - one_cell[c]
        out[5] += tails(
            upper[p],
            chance,
            leaders[:groups],
            table_start,
            cells,
            final,
            base_high[p] + slack,
            bins,
            1,
            one_cell,
        )
        for c in range(size):
            high_all[c] = min(high_all[c], one_cell[c])
    low, high = 0.0, 0.0
    for c in range(size):
        low += chance[at + c] * max(low_all[c], 0.0)
        high += chance[at + c] * min(max(high_all[c], 0.0), 1.0)
    out[0], out[1] = min(low, 1.0), min(max(high, low), 1.0)

    # 6. where to split
    if fallback_tree >= 0:  # the widest tree that no table could hold, at its root
        k = node[begin[fallback_tree]]
        out[2], out[3] = nf[k], nc[k]
        return 2
    top = -1.0
    for a in range(active):
        for c in range(flat[a], flat[a + 1] - 1):
            if saved[c] > top:
                top = saved[c]
                out[2], out[3] = members[a], cut_at[c]
    return 2


@kernel
def _settle(k, nf, nc, nl, nr, lo, hi):
    """Follow tests that the box decides."""
    while nf[k] >= 0:
        if hi[nf[k]] <= nc[k]:
            k = nl[k]
        elif lo[nf[k]] > nc[k]:
            k = nr[k]
        else:
            break
    return k


@kernel
def _room(a, n):
    if n <= a.shape[0]:
        return a
    out = np.empty(max(n, 2 * a.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        out[i] = a[i]
    return out
