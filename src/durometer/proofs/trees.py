"""`Exact`: the exact worst case of a tree ensemble, with all relations of the table.

Branch and bound over the cells that the trees' thresholds cut the region into, bounded by passing
messages between the trees (the dual of the linear program), all compiled: `search/` and
`kernels/native/proofs/*.h`. On each row it ends with a valid point that reaches the goal, with the
proof that there is none, or, when its time is over, with neither: the row stays open.

What a reader would get wrong: a relation that is not a sum of functions of one feature each is left
out of the bound, so proofs stay proofs (the region only grows); where a counterexample breaks one,
the box is cut (`search/parts.py`). The time is that of the row's own thread, not of the clock.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

import numpy as np
import torch

from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.search.align_ensemble import agree, ensemble_of, own_classes
from durometer.proofs.search.box import box_of
from durometer.proofs.search.decide import decide, vacuous
from durometer.proofs.search.nearest import nearest

_VACUOUS = 0.02  # seconds a row for the question whether a proof holds at any radius


@noun
class Exact:
    """Decide every row within `seconds` of computing time each.

    `minimise="distance"` (in a table with a `cost` budget: `"cost"`) goes on after the first
    counterexample until none is nearer, to a share of `gap`; the nearest is handed in, also for
    rows that an attack before it has broken. `report.flips()` and `report.radii()` show it.

    `certificates=True` keeps with the records what makes each proof checkable by somebody else:
    `durometer verify` checks it with code that shares nothing with the search.

    >>> import durometer as du
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x = np.random.default_rng(0).random((200, 4))
    >>> forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, x[:, 0] > 0.5)
    >>> data = du.Dataset(x[:20], (x[:20, 0] > 0.5).astype(int))
    >>> report = du.evaluate(forest, data, space=du.Linf(0.1), attack=du.Exact())
    >>> report.metric("open").value
    0.0
    """

    seconds: float = field(default=5.0, metadata={"above": 0})
    minimise: Literal["distance", "cost"] | None = None
    gap: float = 1e-3
    certificates: bool = False
    on_host: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        nearer = self.minimise is not None
        return Needs(
            ANY, trees=True, box=True, is_proof=True, single_model=True, revisits_broken=nearer
        )

    def __call__(self, problem: Problem) -> None:
        rows = problem.undecided
        if self.minimise is not None:
            rows = torch.cat([rows, problem.broken]).sort().values
        if not len(rows):
            return
        region, ensemble = problem.region(rows), ensemble_of(problem.model)
        goal = own_classes(problem.model, ensemble, problem.goal[rows].cpu().numpy())
        agree(problem.model, ensemble, box_of(region), problem.kept(rows))
        if self.minimise is None:
            found = decide(ensemble, region, goal, self.seconds, certificates=self.certificates)
        else:
            start = problem.kept(rows).detach().cpu().double().flatten(1).numpy().copy()
            start[~problem.solved[rows].cpu().numpy()] = np.nan
            found = nearest(
                ensemble, region, goal, self.seconds, self.gap, self.certificates, start
            )
            assert found.nearest is not None
            problem.set_distance_lower_bound(rows, torch.from_numpy(found.nearest))
        broken, proven = (torch.from_numpy(np.flatnonzero(m)) for m in (found.broken, found.proven))
        if len(broken):
            points = torch.from_numpy(found.point[broken.numpy()]).to(region.origin.dtype)
            trial = problem.fork()  # of two points of a row the nearer one is kept
            trial.query(rows[broken], points.reshape(len(broken), *problem.shape))
            problem.absorb(trial)
        if len(proven):
            hollow = vacuous(ensemble, region.take(proven), goal[proven.numpy()], _VACUOUS)
            kept = [found.certificates[i] for i in proven.tolist()] if self.certificates else ()
            problem.prove(rows[proven], torch.from_numpy(hollow), kept)
