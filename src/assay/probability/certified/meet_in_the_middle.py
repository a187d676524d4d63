"""A box whose features fall apart once a few of them are fixed: met in the middle, exactly.

In a small box most trees are stumps, so few features are tied. Fix some of them (the middle), and
the others fall into two halves that no tree joins. For each cell of the middle the margin is a sum
of two independent tables: one is sorted, and every cell of the other looks up how much of it is
large enough. That takes middle x (half + half) steps for middle x half x half joint cells.

What a reader would get wrong: this is for one rival only, for two inequalities cannot both be
sorted. Pairs within rounding of zero are not named, only their mass is known; the box stays open
by that much.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import numpy as np

from assay.kernels.compile import kernel
from assay.probability.certified.grouping import merge
from assay.probability.certified.joint_margins import chances, doubtful, fill
from assay.probability.certified.reach import reachable

MOST = 62  # features: sets of them are bits of an integer


@kernel
def resolve(
    nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, mass, lo, hi, most, out,
):  # fmt: skip
    """True if the box takes at most `most` steps: out[0], out[1] are its bounds then, apart only by
    rounding. out[2], out[3]: where to split it; out[4]: work."""
    used, moves = np.zeros(mass.shape[0], np.bool_), np.zeros(roots.shape[0])
    _, slack, margin, node, parent, side, begin, trees = reachable(
        nf, nc, nl, nr, gain, rough, roots, base, tie, slack, unit, cell_start, lo, hi, used, moves
    )
    short, name, members, sizes, flat, weight, _, cut_at = merge(cell_start, mass, lo, hi, used)
    active = members.shape[0]
    out[4] = 50 * begin[trees] + 120 * roots.shape[0]
    if active > MOST:
        return False
    own, tied = _ties(nf, node, begin, trees, name, active)
    middle, one, two, steps = _apart(tied, sizes, most)
    out[4] += 100 * active * active
    if steps > most:
        return False
    out[4] += 2 * _meet(
        nf, nc, gain, rough, node, parent, side, begin, trees, own, name, short, cell_start, sizes,
        flat, weight, margin[0] + tie[0], slack, middle, one, two, out,
    )  # fmt: skip
    a = np.argmax(sizes)
    out[2], out[3] = members[a], cut_at[flat[a] + (sizes[a] - 1) // 2]
    return True


@kernel
def _ties(nf, node, begin, trees, name, active):
    """(the features of each tree, the features that each feature is tied to), as bits."""
    own, tied = np.zeros(trees, np.int64), np.zeros(active, np.int64)
    for t in range(trees):
        for i in range(begin[t], begin[t + 1]):
            if nf[node[i]] >= 0:
                own[t] |= 1 << name[nf[node[i]]]
        for a in range(active):
            if own[t] >> a & 1:
                tied[a] |= own[t]
    return own, tied


@kernel
def _apart(tied, sizes, most):
    """(middle, one half, the other half, steps): the cheapest middle of a greedy search, as bits.

    steps: `most` + 1 if more.
    """
    active = sizes.shape[0]
    length = np.log(sizes)
    part, size = np.empty(active, np.int64), np.empty(active)  # room
    middle, inside = 0, 0.0  # features, log cells
    one, two, least = _halves(tied, length, 0, part, size)
    best = (0, one, two, least)
    limit = np.log(most)
    while True:
        chosen, cheapest = -1, np.inf
        for f in range(active):
            if not middle >> f & 1:
                one, two, steps = _halves(tied, length, middle | 1 << f, part, size)
                steps += inside + length[f]
                if steps < cheapest:
                    chosen, cheapest = f, steps
                if steps < best[3]:
                    best = (middle | 1 << f, one, two, steps)
        if chosen < 0 or inside + length[chosen] > min(limit, best[3]):
            break
        middle |= 1 << chosen
        inside += length[chosen]
    return best[0], best[1], best[2], np.exp(best[3]) if best[3] <= limit else most + 1.0


@kernel
def _halves(tied, length, middle, part, size):
    """Parts that no tree joins outside the middle, put into two halves of like size; log steps."""
    active = length.shape[0]
    parts = 0
    left = (1 << active) - 1 & ~middle
    while left:
        new = left & -left
        group, n = 0, 0.0
        while new:
            group |= new
            reached = 0
            for f in range(active):
                if new >> f & 1:
                    reached |= tied[f]
                    n += length[f]
            new = reached & left & ~group
        left &= ~group
        part[parts], size[parts] = group, n
        parts += 1
    one, two, a, b = 0, 0, 0.0, 0.0
    for _ in range(parts):
        i = 0
        for j in range(1, parts):
            if size[j] > size[i]:
                i = j
        if a <= b:
            one |= part[i]
            a += size[i]
        else:
            two |= part[i]
            b += size[i]
        size[i] = -1.0
    return one, two, max(a, b) + np.log1p(np.exp(-abs(a - b)))


@kernel
def _meet(
    nf, nc, gain, rough, node, parent, side, begin, trees, own, name, short, cell_start, sizes,
    flat, weight, base, slack, middle, one, two, out,
):  # fmt: skip
    """Fill out[0], out[1] with the bounds, apart only by rounding; returns the work."""
    doubt = doubtful(nf, rough, node, begin[trees])
    fixed = _features(middle, sizes)
    orders = _features(one, sizes), _features(two, sizes)
    chance_fixed = chances(sizes, fixed, flat, weight)
    cells = chance_fixed.shape[0]
    tables, errors, chance = [], [], []
    work = 0
    for half in range(2):
        order = np.concatenate((orders[half], fixed))
        other = two if half == 0 else one
        mine = np.empty(trees, np.int64)
        n = 0
        for t in range(trees):
            if not own[t] & other and (half == 0 or own[t] & two):
                mine[n] = t
                n += 1
        chance.append(chances(sizes, orders[half], flat, weight))
        joint = cells * chance[half].shape[0]
        table, error = np.zeros((1, joint)), np.zeros(joint if doubt else 0)
        if order.shape[0]:
            work += fill(
                nf, nc, gain, rough, node, parent, side, begin, mine[:n], name, short, cell_start,
                sizes, order, table, error,
            )  # fmt: skip
        tables.append(table[0])
        errors.append(error)
    few = 0 if chance[0].shape[0] < chance[1].shape[0] else 1
    x, y = tables[1 - few] + base, tables[few]
    if doubt:
        e, f = errors[1 - few], errors[few]
        out[0], _ = _pairs(x - e, y - f, chance[1 - few], chance[few], chance_fixed, slack)
        _, out[1] = _pairs(x + e, y + f, chance[1 - few], chance[few], chance_fixed, slack)
    else:
        out[0], out[1] = _pairs(x, y, chance[1 - few], chance[few], chance_fixed, slack)
    out[0] = min(out[0], 1.0)
    out[1] = min(max(out[1], out[0]), 1.0)
    return work + 15 * (1 + doubt) * (x.shape[0] + y.shape[0])


@kernel
def _features(bits, sizes):
    """The features in a set, most cells first."""
    found = np.empty(sizes.shape[0], np.int64)
    n = 0
    for a in np.argsort(-sizes):
        if bits >> a & 1:
            found[n] = a
            n += 1
    return found[:n].copy()


@kernel
def _pairs(x, y, chance_x, chance_y, chance_fixed, slack):
    """Mass of x + y > slack, and of x + y >= -slack: block by block, a block per fixed cell.

    A block of y is put into buckets in its order: a query takes the buckets above its own whole.
    """
    m, n = chance_x.shape[0], chance_y.shape[0]
    buckets = 2 * n
    begin, above = np.zeros(buckets + 1, np.int64), np.zeros(buckets + 1)
    value, mass = np.empty(n), np.empty(n)
    low, high = 0.0, 0.0
    for k in range(chance_fixed.shape[0]):
        block = y[k * n : k * n + n]
        least, most = block.min(), block.max()
        rate = (buckets - 1) / (most - least) if most > least else 0.0
        begin[:] = 0
        above[:] = 0.0
        for j in range(n):
            i = int((block[j] - least) * rate)
            begin[i + 1] += 1
            above[i] += chance_y[j]
        for i in range(buckets):
            begin[i + 1] += begin[i]
        for i in range(buckets - 1, -1, -1):
            above[i] += above[i + 1]
        for j in range(n - 1, -1, -1):  # fills each bucket from its end, and moves its end down
            i = int((block[j] - least) * rate) + 1
            begin[i] -= 1
            value[begin[i]], mass[begin[i]] = block[j], chance_y[j]
        # begin[i + 1] is now where bucket i begins
        sure, possible = 0.0, 0.0
        for i in range(m):
            v = x[k * m + i]
            if least + v > slack:
                sure += chance_x[i]
                possible += chance_x[i]
            elif most + v >= -slack:
                p, q = _mass(slack - v, -slack - v, least, most, rate, begin, above, value, mass)
                sure += chance_x[i] * p
                possible += chance_x[i] * q
        low += chance_fixed[k] * sure
        high += chance_fixed[k] * possible
    return low, high


@kernel
def _mass(strict, weak, least, most, rate, begin, above, value, mass):
    """Mass of values > strict, and of values >= weak (weak <= strict, not all are above strict)."""
    buckets = above.shape[0] - 1
    sure = 0.0
    if strict < most:
        i = int((strict - least) * rate)
        sure = above[i + 1]
        end = begin[i + 2] if i + 2 <= buckets else value.shape[0]
        for j in range(begin[i + 1], end):
            if value[j] > strict:
                sure += mass[j]
    possible = above[0]
    if weak > least:
        i = int((weak - least) * rate)
        possible = above[i + 1]
        end = begin[i + 2] if i + 2 <= buckets else value.shape[0]
        for j in range(begin[i + 1], end):
            if value[j] >= weak:
                possible += mass[j]
    return sure, possible
