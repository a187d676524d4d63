"""`Exact`: the exact worst case of a tree ensemble, with all relations of the table.

Branch and bound over the cells that the trees' thresholds cut the region into, bounded by passing
messages between the trees (the dual of the linear program), all compiled: `search/` and
`kernels/native/proofs/*.h`. On each row it ends with a valid point that reaches the goal, with the
proof that there is none, or, when its time is over, with neither: the row stays open.

What a reader would get wrong: a relation that is not a sum of functions of one feature each is left
out of the bound, so proofs stay proofs (the region only grows); where a counterexample breaks one,
the box is cut (`search/box_splitting.py`). The time is that of the row's own thread.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Literal

import numpy as np
import torch

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.kernels.arrays import Bools, Floats
from durometer.model.answers import ANY
from durometer.model.classifier import Classifier
from durometer.model.rules import Ruled
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.search.box import Box, box_of
from durometer.proofs.search.decide import decide, vacuous
from durometer.proofs.search.nearest import nearest
from durometer.trees import Ensemble
from durometer.trees.align_ensemble import ensemble_of, ensembles_of, own_classes

_ROWS = 64  # compared with the model, as they are and in two corners
_VALUES = 100  # of a text column that are compared
_EACH = 9  # rows on which each is
_VACUOUS = 0.02  # seconds a row for the question whether a proof holds at any radius


@noun
class Exact:
    """The exact worst case of a tree ensemble, with all relations of a table, by branch and bound.

    Every row ends proven, broken by a valid point, or, when its time is over, open.

    Args:
        seconds: Computing time per row, in seconds; of the row's own thread, not of the clock.
        minimise: "distance" goes on after the first counterexample until none is nearer; "cost"
            does so for the cost of a `TableSpace(cost=)`. None stops at the first.
            `report.minimal_changes()` and `report.radii()` show the results.
        gap: Relative precision of the minimal distance.
        certificates: Whether to keep a certificate of each proof, which `verify` checks with
            independent code.

    Raises:
        DurometerError: A parameter has an impossible value.

    >>> import durometer as du
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x = np.random.default_rng(0).random((200, 4))
    >>> forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, x[:, 0] > 0.5)
    >>> data = du.Dataset(x[:20], (x[:20, 0] > 0.5).astype(int))
    >>> report = du.evaluate(forest, data, space=du.Linf(0.1), attack=du.Exact())
    >>> report.metric("proven").value, report.metric("broken").value, report.metric("open").value
    (0.7, 0.3, 0.0)
    """

    seconds: float = field(default=5.0, metadata={"above": 0})
    minimise: Literal["distance", "cost"] | None = None
    gap: float = 1e-3
    certificates: bool = False
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        nearer = self.minimise is not None
        return Needs(ANY, trees=True, is_proof=True, single_model=True, revisits_broken=nearer)

    def __call__(self, problem: Problem) -> None:
        rows = problem.undecided
        if self.minimise is not None:
            rows = torch.cat([rows, problem.broken]).sort().values
        if not len(rows):
            return
        if not isinstance(problem.model.source, Ruled):
            return self._settle(problem, rows, ensemble_of(problem.model))
        if self.certificates:
            raise Unsupported("Exact(certificates=True): a rule on a score has no certificate yet")
        for places, ensemble in ensembles_of(problem.model, rows.cpu().numpy()):
            self._settle(problem, rows[torch.from_numpy(places)], ensemble)

    def _settle(self, problem: Problem, rows: torch.Tensor, ensemble: Ensemble) -> None:
        region = problem.region(rows)
        goal = own_classes(problem.model, ensemble, problem.goal[rows].cpu().numpy())
        if not problem.model.bound:  # else the scores were compared when they were read
            _agree(problem.model, ensemble, box_of(region), problem.kept(rows))
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


def _agree(model: Classifier, ensemble: Ensemble, box: Box, like: torch.Tensor) -> None:
    """Raise unless the reading and the model, asked as the problem asks it, give the same labels.

    `like` (n, ...) are inputs of the right shape and precision.
    """
    few = slice(0, _ROWS)
    corners = [np.where(np.isfinite(b), b, box.x0)[few] for b in (box.low_in, box.high_in)]
    rows: Floats = np.concatenate([box.x0[few], *corners])
    rows = np.concatenate([rows, _labelled(model, rows)])
    x = torch.from_numpy(rows).to(like.dtype).reshape(len(rows), *like.shape[1:])
    answers = model.logits(x).double().numpy()
    theirs = answers.argmax(1)
    if model.order is not None:
        theirs = np.asarray(model.order)[theirs]
        answers = answers[:, np.argsort(model.order)]
    exact = x.double().numpy().reshape(len(rows), -1)
    wrong = (ensemble.predict(exact) != theirs) & ~ensemble.near_tie(exact)
    wrong |= _out_of_order(answers, ensemble.scores(exact))
    if wrong.any():
        raise Unsupported(
            f"the reading of this {ensemble.source} model and the model as it is asked here differ "
            f"on {int(wrong.sum())} of {len(rows)} rows (categories in other codes?); use a "
            "search: Graft or MOEVA"
        )


def _labelled(model: Classifier, rows: Floats) -> Floats:
    """These rows with every value of every text column in turn: a library may code them in its own
    order, and labels of rows as they are need not show it."""
    if model.columns is None or not len(rows):
        return rows[:0]
    each = [(j, code) for j, c in enumerate(model.columns.each) for code in c.codes[:_VALUES]]
    stride = max(1, len(rows) // _EACH)
    some = rows[::stride][:_EACH]
    made = np.tile(some, (len(each), *(1 for _ in some.shape[1:])))
    for k, (j, code) in enumerate(each):
        made[k * len(some) : (k + 1) * len(some), j] = code
    return made


def _out_of_order(answers: Floats, scores: Floats) -> Bools:
    """Rows whose answer does not grow with the score as read; for two classes, where it must."""
    none = np.zeros(len(answers), bool)
    if answers.shape[1] != 2 or scores.shape[1] > 2:
        return none
    read = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0.0)
    said = answers[:, 1] - answers[:, 0]
    order = np.argsort(read, kind="stable")
    highest = np.maximum.accumulate(said[order])
    none[order] = said[order] < highest - 1e-4 * (1 + np.abs(highest))
    return none
