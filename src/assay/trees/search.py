"""Best-first branch and bound over boxes of cells: certified bounds on P(every margin > 0) for one record.

A box is a range of cells per feature. Trees that cannot move in it are folded into its margins; if the worst
(best) case of the rest leaves no doubt, the box is settled. Otherwise its probability is bounded by
`convolve.grouped`, and the box with the largest gap (mass times width) is split next, at the cut that takes
most off the expected range of the trees: for a tree with root test (f, c) and ranges r, r_left, r_right, a
split of f at c' <= c saves P(left) (r - r_left), at c' >= c it saves P(right) (r - r_right), so the savings of
all cuts are two running sums.

What a reader would get wrong: the budget is *work* (nodes and table entries touched), not seconds, so that the
same call gives the same bounds on any machine.
"""

import numba
import numpy as np

from assay.trees.convolve import grouped


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def search(nf, nc, nl, nr, gain, roots, base, cell_start, mass, slack, tolerance, budget, widest, bins, share):  # type: ignore[no-untyped-def]
    """(low, high, work, undecided boxes of one cell as (cells, masses)): conditional on the kept mass."""
    features, rivals, trees = cell_start.shape[0] - 1, base.shape[0], roots.shape[0]
    room = 64
    box = np.empty((room, 2, features), np.int16)
    alive = np.empty((room, trees), np.int32)
    n_alive = np.empty(room, np.int64)
    margin = np.empty((room, rivals))
    weight, low, high = np.empty(room), np.empty(room), np.empty(room)
    split_f, split_c = np.empty(room, np.int64), np.empty(room, np.int64)
    heap = np.empty(room, np.int64)
    spare = np.empty(room, np.int64)
    n_heap, n_spare, n_slots = 0, 0, 1
    cells_out = np.empty((16, features), np.int16)
    mass_out = np.empty(16)
    n_out = 0

    for f in range(features):
        box[0, 0, f], box[0, 1, f] = 0, cell_start[f + 1] - cell_start[f] - 1
    alive[0, :] = roots
    n_alive[0] = trees
    margin[0, :] = base
    weight[0] = 1.0
    rise, fall = np.zeros(mass.shape[0]), np.zeros(mass.shape[0])
    scratch = np.empty((2, 2, rivals))
    stack = np.empty(nf.shape[0] + 1, np.int32)
    work = 0
    sure_low, sure_high = 0.0, 0.0  # settled mass; sure_high counts undecided single cells too
    open_low, open_high = 0.0, 0.0
    best_low, best_high = 0.0, 1.0

    pending = np.empty(2, np.int64)
    pending[0] = 0
    n_pending = 1
    while True:
        for i in range(n_pending):
            s = pending[i]
            state, cost = _look(nf, nc, nl, nr, gain, alive[s], n_alive, s, margin[s], cell_start, mass, box[s, 0], box[s, 1],
                                slack, rise, fall, scratch, stack, split_f, split_c)
            work += cost
            if state == 2:
                l, h, cost = grouped(nf, nc, nl, nr, gain, alive[s], n_alive[s], margin[s], cell_start, mass,
                                     box[s, 0], box[s, 1], slack, widest, bins, share)
                work += cost
                low[s], high[s] = weight[s] * l, weight[s] * max(h, l)
                if high[s] - low[s] <= 1e-16:
                    state = 4
                else:
                    open_low += low[s]
                    open_high += high[s]
                    k = n_heap
                    n_heap += 1
                    gap = high[s] - low[s]
                    while k > 0:
                        up = (k - 1) // 2
                        if high[heap[up]] - low[heap[up]] >= gap:
                            break
                        heap[k] = heap[up]
                        k = up
                    heap[k] = s
            if state != 2:
                if state == 1:
                    sure_low += weight[s]
                    sure_high += weight[s]
                elif state == 4:
                    sure_low += low[s]
                    sure_high += high[s]
                elif state == 3:  # one cell within rounding of a tie: the model itself decides, later
                    if n_out == mass_out.shape[0]:
                        bigger, longer = np.empty((2 * n_out, features), np.int16), np.empty(2 * n_out)
                        bigger[:n_out], longer[:n_out] = cells_out, mass_out
                        cells_out, mass_out = bigger, longer
                    cells_out[n_out] = box[s, 0]
                    mass_out[n_out] = weight[s]
                    n_out += 1
                spare[n_spare] = s
                n_spare += 1
        ties = 0.0
        for i in range(n_out):
            ties += mass_out[i]
        best_low = max(best_low, sure_low + open_low)
        best_high = min(best_high, sure_high + open_high + ties)
        if n_heap == 0 or open_high - open_low <= tolerance or best_high - best_low - ties <= tolerance or work >= budget:
            break

        # take the widest box
        s = heap[0]
        n_heap -= 1
        if n_heap > 0:
            last = heap[n_heap]
            gap = high[last] - low[last]
            k = 0
            while True:
                child = 2 * k + 1
                if child >= n_heap:
                    break
                if child + 1 < n_heap and high[heap[child + 1]] - low[heap[child + 1]] > high[heap[child]] - low[heap[child]]:
                    child += 1
                if high[heap[child]] - low[heap[child]] <= gap:
                    break
                heap[k] = heap[child]
                k = child
            heap[k] = last
        open_low -= low[s]
        open_high -= high[s]
        if n_spare == 0:
            if n_slots == room:
                room *= 2
                if room * (features * 4 + trees * 4 + 64) > 1_000_000_000:
                    open_low += low[s]
                    open_high += high[s]
                    break
                box, alive, margin = _rows3(box, room), _rows2(alive, room), _rows2(margin, room)
                n_alive, weight, low, high = _rows1(n_alive, room), _rows1(weight, room), _rows1(low, room), _rows1(high, room)
                split_f, split_c, heap, spare = _rows1(split_f, room), _rows1(split_c, room), _rows1(heap, room), _rows1(spare, room)
            spare[0] = n_slots
            n_spare = 1
            n_slots += 1
        n_spare -= 1
        r = spare[n_spare]
        f, c = split_f[s], split_c[s]
        box[r], alive[r], margin[r], n_alive[r] = box[s], alive[s], margin[s], n_alive[s]
        left_mass, whole = 0.0, 0.0
        for j in range(box[s, 0, f], box[s, 1, f] + 1):
            m = mass[cell_start[f] + j]
            whole += m
            if j <= c:
                left_mass += m
        weight[r] = weight[s] * ((whole - left_mass) / whole)
        weight[s] = weight[s] * (left_mass / whole)
        box[r, 0, f] = c + 1
        box[s, 1, f] = c
        pending[0], pending[1] = s, r
        n_pending = 2
    return best_low, best_high, work, cells_out[:n_out].copy(), mass_out[:n_out].copy()


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _look(nf, nc, nl, nr, gain, alive, n_alive, s, margin, cell_start, mass, lo, hi, slack, rise, fall, span, stack, split_f, split_c):  # type: ignore[no-untyped-def]
    """Fold what is constant, try to settle: 1 yes, 0 no, 3 a single undecided cell, 2 open (with its split)."""
    rivals, features = margin.shape[0], lo.shape[0]
    for f in range(features):
        for j in range(cell_start[f] + lo[f], cell_start[f] + hi[f] + 1):
            rise[j] = 0.0
            fall[j] = 0.0
    least, most = np.zeros(rivals), np.zeros(rivals)
    n, cost = 0, 0
    for t in range(n_alive[s]):
        k = alive[t]
        while nf[k] >= 0:
            if hi[nf[k]] <= nc[k]:
                k = nl[k]
            elif lo[nf[k]] > nc[k]:
                k = nr[k]
            else:
                break
        if nf[k] < 0:
            for p in range(rivals):
                margin[p] += gain[k, p]
            continue
        alive[n] = k
        n += 1
        whole, left, right = 0.0, 0.0, 0.0
        for which in range(2):
            for p in range(rivals):
                span[which, 0, p], span[which, 1, p] = np.inf, -np.inf
            top = 1
            stack[0] = nl[k] if which == 0 else nr[k]
            while top > 0:
                top -= 1
                cost += 1
                m = stack[top]
                while nf[m] >= 0:
                    if hi[nf[m]] <= nc[m]:
                        m = nl[m]
                    elif lo[nf[m]] > nc[m]:
                        m = nr[m]
                    else:
                        break
                if nf[m] < 0:
                    for p in range(rivals):
                        v = gain[m, p]
                        span[which, 0, p] = min(span[which, 0, p], v)
                        span[which, 1, p] = max(span[which, 1, p], v)
                else:
                    stack[top] = nl[m]
                    stack[top + 1] = nr[m]
                    top += 2
        for p in range(rivals):
            a, b = min(span[0, 0, p], span[1, 0, p]), max(span[0, 1, p], span[1, 1, p])
            least[p] += a
            most[p] += b
            whole += b - a
            left += span[0, 1, p] - span[0, 0, p]
            right += span[1, 1, p] - span[1, 0, p]
        at = cell_start[nf[k]] + nc[k]
        rise[at] += whole - left
        fall[at] += whole - right
    n_alive[s] = n
    certain, possible = True, True
    for p in range(rivals):
        if not margin[p] + least[p] > slack:
            certain = False
        if margin[p] + most[p] < -slack:
            possible = False
    if not possible:
        return 0, cost
    if certain:
        return 1, cost
    if n == 0:
        return 3, cost
    best = -1.0
    for f in range(features):
        s0, whole = cell_start[f], 0.0
        if lo[f] == hi[f]:
            continue
        for j in range(lo[f], hi[f] + 1):
            whole += mass[s0 + j]
        ahead = 0.0
        for j in range(lo[f], hi[f]):
            ahead += rise[s0 + j]
        behind, below = 0.0, 0.0
        for j in range(lo[f], hi[f]):
            below += mass[s0 + j]
            behind += fall[s0 + j]
            saved = below / whole * ahead + (1.0 - below / whole) * behind
            ahead -= rise[s0 + j]
            if saved > best and (rise[s0 + j] > 0.0 or fall[s0 + j] > 0.0):
                best = saved
                split_f[s], split_c[s] = f, j
    return 2, cost


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rows1(a, room):  # type: ignore[no-untyped-def]
    out = np.empty(room, a.dtype)
    out[: a.shape[0]] = a
    return out


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rows2(a, room):  # type: ignore[no-untyped-def]
    out = np.empty((room, a.shape[1]), a.dtype)
    out[: a.shape[0]] = a
    return out


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rows3(a, room):  # type: ignore[no-untyped-def]
    out = np.empty((room, a.shape[1], a.shape[2]), a.dtype)
    out[: a.shape[0]] = a
    return out
