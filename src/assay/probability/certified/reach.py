"""Which nodes of every tree a box reaches, and whether the worst or the best case settles it.

What a reader would get wrong: scores near zero belong to the library's own rounding. Sums of
float64 leaves that are short binary fractions (votes of pure leaves) are exact, so their ties are
decided by the tie rule; any other leaf widens the doubt by `rough`. Sums in float32 round after
each tree, by at most half a unit of the partial sum: known per box, and far smaller than over the
whole model.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel


@kernel
def reachable(
    nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, lo, hi, used, moves
):
    """(state, slack, margin of the settled trees, nodes, parents, sides, starts, open trees)."""
    rivals = base.shape[0]
    room = 512
    node, parent, side = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int8)
    begin = np.empty(roots.shape[0] + 1, np.int64)
    count, trees = 0, 0
    least, most = np.empty(rivals), np.empty(rivals)
    margin, worst, best = base.copy(), base.copy(), base.copy()
    rounding = 0.0
    for t in range(roots.shape[0]):
        k = settle(roots[t], nf, nc, nl, nr, lo, hi)
        if nf[k] < 0:
            for p in range(rivals):
                margin[p] += gain[k, p]
                worst[p] += gain[k, p]
                best[p] += gain[k, p]
            slack += rough[k]
        else:
            begin[trees] = count
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
                k = settle(node[at], nf, nc, nl, nr, lo, hi)
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
                        least[p] = min(least[p], gain[k, p] - rough[k])
                        most[p] = max(most[p], gain[k, p] + rough[k])
                at += 1
            for p in range(rivals):
                moves[trees] += most[p] - least[p]
                worst[p] += least[p]
                best[p] += most[p]
            trees += 1
        rounding += max(abs(worst[0]), abs(best[0]))
    begin[trees] = count
    slack += unit * rounding
    certain = True
    state = 2
    for p in range(rivals):
        if best[p] + tie[p] + slack < 0.0:
            state = 0
        certain = certain and worst[p] + tie[p] - slack > 0.0
    if state == 2 and certain:
        state = 1
    elif state == 2 and trees == 0:
        state = 3
    return state, slack, margin, node, parent, side, begin, trees


@kernel
def settle(k, nf, nc, nl, nr, lo, hi):
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
