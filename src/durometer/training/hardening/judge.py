"""Each round's model on the same held-out rows: accuracy by class, proven, broken, open, vacuous.

*Vacuous* is the proof of a row that holds even when everything the attacker can move at all may
take any value: the decision hangs on what stays. It is decided by the same exact search in a larger
box, with the relations, so the share is one of proofs too, and a lower bound where time runs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.goals.goal import Goal
from durometer.kernels.arrays import Bools, Floats
from durometer.model.classifier import wrap
from durometer.model.frames import align_columns
from durometer.proofs.search.decide import vacuous
from durometer.spaces.region import Space
from durometer.training.hardening.counterexamples import (
    anywhere,
    attacked,
    counterexamples,
    is_linear,
    targets,
)
from durometer.training.hardening.path import Change, Guide, Round, Unmovable
from durometer.training.hardening.refit import refit
from durometer.training.hardening.retention import reach
from durometer.training.holdout import holdout
from durometer.trees.align_ensemble import ensemble_of, own_classes

TESTED = 0.7  # of the held-out rows: on these alone the price is tested


@dataclass(frozen=True, eq=False)
class Judge:
    """Held-out rows, and among them those that are proven or broken one by one."""

    held: Dataset
    part: Dataset
    space: Space
    goal: Goal
    seconds: float
    kept: Bools  # (held,) rows kept for the test of the price: no choice but that one looks at them
    kept_part: Bools  # (part,) the same

    @classmethod
    def of(
        cls, held: Dataset, space: Space, goal: Goal, most: int, seconds: float, seed: int
    ) -> Judge:
        mask = attacked(held, goal)
        if not mask.any():
            raise DurometerError(f"goal {goal!r}: no held-out row has any class to be pushed to")
        part = held.take(mask)
        part = part if most >= len(part) else part.sample(most, seed)
        _, tested = holdout(held, TESTED, seed + 1)
        ids = set(np.asarray(tested.ids).tolist())
        kept, among = (
            np.array([i in ids for i in np.asarray(d.ids).tolist()], dtype=bool)
            for d in (held, part)
        )
        return cls(held, part, space, goal, seconds, kept, among)

    def __call__(
        self, model: Any, first: Any, number: int, free: float, step: int, added: int
    ) -> Round:
        """One line of the path; `first` is the model of round 0."""
        right, y = is_correct(model, self.held), self.held.y.numpy()
        recall = tuple(float(right[y == c].mean()) for c in np.unique(y))
        known = counterexamples(model, self.part, self.space, self.goal, self.seconds)
        correct = is_correct(model, self.part)
        proven = known.proven & correct
        broken = known.broken | ~correct
        vacuous = self.vacuous(model, proven)
        before, free_rows = is_correct(first, self.held), ~self.kept
        recalls = [_mean(right[free_rows & (y == c)]) for c in np.unique(y)]
        guide = Guide(
            _mean(right[free_rows]), tuple(recalls), _mean(proven[~self.kept_part]),
            _error(right[free_rows], before[free_rows]),
        )  # fmt: skip
        changes = []
        for c in np.unique(y):
            at = self.kept & (y == c)
            lost, gained = (before & ~right)[at], (right & ~before)[at]
            changes.append(Change(int(at.sum()), int(lost.sum()), int(gained.sum())))
        return Round(
            number, free, step, float(right.mean()), recall, float(proven.mean()),
            float(broken.mean()), float((~proven & ~broken).mean()), vacuous, added, guide,
            tuple(changes),
        )  # fmt: skip

    def vacuous(self, model: Any, proven: Bools) -> float:
        """Of these proven rows, the share proven at any size of what moves."""
        if isinstance(model, torch.nn.Module) or not proven.any():
            return 0.0
        part = self.part.take(proven)
        if is_linear(model):
            return float(anywhere(model, part, self.space, self.goal).mean())
        classifier = align_columns(wrap(model), part)
        ensemble = ensemble_of(classifier)
        mask = own_classes(classifier, ensemble, targets(part, self.goal, ensemble.n_classes))
        region = self.space.around(part.x)
        return float(vacuous(ensemble, region, mask, 0.05).mean())

    def unmovable(self, model: Any, train: Dataset) -> Unmovable | None:
        """The same estimator, and a single rule, on features no attacked row can move."""
        start = train.take(attacked(train, self.goal))
        low, high = reach(self.space, start)
        still: Bools = np.asarray(~(low < high).any(axis=0))
        if not still.any() or still.all() or isinstance(model, torch.nn.Module):
            return None
        blind = refit(model, train, kept=still, free=0.0)
        at = attacked(self.held, self.goal)
        right = is_correct(blind, self.held)
        rule, accuracy = _rule(train, self.held, np.flatnonzero(still))
        return Unmovable(
            int(still.sum()), float(right.mean()), float(right[at].mean()), rule, accuracy
        )


def is_correct(model: Any, data: Dataset) -> Bools:
    """(n,) does the model give each row its label?"""
    classifier = align_columns(wrap(model), data)
    with classifier.ready(), torch.no_grad():
        answer: Bools = (classifier.logits(data.x).argmax(1) == data.y).numpy()
    return answer


def _mean(values: Bools) -> float:
    return float(values.mean()) if len(values) else 0.0


def _error(right: Bools, first: Bools) -> float:
    """The standard error of the difference of two accuracies on the same rows."""
    gain = right.astype(float) - first.astype(float)
    return float(gain.std() / np.sqrt(len(gain))) if len(gain) else 0.0


def _rule(train: Dataset, held: Dataset, still: Any) -> tuple[str, float]:
    """The best single question about one of these features, and its held-out accuracy."""
    from sklearn.tree import DecisionTreeClassifier

    def of(data: Dataset) -> Floats:
        rows: Floats = np.nan_to_num(data.x.double().numpy()[:, still])
        return rows

    stump = DecisionTreeClassifier(max_depth=1, random_state=0).fit(of(train), train.y.numpy())
    place = int(stump.tree_.feature[0])
    if place < 0:
        return "always the same answer", float(stump.score(of(held), held.y.numpy()))
    f = int(still[place])
    return _said(train, f, float(stump.tree_.threshold[0])), float(
        stump.score(of(held), held.y.numpy())
    )


def _said(data: Dataset, f: int, threshold: float) -> str:
    """A question about one feature; of text, which values it is about."""
    if data.columns is None:
        return f"{f} <= {threshold:g}"
    column = data.columns.each[f]
    if column.kind != "label":
        return f"{column.name} <= {threshold:g}"
    pairs = zip(column.values, column.codes, strict=True)
    low = [str(v) for v, code in pairs if code <= threshold]
    more = f" ... ({len(low)} values)" if len(low) > 3 else ""
    return f"{column.name} is {' or '.join(low[:3])}{more}"
