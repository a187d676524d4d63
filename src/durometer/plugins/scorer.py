"""robust_scorer: robust accuracy as a scorer of scikit-learn, for `GridSearchCV` and its kin.

A scorer is called with (estimator, X, y) for every fold and every setting; each call is one
`evaluate`, so its price is the number of fits times the price of an evaluation: `rows=` bounds it.

What a reader would get wrong: "at most" (not broken by the attack) ranks two models only as far
as the attack is equally strong on both. "at least" (proven) has no such flaw, but is 0 for models
that no proof knows; the scorer refuses these instead of ranking them all as 0.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from durometer._evaluate import evaluate
from durometer.attacks.base import Attack
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.goals.goal import Expandable
from durometer.spaces.region import Space
from durometer.tables.space import TableSpace


@noun
class RobustScorer:
    """What `robust_scorer` makes, which explains its fields: a callable of (estimator, X, y)."""

    space: Space
    goal: Expandable | None = None
    attack: Attack | Literal["standard"] = "standard"
    side: Literal["at least", "at most"] = "at most"
    rows: int | None = field(default=None, metadata={"above": 0})
    seed: int = 0

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The robust accuracy of a fitted estimator on these rows."""
        schema = self.space.schema if isinstance(self.space, TableSpace) else None
        data = Dataset(X, y, schema=schema)
        if self.rows is not None and self.rows < len(data):
            data = data.sample(self.rows, self.seed)
        report = evaluate(
            estimator,
            data,
            space=self.space,
            goal=self.goal,
            attack=self.attack,
            seed=self.seed,
            progress=False,
        )
        if self.side == "at most":
            return float(report.metric("robust"))
        unproven = next((flag for flag in report.flags if flag.id == "no-proof"), None)
        if unproven is not None:
            raise Unsupported(
                f"robust_scorer(side='at least') on {type(estimator).__name__}: {unproven.text}; "
                "score with side='at most'"
            )
        return float(report.metric("proven"))


def robust_scorer(
    space: Space,
    goal: Expandable | None = None,
    attack: Attack | Literal["standard"] = "standard",
    side: Literal["at least", "at most"] = "at most",
    rows: int | None = None,
    seed: int = 0,
) -> RobustScorer:
    """Makes a scorer of scikit-learn that measures robust accuracy.

    It works wherever scikit-learn takes `scoring=`: `cross_validate`, `GridSearchCV`,
    `permutation_importance`, `learning_curve`; with pipelines and frames, in worker processes.

    Args:
        space: What the attacker may change, e.g. `schema.space(eps=0.1)`. A table space brings its
            schema: the columns of X are matched by name where X is a frame, else by position.
        goal: What counts as a success of the attacker. None is `Untargeted()`.
        attack: The attack; "standard" is the ensemble of proofs and attacks that fits the model.
        side: "at most" scores the share of rows that the attack did not break; "at least" the share
            that is proven robust.
        rows: Score on a random sample of at most so many rows of each fold, to bound the price.
            None scores on all rows.
        seed: Seed of the sample and of the attack.

    Returns:
        A callable (estimator, X, y) -> float, higher is more robust. The same rows, model and seed
            give the same score.

    Raises:
        DurometerError: An argument is wrong.
        Unsupported: While scoring with side="at least": no proof knows this kind of model.

    >>> import durometer as du
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> heart = du.datasets.heart()
    >>> scorer = du.robust_scorer(heart.train.schema.space(eps=0.05), side="at least", rows=60)
    >>> tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    >>> x, y = heart.train.x.numpy(), heart.train.y.numpy()
    >>> [round(float(s), 2) for s in cross_val_score(tree, x, y, scoring=scorer, cv=3)]
    [0.73, 0.73, 0.7]
    """
    return RobustScorer(space, goal, attack, side, rows, seed)
