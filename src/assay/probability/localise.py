"""What one record's noise can reach: the ensemble cut down to the cells with mass, as score
differences.

"The label is c" is one inequality per rival k: margin_k = sum over trees of (v_c - v_k) > 0.
`localise` keeps only what can still move: clips each feature at a tail of `tail` mass (the loss is
returned and goes into the upper bound), follows every tree through the clipped cells, merges cells
that no reachable node separates, and drops rivals that cannot win. Trees that cannot move stay as
single leaves: partial sums need them in the library's order.

What a reader would get wrong: margins within the library's own rounding of zero (rounding.py)
count as undecided here; the original model settles them on a single cell (bounds.py)."""

# mypy: disable-error-code="no-untyped-def, no-any-return"

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.kernels.arrays import Floats, Ints
from assay.kernels.compile import kernel
from assay.probability.prune import prune
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid
from assay.trees.rounding import TIE, Rounding

Int32s = NDArray[np.int32]
NO, YES, OPEN, CELL = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Local:
    """One record's part of the ensemble. `status`: settled NO or YES, OPEN, or a single undecided
    CELL."""

    status: int
    kept: float  # mass not clipped
    nf: Int32s  # (nodes,) local feature, -1 at a leaf
    nc: Int32s  # a local cell <= nc goes left
    nl: Int32s
    nr: Int32s
    gain: Floats  # (nodes, rivals) at leaves: v_label - v_rival
    roots: Int32s
    base: Floats  # (rivals,)
    start: Ints  # first cell of each local feature
    mass: Floats  # (cells,) sums to 1 per feature
    seen: Ints  # an original cell inside each local cell
    original: Ints  # local feature -> feature
    first: Ints  # first kept original cell per feature
    slack: float  # doubt about every margin, beyond what leaves and partial sums bring
    unit: float  # > 0: sums round after each tree, by this share of the partial sum
    tie: Floats  # (rivals,) added to margins: positive where equal scores mean the label
    rough: Floats  # (nodes,) what rounding may move a sum with this leaf by
    rival: Ints  # (rivals,) their classes; with a single score 1 - label


def localise(
    ensemble: Ensemble,
    grid: Grid,
    masses: Floats,
    nan: NDArray[np.bool_],
    label: int,
    tail: float,
    rounding: Rounding,
) -> Local:
    """The part of the ensemble that a record with these cell masses can reach."""
    found = _localise(
        ensemble.feature,
        grid.cut,
        ensemble.left,
        ensemble.right,
        ensemble.missing_left,
        ensemble.value,
        ensemble.roots,
        ensemble.base,
        ensemble.cut,
        rounding.slack + rounding.widest,
        rounding.rough,
        masses,
        grid.start,
        nan,
        label,
        tail,
    )
    status, kept, nf, nc, nl, nr, gain, error, keep, roots, margin, start, *rest = found
    mass, seen, original, first, other = rest
    # numpy's argmax takes the lowest class; a single score means class 1 only above the cut
    wins = other > label if ensemble.outputs > 1 else np.array([label == 0])
    return Local(
        status,
        kept,
        nf.copy(),
        nc.copy(),
        nl.copy(),
        nr.copy(),
        np.ascontiguousarray(gain[:, keep]),
        roots.copy(),
        margin[keep],
        start,
        mass,
        seen,
        original,
        first,
        rounding.slack,
        rounding.unit,
        np.where(wins, TIE, -TIE)[keep],
        error,
        other[keep],
    )


