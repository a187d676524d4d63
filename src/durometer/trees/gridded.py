"""An ensemble on its grid of cells, as the compiled kernels take it: one C struct instead of
seventeen arrays by position (`struct Gridded` of kernels/native/trees.h, in the same order: the
ensemble's own fields, then where it lies on the grid).

Where a library's own rounding could decide: how far a margin must be from zero to be sure.

Three cases. Float64 sums of short binary fractions (the votes of a forest's pure leaves) are exact,
and so are their ties, which argmax gives to the lowest class. Any other float64 leaf puts `ROUGH`
of doubt on the sums it takes part in. Float32 sums (XGBoost) round after every tree by at most half
a unit of the partial sum, which a box knows much better than the whole model does (reach.py).
"""

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


ROUGH = 1e-9
TIE = ROUGH / 4  # above float64's own errors here, below the smallest step of an exact sum
SHORT = 2.0**20  # an exact leaf is a whole multiple of 1 / SHORT


@dataclass(frozen=True, eq=False)
class Rounding:
    """Doubt per margin, per partial sum, per leaf; and the most they can add up to."""

    slack: float
    unit: float
    rough: Floats  # (nodes,)
    widest: float

    @classmethod
    def of(cls, ensemble: Ensemble) -> Rounding:
        whole = ensemble.slack()
        rough = np.zeros(len(ensemble.feature))
        if ensemble.single and ensemble.outputs == 1:
            unit = 2.0**-24
            first = 4 * unit * (1 + float(np.abs(ensemble.base).max(initial=0.0)))
            return cls(first + 2 * TIE, 1.001 * unit, rough, whole + 2 * TIE)
        if ensemble.single or whole > ROUGH / 2:
            return cls(whole + 2 * TIE, 0.0, rough, 0.0)
        rough[~_short(ensemble.value).all(axis=1)] = ROUGH
        rough[ensemble.feature >= 0] = 0.0
        start = 0.0 if _short(ensemble.base).all() and _short(np.array(ensemble.cut)) else ROUGH
        return cls(start + TIE / 2, 0.0, rough, ROUGH * ensemble.n_trees)


def _short(values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.asarray((values * SHORT == np.rint(values * SHORT)) & (np.abs(values) < SHORT))
