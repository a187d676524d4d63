"""An ensemble on its grid of cells, as the compiled kernels take it: one C struct instead of
seventeen arrays by position (`struct Gridded` of kernels/native/trees.h, in the same order: the
ensemble's own fields, then where it lies on the grid)."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.kernels.native import Layout
from durometer.trees.ensemble import LAYOUT as ENSEMBLE
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.rounding import TIE, Rounding

Int32s = NDArray[np.int32]
LAYOUT = Layout(
    **ENSEMBLE.fields,
    features="size",
    ends="size",
    cell="int32[nodes]",
    start="int64[ends]",
    rough="float64[nodes]",
    slack="float64",
    unit="float64",
    widest="float64",
    tie="float64",
)


@dataclass(frozen=True, eq=False)
class Gridded:
    """The fields of `LAYOUT`."""

    feature: Int32s
    threshold: Floats
    left: Int32s
    right: Int32s
    missing_left: Bools
    value: Floats
    roots: Int32s
    base: Floats
    cut: float
    single: bool
    cell: Int32s
    start: Ints
    rough: Floats
    slack: float
    unit: float
    widest: float
    tie: float

    @classmethod
    def of(cls, ensemble: Ensemble) -> Gridded:
        """Made once for each ensemble."""
        if ensemble not in _made:
            grid, rounding = Grid.of(ensemble), Rounding.of(ensemble)
            _made[ensemble] = cls(
                feature=ensemble.feature,
                threshold=ensemble.threshold,
                left=ensemble.left,
                right=ensemble.right,
                missing_left=ensemble.missing_left,
                value=ensemble.value,
                roots=ensemble.roots,
                base=ensemble.base,
                cut=ensemble.cut,
                single=ensemble.single,
                cell=grid.cut,
                start=grid.start,
                rough=rounding.rough,
                slack=rounding.slack,
                unit=rounding.unit,
                widest=rounding.widest,
                tie=TIE,
            )
        return _made[ensemble]


_made: WeakKeyDictionary[Ensemble, Gridded] = WeakKeyDictionary()
