"""`decide`: is there a valid point that a tree ensemble gives to one of the allowed classes?

For each row of a region: the point, or the proof that there is none, or neither in the time given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.errors import Unsupported
from assay.kernels.arrays import Bools, Floats, Ints
from assay.proofs.search.box import Box, box_of
from assay.proofs.search.constraint import Constraint
from assay.proofs.search.kernel import BROKEN, OPEN, PROVEN, TIED, search
from assay.proofs.search.separable import Separable
from assay.spaces.lp import LpRegion
from assay.tables.region import TableRegion
from assay.trees.ensemble import Ensemble


@dataclass(frozen=True, eq=False)
class Decision:
    """What is known of each row. `point` means something where `broken`."""

    broken: Bools  # (n,)
    proven: Bools
    point: Floats  # (n, d)
    margin: Floats  # (n,) no valid point's margin is smaller: > 0 where proven, else a bound
    nodes: Ints
    seconds: Floats

    @property
    def open(self) -> Bools:
        """Neither broken nor proven."""
        return ~(self.broken | self.proven)


def decide(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float = 5.0,
    radius: Floats | None = None,
) -> Decision:  # fmt: skip
    """Decide every row; `allowed` (n, classes) says which classes count as success.

    `radius` (n,) replaces the region's eps. Points are checked against the region itself.
    """
    box = box_of(region, radius)
    if box.x0.shape[1] != ensemble.n_features:
        raise Unsupported(
            f"the {ensemble.source} model takes {ensemble.n_features} features, the region has "
            f"{box.x0.shape[1]}"
        )
    answer = search(ensemble, box, constraints_of(region, box), allowed, seconds)
    verdict = answer.verdict.copy()
    found = np.flatnonzero((verdict == BROKEN) | (verdict == TIED))
    if len(found):
        part = region.take(torch.from_numpy(found))
        points = torch.from_numpy(answer.point[found]).to(region.origin.dtype)
        points = points.reshape(len(found), *_shape(region))
        valid = part.contains(points).numpy()
        label = ensemble.decide(points.double().numpy().reshape(len(found), -1))
        good = valid & allowed[found, label]
        # one tied cell, and the library says no: then there is nothing else
        alone = (verdict[found] == TIED) & (answer.ties[found] == 1) & valid
        alone &= ensemble.library is not None
        verdict[found] = np.where(good, BROKEN, np.where(alone, PROVEN, OPEN))
    return Decision(
        verdict == BROKEN, verdict == PROVEN, answer.point, answer.margin, answer.nodes,
        answer.seconds,
    )  # fmt: skip


def constraints_of(region: Any, box: Box) -> list[Constraint]:
    """The budget, and the relations as far as they are separable."""
    found = list(box.budget)
    if isinstance(region, TableRegion) and region.constrained:
        schema = region.space.schema
        relations = Separable(
            schema.layout, box.x0, box.low, box.high, float(region.space.tolerance)
        )
        found += relations.read(schema.relations)[0]
    return found


def _shape(region: Any) -> tuple[int, ...]:
    return region.shape if isinstance(region, LpRegion) else (-1,)