@kernel
def _localise(
    feature,
    cut,
    left,
    right,
    missing_left,
    value,
    roots,
    base,
    threshold_cut,
    slack,
    rough,
    cells,
    start,
    nan,
    label,
    tail,
):
    """(status, kept, local arrays): status 1 settled yes, 0 settled no, 2 open,
    3 a single cell."""
    trees, outputs = roots.shape[0], value.shape[1]
    first, last, kept = _clip(cells, start, nan, tail)
    # directions: with one output the rival is the other class, else every other class
    rivals = 1 if outputs == 1 else outputs - 1
    margin = np.zeros(rivals)
    sign = 1.0 if label == 1 else -1.0
    other = np.empty(rivals, np.int64)
    if outputs == 1:
        other[0] = 1 - label
        margin[0] = sign * (base[0] - threshold_cut)
    else:
        p = 0
        for k in range(outputs):
            if k != label:
                other[p] = k
                margin[p] = base[label] - base[k]
                p += 1

    nf, nc, nl, nr, gl, local_roots = prune(
        feature, cut, left, right, missing_left, value, roots, rough, nan, label, first, last
    )
    count = nf.shape[0]
    moving = 0
    for root in local_roots:
        moving += nf[root] >= 0

    gain = np.zeros((count, rivals))
    used = np.zeros(start[-1], np.bool_)
    low, high = margin.copy(), margin.copy()
    error = np.zeros(count)
    for t in range(trees):
        a = local_roots[t]
        b = local_roots[t + 1] if t + 1 < trees else count
        # nodes below a folded leaf are not reached any more: mark what is
        alive = np.zeros(b - a, np.bool_)
        alive[0] = True
        least, most = np.full(rivals, np.inf), np.full(rivals, -np.inf)
        for node in range(a, b):
            if not alive[node - a]:
                continue
            if nf[node] >= 0:
                alive[nl[node] - a] = True
                alive[nr[node] - a] = True
                used[start[nf[node]] + nc[node]] = True
            else:
                leaf = gl[node]
                error[node] = rough[leaf]
                for p in range(rivals):
                    v = (
                        sign * value[leaf, 0]
                        if outputs == 1
                        else value[leaf, label] - value[leaf, other[p]]
                    )
                    gain[node, p] = v
                    least[p], most[p] = min(least[p], v), max(most[p], v)
        for p in range(rivals):
            low[p] += least[p]
            high[p] += most[p]
    status = 1
    keep = np.zeros(rivals, np.bool_)
    for p in range(rivals):
        if high[p] < -slack:
            status = 0
        if not low[p] > slack:
            keep[p] = True
            if status == 1:
                status = 2
    if moving == 0 and status == 2:
        status = 3  # a single cell that the original model must decide

    name, local_cut, cell_start, mass, seen, original = _merge(cells, start, first, last, used)
    for node in range(count):
        if nf[node] >= 0:
            nc[node] = local_cut[start[nf[node]] + nc[node]]
            nf[node] = name[nf[node]]
    return (
        status,
        kept,
        nf,
        nc,
        nl,
        nr,
        gain,
        error,
        keep,
        local_roots,
        margin,
        cell_start,
        mass,
        seen,
        original,
        first,
        other,
    )


@kernel
def _clip(cells, start, nan, tail):
    """(first and last cell of each feature, mass kept): each tail loses at most `tail`."""
    features = nan.shape[0]
    first, last = np.zeros(features, np.int64), np.zeros(features, np.int64)
    kept = 1.0
    for f in range(features):
        a, b = start[f], start[f + 1] - 1
        if not nan[f]:
            below, above = 0.0, 0.0
            while a < b and below + cells[a] <= tail:
                below += cells[a]
                a += 1
            while b > a and above + cells[b] <= tail:
                above += cells[b]
                b -= 1
            kept *= 1.0 - (below + above)
        first[f], last[f] = a - start[f], b - start[f]
    return first, last, kept


@kernel
def _merge(cells, start, first, last, used):
    """Local features and cells: what no reachable node separates is one cell."""
    features = first.shape[0]
    name = np.full(features, -1, np.int64)
    active = 0
    total_cells = 0
    local_cut = np.full(start[-1], -1, np.int32)
    for f in range(features):
        n = 0
        for j in range(first[f], last[f]):
            if used[start[f] + j]:
                local_cut[start[f] + j] = n
                n += 1
        if n > 0:
            name[f] = active
            active += 1
            total_cells += n + 1
    cell_start = np.zeros(active + 1, np.int64)
    mass = np.zeros(total_cells)
    seen = np.zeros(total_cells, np.int64)  # an original cell inside, flat
    original = np.zeros(active, np.int64)
    at = 0
    for f in range(features):
        if name[f] >= 0:
            original[name[f]] = f
            cell_start[name[f]] = at
            whole = 0.0
            for j in range(first[f], last[f] + 1):
                mass[at] += cells[start[f] + j]
                whole += cells[start[f] + j]
                seen[at] = start[f] + j
                if j == last[f] or used[start[f] + j]:
                    at += 1
            for j in range(cell_start[name[f]], at):
                mass[j] /= whole
    cell_start[active] = at
    return name, local_cut, cell_start, mass, seen, original
