"""Counterexamples of a model on some rows: exact for trees; for networks bounds, then the attack.

`Known` is what is known of each row. `Pool` gathers counterexamples over the rounds of a hardening:
each round attacks other training rows, drawn anew, and what was found stays.

What a reader would get wrong: a counterexample weighs as much as a training row until all of them
together weigh as much as the attacked class, never more. Scaling a few of them up to that weight
costs the other classes points and was measured to be worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from durometer import losses
from durometer.attacks.base import Attack, run
from durometer.attacks.combine import Then
from durometer.core.streams import Stream, derive, keys
from durometer.data.dataset import Dataset
from durometer.goals.goal import Goal
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.classifier import Classifier, wrap
from durometer.model.frames import align_columns
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee
from durometer.proofs.bounds.inputs import domain
from durometer.proofs.linear import Linear
from durometer.proofs.networks import Bounds
from durometer.proofs.search.decide import decide
from durometer.proofs.search.linear_form import read as read_linear
from durometer.proofs.search.linear_form import weights_of
from durometer.spaces.region import Space
from durometer.standard import Standard
from durometer.tables.space import TableSpace
from durometer.trees.align_ensemble import ensemble_of, own_classes

NETWORK_JUDGE = Then(  # as the default: cuts only where they may reach, and after the attack
    Bounds(splits=0, seconds=0.0, within=0.5), Standard(proofs=False), Bounds(alpha=0, within=0.5)
)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of each row; `point` (n, d) means something where `broken`."""

    broken: Bools
    proven: Bools
    point: Floats


def targets(data: Dataset, goal: Goal, count: int) -> Bools:
    """(n, classes): may this row be pushed there?"""
    blank = torch.zeros(len(data), count)
    mask: Bools = goal.targets(data.y, blank, torch.arange(len(data)), data.classes).numpy()
    return mask


def attacked(data: Dataset, goal: Goal) -> Bools:
    """Rows that the goal gives a class to be pushed to."""
    count = len(data.classes or ()) or int(data.y.max()) + 1
    some: Bools = np.asarray(targets(data, goal, max(2, count)).any(axis=1))
    return some


def counterexamples(
    model: Any, data: Dataset, space: Space, goal: Goal, seconds: float, seed: int = 0
) -> Known:
    """Each row broken, proven or open."""
    if isinstance(model, torch.nn.Module):
        return _played(wrap(model), NETWORK_JUDGE, data, space, goal, seed)
    if is_linear(model):
        judge = Linear(seconds=max(seconds, 0.05))
        return _played(align_columns(wrap(model), data), judge, data, space, goal, seed)
    classifier = align_columns(wrap(model), data)
    ensemble = ensemble_of(classifier)
    mask = own_classes(classifier, ensemble, targets(data, goal, ensemble.n_classes))
    found = decide(ensemble, space.around(data.x), mask, seconds)
    return Known(found.broken, found.proven, found.point)


def is_linear(model: Any) -> bool:
    """Is it an estimator whose scores are linear in the columns (`Linear` decides it exactly)?"""
    return not isinstance(model, torch.nn.Module) and weights_of(wrap(model)) is not None


def anywhere(model: Any, data: Dataset, space: Space, goal: Goal) -> Bools:
    """(n,) is a row of a linear model proven even when all that can move may take any value?

    By the bounds of the columns alone, so it is a lower bound where relations would help.
    """
    classifier = align_columns(wrap(model), data)
    form = read_linear(classifier, data.x)
    if form is None:
        return np.zeros(len(data), dtype=bool)
    held = domain(space.around(data.x), anywhere=True)
    low, high = held.low, held.high
    if not isinstance(space, TableSpace):
        moves = high > low
        top, bottom = data.x.double().amax(0), data.x.double().amin(0)
        low, high = torch.where(moves, bottom, low), torch.where(moves, top, high)
    mask = torch.from_numpy(targets(data, goal, len(form.bias)))
    safe = torch.ones(len(data), dtype=torch.bool)
    for t in range(mask.shape[1]):
        behind = ~mask[:, t]
        for s in range(mask.shape[1]):
            w = form.weight[t] - form.weight[s]
            lead = torch.where(w > 0, high, low) @ w + form.bias[t] - form.bias[s]
            behind |= ~mask[:, s] & (lead < 0)
        safe &= behind
    return np.asarray(safe.numpy())


def _played(
    model: Classifier, judge: Attack, data: Dataset, space: Space, goal: Goal, seed: int
) -> Known:  # fmt: skip
    """By an attack or a proof that plays a game of its own."""
    rows = torch.arange(len(data))
    with model.ready():
        with torch.no_grad():
            clean = model.logits(data.x)
        mask = goal.targets(data.y, clean, rows, data.classes)
        referee = Referee(mask, data.x.clone(), "first", model.slack)
        problem = Problem(
            model, space.around(data.x), referee, Stream(seed, keys(data.ids)), data.y, clean,
            mask, losses.find(goal.loss), scope=mask.any(1),
        )  # fmt: skip
        run(judge, problem)
    broken = (referee.solved & mask.any(1)).numpy()
    return Known(broken, referee.proven.numpy(), referee.best.double().numpy())


class Pool:
    """Counterexamples of all rounds so far."""

    def __init__(self, train: Dataset, space: Space, goal: Goal, most: int, seed: int) -> None:
        self.space, self.goal, self.most, self.seed = space, goal, most, seed
        self.rows = train.take(attacked(train, goal))
        self.x = np.empty((0, *train.x.shape[1:]))
        self.y: Ints = np.empty(0, dtype=np.int64)

    def attack(self, model: Any, seconds: float, step: int) -> Floats:
        """What this model's counterexamples change, on rows drawn for this step; they are kept."""
        draw = derive(self.seed, "harden", step)
        part = self.rows if self.most >= len(self.rows) else self.rows.sample(self.most, draw)
        known = counterexamples(model, part, self.space, self.goal, seconds, draw)
        at = np.flatnonzero(known.broken)
        self.x = np.concatenate([self.x, known.point[at]])
        self.y = np.concatenate([self.y, part.y.numpy()[at]])
        before = part.x.double().numpy()[at]
        change: Floats = known.point[at] - before
        change[np.isnan(known.point[at]) & np.isnan(before)] = 0.0  # a gap that stayed one
        return change

    def weighted(self) -> tuple[Floats, Ints, Floats]:
        """What is added to the training rows."""
        each = min(1.0, len(self.rows) / max(1, len(self.x)))
        return self.x, self.y, np.full(len(self.x), each)
