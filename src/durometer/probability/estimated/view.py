"""The trees as one record's samples see them: only what its noise can reach.

Most thresholds lie outside a record's noise, and most classes cannot win there. The trees are cut
down as in localise.py (`LOST` mass per tail, said), which makes each sample cheaper and settles
records that no reading can move.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats, Ints
from durometer.probability.localise import CELL, NO, YES, Int32s, Local, localise
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.gridded import Gridded

LOST = 1e-9  # mass of each tail of each feature that samples do not visit


@dataclass(frozen=True, eq=False)
class Settled:
    """No reading that the noise makes has another label, but for the mass that is lost."""

    lost: float
    label: int


@dataclass(frozen=True, eq=False)
class View:
    """What can still move; a single score means class 1 above zero."""

    lost: float  # mass that no sample visits
    trees: tuple[Int32s, Int32s, Int32s, Int32s]  # feature, cut, left, right per node
    score: Floats  # (nodes, scores), zero but at leaves
    roots: Ints
    base: Floats
    slack: float  # scores that are closer are equal
    edges: Floats  # upper edges of the cells
    start: Ints
    names: Ints  # the sampled features' names here, -1 if they do not matter
    classes: Ints


def view(
    ensemble: Ensemble, grid: Grid, levels: Floats, nan: NDArray[np.bool_], used: Ints, likely: int
) -> View | Settled:
    """What a record with these cell levels sees. `likely`: a class that probably wins."""
    below = scipy.special.ndtr(levels)
    masses = np.diff(below, prepend=0.0)
    masses[grid.start[:-1]] = below[grid.start[:-1]]
    two = ensemble.n_classes == 2
    for label in (1, 0) if two else [likely, *range(ensemble.n_classes)]:
        local = localise(Gridded.of(ensemble), masses, nan, label, LOST)
        if local.status != NO:  # this class may win, and only those that may beat it matter
            break
    lost = 1 - local.kept
    if local.status == YES:
        return Settled(lost, label)
    if local.status == CELL:
        point = grid.representatives()[grid.start[:-1] + local.first]
        point[nan] = np.nan
        return Settled(lost, int(ensemble.decide(point[None])[0]))
    here = np.full(ensemble.n_features, -1, dtype=np.int64)
    here[local.original] = np.arange(len(local.original))
    edges = levels[local.seen]
    edges[local.start[1:] - 1] = np.inf
    still = local.nf[local.roots] < 0
    base = local.base + local.gain[local.roots[still]].sum(axis=0)
    score, classes = local.gain.copy(), np.arange(2)
    score[local.roots[still]] = 0.0
    if two and ensemble.outputs == 2:  # equal scores mean the first class
        base = base - ensemble.slack()
    elif not two:
        score, base, classes = _absolute(score, base, local, label)
    return View(
        lost,
        (local.nf, local.nc, local.nl, local.nr),
        score,
        np.ascontiguousarray(local.roots[~still]),
        base,
        ensemble.slack(),
        edges,
        local.start,
        here[used],
        classes,
    )


def _absolute(score: Floats, base: Floats, local: Local, label: int) -> tuple[Floats, Floats, Ints]:
    """Differences to a label's score as scores of all classes that may win, in their order.

    A tree whose leaves move all differences alike moves the label's score, and is kept as one.
    """
    classes = np.append(label, local.rival)
    order = np.argsort(classes)
    alike = np.logical_and.reduceat((score == score[:, :1]).all(axis=1), local.roots)
    size = np.diff(np.append(local.roots, len(score)))
    own = np.repeat(alike, size)
    all_scores = np.hstack([np.where(own, score[:, 0], 0.0)[:, None], -score * ~own[:, None]])
    return (
        np.ascontiguousarray(all_scores[:, order]),
        np.append(0.0, -base)[order],
        classes[order],
    )
