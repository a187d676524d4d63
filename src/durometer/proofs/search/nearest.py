"""The nearest counterexample of each row: decide again and again, within what was found last.

Each round asks for a valid point clearly nearer than the best so far: a point makes the radius
smaller, a proof says that nothing is nearer than that radius. It ends when the two are within a
share of `gap` of one another, or with the time. A row for which a point is known already (an attack
found it) starts from its distance instead of from eps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from durometer.kernels.arrays import Bools, Floats
from durometer.proofs.search.decide import Decision, decide
from durometer.trees.ensemble import Ensemble

_ROUNDS = 60


def nearest(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float, gap: float = 1e-3,
    certificates: bool = False, start: Floats | None = None,
) -> Decision:  # fmt: skip
    """As `decide`, with the nearest point; `seconds` for all rounds of a row together.

    `start` (n, d): valid successes to begin with, NaN where there is none.
    """
    n = len(allowed)
    known: Bools = np.zeros(n, dtype=bool)
    if start is not None:
        known = np.asarray(np.isfinite(start).all(axis=1))
    first = _first(ensemble, region, allowed, seconds, certificates, np.logical_not(known))
    point, spent, nodes = first.point.copy(), first.seconds.copy(), first.nodes.copy()
    if start is not None:
        point[known] = start[known]
    low = np.where(first.proven, float(region.eps), np.nan)
    low[known | first.broken] = 0.0
    rows = np.flatnonzero(first.broken | known)
    factor = np.full(len(rows), 0.5)  # by half while that works, then by the gap alone
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        part = region.take(torch.from_numpy(rows))
        here = torch.from_numpy(point[rows]).to(region.origin.dtype)
        reach = part.distance(here).double().numpy()
        wanted = reach - 1.0 if region.p == 0 else reach * (1 - np.maximum(gap, factor))
        found = decide(ensemble, part, allowed[rows], seconds, np.maximum(wanted, 0.0))
        point[rows[found.broken]] = found.point[found.broken]
        proven = rows[found.proven]
        low[proven] = np.fmax(low[proven], wanted[found.proven])
        spent[rows] += found.seconds
        nodes[rows] += found.nodes
        factor = np.where(found.broken, factor, np.where(factor > gap, factor / 4, 0.0))
        going = (factor > gap / 4) & (spent[rows] < seconds) & (wanted > 0)
        if region.p == 0:
            going = found.broken & (wanted > 0)
        rows, factor = rows[going], factor[going]
    return replace(
        first, broken=first.broken | known, point=point, seconds=spent, nodes=nodes, nearest=low
    )


def _first(
    ensemble: Ensemble, region: Any, allowed: Bools, seconds: float, certificates: bool,
    asked: Bools,
) -> Decision:  # fmt: skip
    """Is there any success? Only of the rows for which nobody knows."""
    if asked.all():
        return decide(ensemble, region, allowed, seconds, certificates=certificates)
    rows, n = np.flatnonzero(asked), len(asked)
    part = decide(
        ensemble, region.take(torch.from_numpy(rows)), allowed[rows], seconds,
        certificates=certificates,
    )  # fmt: skip
    kept: list[bytes | None] = [None] * n
    for i, c in zip(rows, part.certificates, strict=False):
        kept[i] = c

    def spread(values: Any, shape: tuple[int, ...] = ()) -> Any:
        out = np.zeros((n, *shape), dtype=values.dtype)
        out[rows] = values
        return out

    return Decision(
        spread(part.broken), spread(part.proven), spread(part.point, part.point.shape[1:]),
        spread(part.margin), spread(part.nodes), spread(part.seconds),
        certificates=tuple(kept) if certificates else (),
    )  # fmt: skip
