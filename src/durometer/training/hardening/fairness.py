"""without_flips: refit a model until it is proven that some features alone never flip a decision.

Plans, from the gentlest on; the first whose flips are proven empty is taken:

    as it was       the same estimator on the same rows
    swapped rows    each training row again, with the features as another row has them
    5 % free trees  only the last twentieth of the trees see the features (where it grows in stages)
    unseen          no tree sees them, so that there is nothing left to flip

What a reader would get wrong: this is about the features that are named. Others may stand for them
(a husband is a man), and no proof here says that they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.gates.properties import Property
from durometer.proofs.globally.answer import GlobalAnswer
from durometer.proofs.globally.points import valid
from durometer.tables.schema import Schema
from durometer.training.hardening.judge import is_correct
from durometer.training.hardening.path import Change
from durometer.training.hardening.refit import checked, count, refit
from durometer.training.holdout import holdout


@dataclass(frozen=True, eq=False)
class Unflipped:
    """The outcome of `without_flips`.

    Args:
        model: The refitted model, of the kind that was given.
        plan: How it was fitted: "as it was", "swapped rows", "5 % free trees" or "unseen".
        answers: What `flips` said of each plan that was tried, in their order.
        price: Of the held-out rows: how many the plan loses and gains against "as it was".

    >>> answer = GlobalAnswer("does a alone flip a decision?", "proven", None, -0.2, "score")
    >>> print(Unflipped(None, "unseen", {"unseen": answer}, Change(500, 6, 1)))
    unseen: proven: no valid record does (largest value: none, whatever the records (score))
    chosen: unseen; of 500 held-out rows it loses 6 and gains 1: 1.0 points of accuracy
    """

    model: Any
    plan: str
    answers: dict[str, GlobalAnswer]
    price: Change

    def __str__(self) -> str:
        lines = [f"{p}: {a.verdict} (largest value: {a.value})" for p, a in self.answers.items()]
        points = 100 * (self.price.lost - self.price.gained) / max(1, self.price.rows)
        lines.append(
            f"chosen: {self.plan}; of {self.price.rows} held-out rows it loses {self.price.lost} "
            f"and gains {self.price.gained}: {points:.1f} points of accuracy"
        )
        return "\n".join(lines)


def without_flips(
    model: Any,
    data: Dataset,
    of: Sequence[str],
    *,
    by: float = 0.0,
    share: float = 0.2,
    seconds: float = 10.0,
    seed: int = 0,
) -> Unflipped:
    """Refits a tree ensemble until some features alone provably never flip a decision.

    Every refit is your own estimator with its parameters. Other features may still stand for the
    ones that are named.

    Args:
        model: The fitted model.
        data: The training data, with a schema.
        of: The features, e.g. `["sex"]`.
        by: A flip whose smaller lead is at most this is allowed, in the unit of the score.
        share: Share of the rows held out, on which the price is counted.
        seconds: Computing time of each proof, in seconds.
        seed: Seed of all draws.

    Returns:
        An `Unflipped`: the model, how it was fitted, and its price.

    Raises:
        DurometerError: The data have no schema, or no such feature.
        Unsupported: The model cannot be refitted or read.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
    >>> schema = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"])
    >>> data = du.Dataset(x, (x[:, 0] + (x[:, 1] > 7) > 4).astype(int), schema=schema)
    >>> tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, data.y.numpy())
    >>> made = du.training.without_flips(tree, data, ["b"])
    >>> made.plan, [a.status for a in made.answers.values()]
    ('unseen', ['found', 'found', 'proven'])
    """
    schema = data.schema
    if schema is None:
        raise DurometerError("without_flips: what a valid record is, is not known; give a schema")
    claim = Property("flip", list(of), by)
    checked(model)
    train, held = holdout(data, share, seed)
    seen = np.array([name not in of for name in schema.names])
    swapped = _swapped(train, schema, seen, seed)
    plans: dict[str, dict[str, Any]] = {"as it was": {}, "swapped rows": swapped}
    if count(model) is not None:
        plans["5 % free trees"] = {"kept": seen, "free": 0.05}
    plans["unseen"] = {"kept": seen, "free": 0.0}
    answers: dict[str, GlobalAnswer] = {}
    first = made = None
    plan = ""
    for plan, how in plans.items():
        made = refit(model, train, **how)
        first = made if first is None else first
        answers[plan] = claim.ask(made, schema, held, seconds=seconds)
        if answers[plan].status == "proven":
            break
    before, after = is_correct(first, held), is_correct(made, held)
    lost, gained = int((before & ~after).sum()), int((after & ~before).sum())
    return Unflipped(made, plan, answers, Change(len(held), lost, gained))


def _swapped(train: Dataset, schema: Schema, seen: np.ndarray, seed: int) -> dict[str, Any]:
    """Valid rows with these features as another row has them, under their own labels."""
    x = train.x.double().numpy()
    other = x[np.random.default_rng(seed).permutation(len(x))]
    mixed = np.where(seen, x, other)
    good = valid(schema, mixed)
    weight = np.ones(int(good.sum()))
    return {"x": mixed[good], "y": train.y.numpy()[good], "weight": weight}
