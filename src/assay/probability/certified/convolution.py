"""P(sum of independent tables > 0), rounded to the safe side.

All groups but the largest are convolved, and the largest is left open: one answer per cell of it.
Few joint cells are listed exactly; many are put on a grid, atoms rounded down for a lower bound and
up for an upper one. Only sums that the largest group can still bring across zero need their own
step of the grid: what lies above them is one step.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel

FEW = 8  # cells of a group that are looked up one by one, not convolved
EXACT = 512  # joint cells that are listed, not rounded


@kernel
def tails(table, chance, leaders, table_start, cells, final, base, step, bins, up, out):
    """P(base + table[cell] + sum of the other groups > 0) per cell of `final`, rounded down (up=0)
    or up (up=1); returns the work.

    `step`: the grid wanted, coarsened where it takes more than `bins`.
    """
    groups = leaders.shape[0]
    leaders = leaders[np.argsort(-cells[leaders])]  # few atoms last, when sums are long
    least, span, joint = base, 0.0, 1
    reach = np.empty((groups, 2))
    for i in range(groups):
        g = leaders[i]
        if g != final:
            a, b = np.inf, -np.inf
            for c in range(table_start[g], table_start[g] + cells[g]):
                a, b = min(a, table[c]), max(b, table[c])
            reach[i, 0], reach[i, 1] = a, b - a
            least += a
            span += b - a
            joint = min(joint * cells[g], EXACT + 1)
    at, size = table_start[final], cells[final]
    lowest, highest = np.inf, -np.inf
    for c in range(size):
        need = -(least + table[at + c])  # the sum must exceed this
        out[c] = 1.0 if need < 0.0 else 0.0
        if 0.0 <= need < span:
            lowest, highest = min(lowest, need), max(highest, need)
    if highest < 0.0:
        return size
    if joint <= EXACT:
        return size + _listed(
            table, chance, leaders, table_start, cells, final, reach, joint, at, size, least, out
        )

    step = max(step, span / bins)
    hair = 1e-13 * span / step  # of rounding in the wrong direction must not move an atom inwards
    top = int(highest / step) + 2  # everything above is one step
    sums, fresh = np.zeros(top + 1), np.zeros(top + 1)
    histogram = np.zeros(bins + 2)
    sums[0] = 1.0
    length, work, left = 1, 0, span
    small = groups - 1 if leaders[groups - 1] != final else groups - 2
    looked_up = cells[leaders[small]] <= FEW
    for i in range(small if looked_up else groups):
        g = leaders[i]
        if g == final:
            continue
        a = reach[i, 0]
        left -= reach[i, 1]
        width = min(int(np.ceil(reach[i, 1] / step)), bins) + 1
        for k in range(width):
            histogram[k] = 0.0
        for c in range(table_start[g], table_start[g] + cells[g]):
            u = (table[c] - a) / step
            k = int(np.ceil(u - hair)) if up else int(u + hair)
            histogram[min(max(k, 0), width - 1)] += chance[c]
        grown = min(length + width - 1, top + 1)
        for j in range(grown):
            fresh[j] = 0.0
        # what the groups to come cannot lift to `lowest` is lost already
        first = max(int((lowest - left - reach[i, 1]) / step) - groups - 2, 0)
        for k in range(width):
            h = histogram[k]
            if h > 0.0:
                end = min(length, top - k)
                if end > first:
                    _add(fresh[k + first : k + end], sums[first:end], h)
                    work += end - first
                over = 0.0
                for j in range(max(end, first), length):
                    over += sums[j]
                fresh[grown - 1] += h * over if end < length else 0.0
        length = grown
        sums, fresh = fresh, sums
    for j in range(length - 2, -1, -1):
        sums[j] += sums[j + 1]
    # the atoms' own rounding: up to a hair of a step per group, taken off the base
    guard = (1.0 if up else -1.0) * 1e-12 * span * groups
    few = table_start[leaders[small]]
    many = cells[leaders[small]] if looked_up else 1
    rest = span - reach[small, 1] if looked_up else span
    for c in range(size):
        need = -(least + guard + table[at + c])
        if 0.0 <= need < span:
            p = 0.0
            for k in range(few, few + many):
                short = need - (table[k] - reach[small, 0]) if looked_up else need
                weight = chance[k] if looked_up else 1.0
                if short < 0.0:
                    p += weight
                elif short < rest:
                    j = int(short / step) + 1  # first atom above
                    if up and (j - 1) * step > short:
                        j -= 1
                    p += weight * sums[j] if j < length else 0.0
            out[c] = p
        else:
            out[c] = 1.0 if need < 0.0 else 0.0
    return work // 8 + 4 * size * many


@kernel
def _add(fresh, sums, h):
    for j in range(sums.shape[0]):
        fresh[j] += h * sums[j]


@kernel
def _listed(table, chance, leaders, table_start, cells, final, reach, joint, at, size, least, out):
    value, mass = np.zeros(joint), np.zeros(joint)
    mass[0] = 1.0
    n = 1
    for i in range(leaders.shape[0]):
        g = leaders[i]
        if g == final:
            continue
        for c in range(cells[g] - 1, -1, -1):  # the first block is overwritten last
            add, q = table[table_start[g] + c] - reach[i, 0], chance[table_start[g] + c]
            for j in range(n):
                value[c * n + j] = value[j] + add
                mass[c * n + j] = mass[j] * q
        n *= cells[g]
    order = np.argsort(value)
    value, mass = value[order], mass[order]
    for j in range(joint - 2, -1, -1):
        mass[j] += mass[j + 1]
    for c in range(size):
        need = -(least + table[at + c])
        if need >= 0.0:
            j = np.searchsorted(value, need, side="right")
            out[c] = mass[j] if j < joint else 0.0
    return 16 * joint
