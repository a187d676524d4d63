"""grow: an ensemble in stages, each of some trees on its own rows, by the library's own means.

XGBoost (`xgb_model`), LightGBM and CatBoost (`init_model`), scikit-learn's forests and boosting
(`warm_start`). The estimator ends with the parameters it was given and as many trees.

What a reader would get wrong: the stages must hold the same rows in the same order, only with other
values in columns that earlier stages were not shown; scikit-learn's histogram boosting bins each
stage anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Floats


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
