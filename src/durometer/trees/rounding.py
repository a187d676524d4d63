"""Where a library's own rounding could decide: how far a margin must be from zero to be sure.

Three cases. Float64 sums of short binary fractions (the votes of a forest's pure leaves) are exact,
and so are their ties, which argmax gives to the lowest class. Any other float64 leaf puts `ROUGH`
of doubt on the sums it takes part in. Float32 sums (XGBoost) round after every tree by at most half
a unit of the partial sum, which a box knows much better than the whole model does (reach.py).
"""

from dataclasses import dataclass

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.trees.ensemble import Ensemble

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
    def of(cls, ensemble: Ensemble) -> "Rounding":
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
