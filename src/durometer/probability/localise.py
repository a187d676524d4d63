"""What one record's noise can reach: the ensemble cut down to the cells with mass, as score
differences.

"The label is c" is one inequality per rival k: margin_k = sum over trees of (v_c - v_k) > 0.
`localise` keeps only what can still move: clips each feature at a tail of `tail` mass (the loss is
returned and goes into the upper bound), follows every tree through the clipped cells, merges cells
that no reachable node separates, and drops rivals that cannot win. Trees that cannot move stay as
single leaves: partial sums need them in the library's order. (kernels/native/localise.cpp)

What a reader would get wrong: margins within the library's own rounding of zero (rounding.py)
count as undecided here; the original model settles them on a single cell (bounds.py)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.kernels.bundle import unpack
from durometer.kernels.native import Kernel
from durometer.trees.gridded import LAYOUT, Gridded

Int32s = NDArray[np.int32]
NO, YES, OPEN, CELL = 0, 1, 2, 3
_localise = Kernel(
    "localise",
    ensemble=LAYOUT,
    cells="size",
    features="size",
    masses="float64[cells]",
    nan="bool[features]",
    label="int64",
    tail="float64",
    handle="out int64[1]",
)


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
    rival: Ints  # (rivals,) their classes; with a single score 1 - label


def localise(ensemble: Gridded, masses: Floats, nan: Bools, label: int, tail: float) -> Local:
    """The part of the ensemble that a record with these cell masses can reach."""
    handle = np.zeros(1, np.int64)
    _localise(ensemble, masses, nan, label, tail, handle)
    ints, floats, short = np.int64, np.float64, np.int32
    facts, kept, *rest = unpack(handle, ints, floats, *[short] * 5, *[floats] * 3, *[ints] * 5)
    nf, nc, nl, nr, roots, gain, base, mass, start, seen, original, first, rival = rest
    return Local(
        status=int(facts[0]),
        kept=float(kept[0]),
        nf=nf,
        nc=nc,
        nl=nl,
        nr=nr,
        gain=gain.reshape(len(nf), int(facts[1])),
        roots=roots,
        base=base,
        start=start,
        mass=mass,
        seen=seen,
        original=original,
        first=first,
        rival=rival,
    )
