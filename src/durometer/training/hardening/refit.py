"""refit: the user's own estimator, fitted anew with its parameters, on more and weighted rows.

Any scikit-learn style estimator that `clone` copies: XGBoost, LightGBM, CatBoost, forests,
boosting, and pipelines that end in one. Rows go in the form the estimator was fitted on: by name in
a frame where it knows names, else as an array.

With `kept`, all trees but a share `free` of them see only the kept features; the others are blanked
(held at the first row's value, on which nothing can split). Those trees come first.

grow: an ensemble in stages, each of some trees on its own rows, by the library's own means.

XGBoost (`xgb_model`), LightGBM and CatBoost (`init_model`), scikit-learn's forests and boosting
(`warm_start`). The estimator ends with the parameters it was given and as many trees.

What a reader would get wrong: the stages must hold the same rows in the same order, only with other
values in columns that earlier stages were not shown; scikit-learn's histogram boosting bins each
stage anew.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.dataset import Dataset
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.frames import to_fit


def refit(
    model: Any, data: Dataset, x: Floats | None = None, y: Ints | None = None,
    weight: Floats | None = None, *, kept: Bools | None = None, free: float = 1.0,
) -> Any:  # fmt: skip
    """A new estimator like `model`, fitted on the data and further rows of these weights.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rows = Dataset([[0.0], [1.0]], [0, 1])
    >>> tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    >>> refit(tree, rows, np.array([[0.4]]), np.array([1]), np.array([1.0])).predict([[0.3]])
    array([1])
    """
    labels = checked(model)
    rows = data.x.double().numpy()
    if rows.ndim != 2:
        raise DurometerError(f"x has shape {rows.shape}; a table is (rows, features)")
    truth, weights = data.y.numpy(), np.ones(len(rows))
    if x is not None and y is not None and weight is not None and len(x):
        rows, truth = np.concatenate([rows, x]), np.concatenate([truth, y])
        weights = np.concatenate([weights, weight])
    blanked = rows if kept is None else np.where(kept, rows, rows[0])
    formed = to_fit(model, data.columns)
    named = np.asarray(labels)[_own(labels, data)[truth]]
    before, last = _split(model)
    shown = formed(rows.copy())
    if before is not None:
        from sklearn.base import clone

        before = clone(before)
        before.fit(shown, named)
    ready = [part if before is None else before.transform(part)
             for part in (formed(blanked.copy()), shown)]  # fmt: skip
    fresh = grow(last, _stages(last, ready, 1.0 if kept is None else free), named, weights)
    if kept is not None and free < 1.0 and hasattr(fresh, "coef_"):
        _forget(fresh, kept, np.asarray(ready[0])[0])
    if last is model:
        return fresh
    whole = copy.copy(model)  # with what else was asked of it: memory, verbose
    whole.steps = [*(before.steps if before is not None else ()), (model.steps[-1][0], fresh)]
    return whole


def _forget(model: Any, kept: Bools, blank: Floats) -> None:
    """A linear model weighs a column that never changed like a constant: it becomes one."""
    weight = np.atleast_2d(model.coef_)
    if weight.shape[1] != len(kept):
        raise Unsupported(
            f"{type(model).__name__} behind steps that make other columns: which of them an "
            "attacker moves is not known; use free=(1.0,)"
        )
    gone = np.where(kept, 0.0, weight)
    shift = gone @ np.nan_to_num(blank)
    model.coef_ = model.coef_ - gone.reshape(np.shape(model.coef_))
    model.intercept_ = model.intercept_ + shift.reshape(np.shape(model.intercept_))


def takes_weights(model: Any) -> bool:
    """Can it be fitted on weighted rows? Votes and thresholds hand weights on to what they hold."""
    from sklearn.utils.validation import has_fit_parameter

    name = type(model).__name__
    if name == "VotingClassifier":
        return all(takes_weights(m) for _, m in model.estimators if m != "drop")
    if name in ("FixedThresholdClassifier", "CalibratedClassifierCV"):
        inner = model.estimator
        return not hasattr(inner, "steps") and takes_weights(inner)
    return bool(has_fit_parameter(model, "sample_weight"))


def checked(model: Any) -> Any:
    """The classes of an estimator that can be fitted anew."""
    labels = getattr(model, "classes_", None)
    if labels is None or not hasattr(model, "fit"):
        raise Unsupported(
            f"harden refits an estimator: {type(model).__name__} has no fit() or was never fitted; "
            "give the fitted classifier (XGBClassifier, not its Booster)"
        )
    return labels


def count(model: Any) -> int | None:
    """How many trees it has; None where they cannot be fitted in stages."""
    return trees_of(last_step(model))


def last_step(model: Any) -> Any:
    """The classifier of a pipeline; another model itself."""
    return _split(model)[1]


def free_trees(count: int, free: float) -> int:
    """How many of `count` trees see everything, at least one and not all where a share of them do.

    >>> [free_trees(60, f) for f in (0.0, 0.01, 0.02, 0.05, 1.0)]
    [0, 1, 1, 3, 60]
    """
    if free in (0.0, 1.0):
        return round(free * count)
    return min(count - 1, max(1, round(free * count)))


def _stages(model: Any, ready: list[Any], free: float) -> list[Stage]:
    count = trees_of(model)
    if count is None or free in (0.0, 1.0):
        return [Stage(count or 1, ready[1] if free == 1.0 else ready[0])]
    top = free_trees(count, free)
    return [Stage(count - top, ready[0]), Stage(top, ready[1])]


def _own(labels: Any, data: Dataset) -> Ints:
    """The estimator's class of each of the data's classes, by name where both have names."""
    names = [str(c) for c in np.asarray(labels).tolist()]
    if data.classes is not None and sorted(names) == sorted(data.classes):
        return np.array([names.index(c) for c in data.classes])
    return np.arange(len(names))


def _split(model: Any) -> tuple[Any | None, Any]:
    """What comes before the last step of a pipeline, and the last step."""
    if isinstance(getattr(model, "steps", None), list):
        return (model[:-1] if len(model.steps) > 1 else None), model.steps[-1][1]
    return None, model


@dataclass(frozen=True, eq=False)
class Stage:
    """So many trees on these rows."""

    trees: int
    rows: Any


def trees_of(model: Any) -> int | None:
    """How many rounds of trees a fitted ensemble has; None for what cannot grow in stages."""
    root = type(model).__module__.split(".")[0]
    if root == "xgboost":
        if getattr(model, "early_stopping_rounds", None):
            return int(model.best_iteration) + 1
        return int(model.get_booster().num_boosted_rounds())
    if root == "lightgbm":
        return int(model.booster_.current_iteration())
    if root == "catboost":
        return int(model.tree_count_)
    given = model.get_params(deep=False)
    if hasattr(model, "coef_"):
        return None
    if root == "sklearn" and "warm_start" in given:
        for name in ("n_estimators", "max_iter"):
            if name in given:
                return int(getattr(model, "n_iter_", given[name]))
    return None


def grow(model: Any, stages: Sequence[Stage], y: Any, weight: Floats) -> Any:
    """A copy of this fitted estimator, unfitted, then grown stage after stage."""
    from sklearn.base import clone

    root = type(model).__module__.split(".")[0]
    stages = [s for s in stages if s.trees > 0]
    fresh = clone(model)
    if type(model).__name__ == "FixedThresholdClassifier":  # its own fit hands on no weights
        rows = stages[0].rows
        fresh.fit(rows, y)
        fresh.estimator_ = clone(model.estimator).fit(rows, y, sample_weight=weight)
        return fresh
    if len(stages) == 1 and not getattr(model, "early_stopping_rounds", None):
        return fresh.fit(stages[0].rows, y, sample_weight=weight)
    if root == "sklearn":
        return _warm(fresh, stages, y, weight)
    if root not in _CONTINUES:
        raise Unsupported(f"{type(model).__name__} does not grow in stages; use free=(1.0,)")
    count, further = _CONTINUES[root]
    asked = fresh.get_params()
    done: Any = None
    for stage in stages:
        sofar: Any = done
        done = clone(fresh)
        done.set_params(**{_name(asked, count): stage.trees})
        if asked.get("early_stopping_rounds"):
            done.set_params(early_stopping_rounds=None)  # it needs an eval_set nobody gave
        more = {} if sofar is None else {further: sofar}
        done.fit(stage.rows, y, sample_weight=weight, **more)
    if root == "catboost":
        return done  # a fitted CatBoost keeps the parameters of its last stage
    return done.set_params(**{_name(asked, count): asked[_name(asked, count)]})


_CONTINUES = {
    "xgboost": (("n_estimators",), "xgb_model"),
    "lightgbm": (("n_estimators", "num_iterations", "num_boost_round"), "init_model"),
    "catboost": (("iterations", "n_estimators", "num_boost_round", "num_trees"), "init_model"),
}


def _name(asked: dict[str, Any], names: Sequence[str]) -> str:
    """The name under which the user gave the number of trees."""
    return next((n for n in names if asked.get(n) is not None), names[0])


def _warm(fresh: Any, stages: Sequence[Stage], y: Any, weight: Floats) -> Any:
    asked = fresh.get_params(deep=False)
    if "warm_start" not in asked:
        raise Unsupported(f"{type(fresh).__name__} does not grow in stages; use free=(1.0,)")
    count = "n_estimators" if "n_estimators" in asked else "max_iter"
    totals = np.cumsum([s.trees for s in stages])
    for total, stage in zip(totals, stages, strict=True):
        fresh.set_params(**{count: int(total), "warm_start": True})
        fresh.fit(stage.rows, y, sample_weight=weight)
    return fresh.set_params(**{count: asked[count], "warm_start": asked["warm_start"]})
