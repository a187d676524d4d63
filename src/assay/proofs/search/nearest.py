"""The nearest counterexample of each row: decide again and again, within what was found last.

Each round asks for a valid point clearly nearer than the best so far: a point makes the radius
smaller, a proof says that the best is the nearest, to a share of `gap`. Starting from the attack's
own radius, a row that is proven there has no counterexample to be near.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from assay.kernels.arrays import Bools
from assay.proofs.search.decide import Decision, decide
from assay.trees.ensemble import Ensemble

_ROUNDS = 60


def nearest(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float, gap: float = 1e-3
) -> Decision:
    """As `decide`, with the nearest point; `seconds` for all rounds of a row together."""
    first = decide(ensemble, region, allowed, seconds)
    point, spent, nodes = first.point.copy(), first.seconds.copy(), first.nodes.copy()
    rows = np.flatnonzero(first.broken)
    shrink = 0.5  # by half while that works, then by the gap alone
    factor = np.full(len(rows), shrink)
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        part = region.take(torch.from_numpy(rows))
        here = torch.from_numpy(point[rows]).to(region.origin.dtype)
        reach = part.distance(here).double().numpy()
        wanted = reach - 1.0 if region.p == 0 else reach * (1 - np.maximum(gap, factor))
        found = decide(ensemble, part, allowed[rows], seconds, np.maximum(wanted, 0.0))
        point[rows[found.broken]] = found.point[found.broken]
        spent[rows] += found.seconds
        nodes[rows] += found.nodes
        factor = np.where(found.broken, factor, np.where(factor > gap, factor / 4, 0.0))
        going = (factor > gap / 4) & (spent[rows] < seconds) & (wanted > 0)
        if region.p == 0:
            going = found.broken & (wanted > 0)
        rows, factor = rows[going], factor[going]
    return replace(first, point=point, seconds=spent, nodes=nodes)
