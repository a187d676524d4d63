"""The trees as one record's samples see them: only what its noise can reach.

Most thresholds lie outside a record's noise. For models of two classes the trees are cut down as in
local.py (`LOST` mass per tail, said), which makes each sample cheaper and settles records that no
reading can move. Models of more classes are sampled as they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from assay.noise.marginal import Floats
from assay.trees.ensemble import Ensemble, Ints
from assay.trees.grid import Grid
from assay.trees.local import NO, YES, localise
from assay.trees.rounding import Rounding

LOST = 1e-9  # mass of each tail of each feature that samples do not visit


@dataclass(frozen=True, eq=False)
class View:
    """Arrays for the sweep; `used`: the sampled features by their names here, -1 if they do not
    matter."""

    arrays: tuple[Any, ...]
    used: Ints
    lost: float
    settled: int | None  # the only class there is
    small: bool  # one score, and only what the noise reaches


def view(
    ensemble: Ensemble, grid: Grid, levels: Floats, nan: NDArray[np.bool_], used: Ints
) -> View:
    """What a record with these cell levels sees."""
    slack = ensemble.slack()
    whole = View(
        (
            ensemble.feature,
            grid.cut,
            ensemble.left,
            ensemble.right,
            ensemble.missing_left,
            ensemble.value,
            ensemble.roots,
            ensemble.base,
            ensemble.cut,
            slack,
            levels,
            grid.start,
            nan,
            used,
        ),
        used,
        0.0,
        None,
        False,
    )
    if ensemble.outputs > 2:
        return whole
    below = special.ndtr(levels)
    first = grid.start[:-1]
    masses = np.diff(below, prepend=0.0)
    masses[first] = below[first]
    local = localise(ensemble, grid, masses, nan, 1, LOST, Rounding.of(ensemble))
    lost = 1 - local.kept
    if local.status in (YES, NO):
        return View((), used, lost, int(local.status == YES), True)
    if not len(local.original):
        return whole
    here = np.full(ensemble.n_features, -1, dtype=np.int64)
    here[local.original] = np.arange(len(local.original))
    edges = levels[local.seen]
    edges[local.start[1:] - 1] = np.inf
    still = local.nf[local.roots] < 0
    base = local.base + local.gain[local.roots[still]].sum(axis=0)
    if ensemble.outputs == 2:  # equal scores mean the first class
        base = base - slack
    arrays = (
        local.nf,
        local.nc,
        local.nl,
        local.nr,
        np.zeros(len(local.nf), dtype=np.bool_),
        local.gain,
        np.ascontiguousarray(local.roots[~still]),
        base,
        0.0,
        slack,
        edges,
        local.start,
        np.zeros(len(local.original), dtype=np.bool_),
        here[used],
    )
    return View(arrays, here[used], lost, None, True)
