"""An ensemble on its grid of cells, as the compiled kernels take it: one C struct instead of
seventeen arrays by position (`struct Gridded` of kernels/native/trees.h, in the same order)."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from assay.kernels.arrays import Bools, Floats, Ints
from assay.kernels.native import Layout
from assay.trees.ensemble import Ensemble
from assay.trees.grid import Grid
from assay.trees.rounding import TIE, Rounding

Int32s = NDArray[np.int32]
LAYOUT = Layout(
    nodes="size",
    trees="size",
    outputs="size",
    features="size",
    ends="size",
    feature="int32[nodes]",
    threshold="float64[nodes]",
    cut="int32[nodes]",
    left="int32[nodes]",
    right="int32[nodes]",
    missing_left="bool[nodes]",
    value="float64[nodes, outputs]",
    roots="int32[trees]",
    base="float64[outputs]",
    start="int64[ends]",
    rough="float64[nodes]",
    decision="float64",
    slack="float64",
    unit="float64",
    widest="float64",
    tie="float64",
    single="int64",
)


@dataclass(frozen=True, eq=False)
class Gridded:
    """The fields of `LAYOUT`."""

    feature: Int32s
    threshold: Floats
    cut: Int32s
    left: Int32s
    right: Int32s
    missing_left: Bools
    value: Floats
    roots: Int32s
    base: Floats
    start: Ints
    rough: Floats
    decision: float
    slack: float
    unit: float
    widest: float
    tie: float
    single: bool

    @classmethod
    def of(cls, ensemble: Ensemble) -> Gridded:
        """Made once for each ensemble."""
        if ensemble not in _made:
            grid, rounding = Grid.of(ensemble), Rounding.of(ensemble)
            _made[ensemble] = cls(
                feature=ensemble.feature,
                threshold=ensemble.threshold,
                cut=grid.cut,
                left=ensemble.left,
                right=ensemble.right,
                missing_left=ensemble.missing_left,
                value=ensemble.value,
                roots=ensemble.roots,
                base=ensemble.base,
                start=grid.start,
                rough=rounding.rough,
                decision=ensemble.cut,
                slack=rounding.slack,
                unit=rounding.unit,
                widest=rounding.widest,
                tie=TIE,
                single=ensemble.single,
            )
        return _made[ensemble]


_made: WeakKeyDictionary[Ensemble, Gridded] = WeakKeyDictionary()
