"""P(sum of independent tables > 0), rounded to the safe side.

All groups but the largest are convolved on a grid of `bins` steps, atoms rounded down for a lower
bound and up for an upper one; the largest is left open, one answer per cell of it.
"""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from assay.kernel import kernel


@kernel
def tails(table, chance, leaders, table_start, cells, final, base, bins, up, out):
    """P(base + table[cell] + sum of the other groups > 0) per cell of `final`, rounded down (up=0)
    or up (up=1)."""
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
        for k in range(width):
            histogram[k] = 0.0
        for c in range(table_start[g], table_start[g] + cells[g]):
            # a hair of rounding in the wrong direction must not move an atom inwards
            k = (
                int(np.ceil((table[c] - a) / step - 1e-13 * bins))
                if up
                else int((table[c] - a) / step + 1e-13 * bins)
            )
            histogram[min(max(k, 0), width - 1)] += chance[c]
        for j in range(length + width - 1):
            fresh[j] = 0.0
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
