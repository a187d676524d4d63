"""Scores of many sampled readings at once, one feature left open: trees as small tables.

A record's noise reaches a few leaves of each tree, so a tree is a table over its own few intervals
of each feature; trees that ask about the same features and move the same scores share one. A
reading then costs a few lookups instead of a walk, for a block of readings at a time. Along the
open feature a table holds differences, which are added where its intervals begin: the scores along
that feature are their sums, and the mass of each class is exact. A single score means class 1 above
zero; of several the largest wins, the first of equal ones.

A tree whose table would be too large is walked.
"""

# mypy: disable-error-code="no-untyped-def, no-any-return"

import math
from typing import Any

import numpy as np

from assay.kernels.arrays import Floats, Ints
from assay.kernels.compile import kernel

LARGEST = 2048  # cells of a table
BLOCK = 256  # readings at a time
GUIDE = 128  # steps of the index that finds a reading's cell


def tables_of(
    trees: tuple[Any, ...], score: Floats, roots: Ints, start: Ints, last: int
) -> tuple[Any, ...]:
    """Tables of all trees, as `look` takes them; score: (nodes, scores), zero but at leaves."""
    moved = np.logical_or.reduceat(score != 0, roots)
    kinds, kind = np.unique(moved, axis=0, return_inverse=True)
    parts = [(np.flatnonzero(k), roots[kind.ravel() == i]) for i, k in enumerate(kinds) if k.any()]
    found = []
    for columns, mine in parts or [(np.arange(1), roots[:0])]:
        own = np.ascontiguousarray(score[:, columns])
        found.append((columns, tabulate(*trees, own, mine, start, last)))
    wide: list[int] = []
    which: list[int] = []
    column_start = [0]
    for columns, (starts, *_) in found:
        for size in np.diff(starts):
            wide.append(size // len(columns))
            which.extend(columns)
            column_start.append(len(which))

    def joined(place: int) -> Ints:  # starts into an array that stands behind them
        ends = np.concatenate([[0], np.cumsum([arrays[place][-1] for _, arrays in found])])
        return np.concatenate(
            [arrays[place][:-1] + end for (_, arrays), end in zip(found, ends, strict=False)]
            + [ends[-1:]]
        )

    def behind(place: int) -> Any:
        return np.concatenate([arrays[place] for _, arrays in found])

    ends = np.concatenate([[0], np.cumsum([len(arrays[5]) for _, arrays in found])])
    offset = [arrays[4] + end for (_, arrays), end in zip(found, ends, strict=False)]
    return (
        joined(0), np.array(wide, np.int64), np.array(column_start), np.array(which, np.int64),
        behind(1), joined(2), behind(3), np.concatenate(offset), behind(5), behind(6), joined(7),
        behind(8),
    )  # fmt: skip


@kernel
def tabulate(nf, nc, nl, nr, gain, roots, start, last):
    """(table starts, values, feature starts, features, their maps, maps, places of the open
    feature's parts, starts of these, trees to walk). A table holds one score after the other."""
    features, total, trees = start.shape[0] - 1, start[-1], roots.shape[0]
    scores = gain.shape[1]
    home, cuts, tables = _shared(nf, nc, nl, nr, roots, start)
    starts, feature_start = np.zeros(tables + 1, np.int64), np.zeros(tables + 1, np.int64)
    part_start = np.zeros(tables + 1, np.int64)
    feature, offset = np.empty(tables * features, np.int64), np.empty(tables * features, np.int64)
    step = np.empty(tables * total, np.int32)
    place = np.empty(tables * (start[last + 1] - start[last]), np.int64)
    values = np.zeros(tables * LARGEST * scores)
    parts, at, cell = np.empty(features, np.int64), np.empty(features, np.int64), 0
    first = np.empty(total, np.int64)  # first cell of each interval, per feature
    cells, member = np.empty(features, np.int64), np.empty(trees, np.int64)
    listed, mapped, placed = 0, 0, 0
    for k in range(tables):
        members = 0
        for t in range(trees):
            if home[t] == k:
                member[members] = roots[t]
                members += 1
        size = 1
        for turn in range(features):  # the open feature varies fastest
            f = last if turn == 0 else turn - 1 if turn - 1 < last else turn
            n = 0
            stride = size
            for c in range(start[f + 1] - start[f]):
                if c == 0 or cuts[k, start[f] + c - 1]:
                    first[start[f] + n] = c
                    n += 1
            parts[f] = n
            size *= n
            if f == last:
                for c in range(n):
                    place[placed + c] = first[start[f] + c]
                placed += n
            elif n > 1:
                feature[listed], offset[listed] = f, mapped
                n = 0
                for c in range(start[f + 1] - start[f]):
                    if c > 0 and cuts[k, start[f] + c - 1]:
                        n += 1
                    step[mapped + c] = n * stride
                mapped += start[f + 1] - start[f]
                listed += 1
        starts[k + 1] = starts[k] + size * scores
        feature_start[k + 1], part_start[k + 1] = listed, placed
        for f in range(features):
            at[f] = 0
        for cell in range(size):
            for f in range(features):
                cells[f] = first[start[f] + at[f]]
            for t in range(members):
                node = member[t]
                while nf[node] >= 0:
                    node = nl[node] if cells[nf[node]] <= nc[node] else nr[node]
                for c in range(scores):
                    values[starts[k] + c * size + cell] += gain[node, c]
            for turn in range(features):
                f = last if turn == 0 else turn - 1 if turn - 1 < last else turn
                at[f] += 1
                if at[f] < parts[f]:
                    break
                at[f] = 0
        for cell in range(size * scores - 1, -1, -1):
            if cell % parts[last] > 0:
                values[starts[k] + cell] -= values[starts[k] + cell - 1]
    return (
        starts, values[: starts[tables]].copy(), feature_start, feature[:listed].copy(),
        offset[:listed].copy(), step[:mapped].copy(), place[:placed].copy(), part_start,
        roots[home < 0],
    )  # fmt: skip


@kernel
def _shared(nf, nc, nl, nr, roots, start):
    """Which table each tree goes to (-1: none), and the cuts of each table."""
    trees, total, features = roots.shape[0], start[-1], start.shape[0] - 1
    home = np.full(trees, -1, np.int64)
    cuts = np.zeros((trees, total), np.bool_)
    mine, sizes, stack = np.empty(total, np.bool_), np.empty(trees), np.empty(nf.shape[0], np.int64)
    tables = 0
    for t in range(trees):
        mine[:] = False
        stack[0], top = roots[t], 1
        while top > 0:
            top -= 1
            node = stack[top]
            if nf[node] >= 0:
                mine[start[nf[node]] + nc[node]] = True
                stack[top], stack[top + 1] = nl[node], nr[node]
                top += 2
        alone = _size(mine, mine, start, features)
        if alone > LARGEST:
            continue
        best, least = -1, LARGEST + 1.0
        for k in range(tables):
            # a table shared must not be much larger than the two it stands for
            size = _size(mine, cuts[k], start, features)
            if size < least and size <= 4.0 * (alone + sizes[k]):
                best, least = k, size
        if best < 0:
            best, least = tables, alone
            tables += 1
        home[t], sizes[best] = best, least
        for c in range(total):
            cuts[best, c] = cuts[best, c] or mine[c]
    return home, cuts, tables


@kernel
def _size(a, b, start, features):
    size = 1.0
    for f in range(features):
        n = 1
        for c in range(start[f], start[f + 1]):
            n += a[c] or b[c]
        size *= n
    return size


@kernel
def guide(edges, start):
    """Where the search for a cell begins: (first steps, lowest edges, steps per unit)."""
    features = start.shape[0] - 1
    begin = np.zeros((features, GUIDE), np.int64)
    low, rate = np.zeros(features), np.zeros(features)
    for f in range(features):
        n = start[f + 1] - start[f] - 1  # the last edge is infinite
        if n < 1:
            continue
        low[f] = edges[start[f]]
        wide = edges[start[f] + n - 1] - low[f]
        rate[f] = (GUIDE - 1) / wide if wide > 0.0 else 0.0
        c = 0
        for g in range(1, GUIDE):
            # one step back: the division may round
            while c < n and (edges[start[f] + c] - low[f]) * rate[f] < g - 1:
                c += 1
            begin[f, g] = c
    return begin, low, rate


@kernel
def look(
    starts, wide, column_start, column, values, feature_start, feature, offset, step, place,
    part_start, walked, nf, nc, nl, nr, gain, base, slack, edges, start, begin, low, rate,
    dimension, last, points, shift, sd, tied,
):  # fmt: skip
    """Mean mass of each class, over readings `points` (dimensions, n).

    dimension: where each feature's numbers are, -1 for the open one. Its steps end at its `edges`;
    its law is N(shift, sd) where it is `tied` to the others, else the edges are masses.
    """
    n, features, steps = points.shape[1], start.shape[0] - 1, start[last + 1] - start[last]
    scores = base.shape[0]
    cells, index = np.zeros((features, BLOCK), np.int32), np.zeros(BLOCK, np.int32)
    score = np.zeros((scores, steps + 1, BLOCK))
    ends = edges[start[last] : start[last + 1]]
    stack = np.empty((nf.shape[0] + 1, 3), np.int64)
    mass = np.zeros(max(scores, 2))
    for at in range(0, n, BLOCK):
        block = min(BLOCK, n - at)
        for f in range(features):
            if dimension[f] >= 0:
                s, row = start[f], points[dimension[f]]
                for i in range(block):
                    v = row[at + i]
                    g = min(max((v - low[f]) * rate[f], 0.0), GUIDE - 1.0)
                    c = begin[f, int(g)]
                    while edges[s + c] < v:
                        c += 1
                    cells[f, i] = c
        score[:] = 0.0
        for k in range(starts.shape[0] - 1):
            index[:] = starts[k]
            for j in range(feature_start[k], feature_start[k + 1]):
                o, mine = offset[j], cells[feature[j]]
                for i in range(block):
                    index[i] += step[o + mine[i]]
            for c in range(column_start[k], column_start[k + 1]):
                own = score[column[c]]
                for p in range(part_start[k], part_start[k + 1]):
                    q, row = p - part_start[k], own[place[p]]
                    for i in range(block):
                        row[i] += values[index[i] + q]
                index += wide[k]
        for root in walked:
            _walk(nf, nc, nl, nr, gain, root, cells, block, last, steps, stack, score)
        if scores == 1:
            mass[1] += _one(score[0], base[0], block, steps, ends, shift[at:], sd, tied)
        else:
            _many(score, base, slack, block, steps, ends, shift[at:], sd, tied, mass)
    if scores == 1:
        mass[0] = n - mass[1]
    return mass / n


@kernel
def _one(score, base, block, steps, ends, shift, sd, tied):
    """Mass of a positive score, summed over the readings of a block."""
    mass = 0.0
    for i in range(block):
        now, before, positive = base, 0.0, False
        for s in range(steps):
            now += score[s, i]
            if (now > 0.0) != positive:
                if s > 0:
                    edge = _end(ends[s - 1], shift, i, sd, tied)
                    if positive:
                        mass += edge - before
                    before = edge
                positive = not positive
        if positive:
            mass += 1.0 - before
    return mass


@kernel
def _many(score, base, slack, block, steps, ends, shift, sd, tied, mass):
    """Add the mass of each class, of a score per class, to mass."""
    now = np.empty(base.shape[0])
    for i in range(block):
        before, label = 0.0, -1
        now[:] = base
        for s in range(steps):
            moved = s == 0
            for k in range(base.shape[0]):
                moved = moved or score[k, s, i] != 0.0
                now[k] += score[k, s, i]
            if not moved:
                continue
            best = 0
            for k in range(1, base.shape[0]):
                if now[k] > now[best] + slack:
                    best = k
            if best != label:
                if label >= 0:
                    edge = _end(ends[s - 1], shift, i, sd, tied)
                    mass[label] += edge - before
                    before = edge
                label = best
        mass[label] += 1.0 - before


@kernel
def _end(edge, shift, i, sd, tied):
    """Mass of the open feature below an edge."""
    return 0.5 * math.erfc(-(edge - shift[i]) / sd * 0.7071067811865476) if tied else edge


@kernel
def _walk(nf, nc, nl, nr, gain, root, cells, block, last, steps, stack, score):
    """One tree's part in the scores of a block."""
    for i in range(block):
        top = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = root, 0, steps - 1
        while top > 0:
            top -= 1
            node, lo, hi = stack[top, 0], stack[top, 1], stack[top, 2]
            while nf[node] >= 0:
                f = nf[node]
                if f != last:
                    node = nl[node] if cells[f, i] <= nc[node] else nr[node]
                elif hi <= nc[node]:
                    node = nl[node]
                elif lo > nc[node]:
                    node = nr[node]
                else:
                    stack[top, 0], stack[top, 1], stack[top, 2] = nr[node], nc[node] + 1, hi
                    top += 1
                    hi = nc[node]
                    node = nl[node]
            for k in range(gain.shape[1]):
                score[k, lo, i] += gain[node, k]
                score[k, hi + 1, i] -= gain[node, k]
