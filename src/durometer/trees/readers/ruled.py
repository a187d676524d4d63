"""Trees behind an operating rule: one sum of leaves, cut into the rule's classes.

One cut is the `cut` of an ensemble with one output. Several make one output for each class, j times
the sum minus the first j cuts, whose arg-max is the band. Regressors are read here too: a boosted
one predicts its sum, a forest its sum divided by the number of trees, so `mean >= c` is `sum >= s`
for one float s, found exactly.

What a reader would get wrong: the slack of an ensemble is worked out from its base, and the cuts of
several classes are subtracted from the base. The library still adds to the base as it was, so what
that may round is given back as doubt (`_rounded`).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError, Unsupported
from durometer.kernels.arrays import Floats
from durometer.model.frames import form
from durometer.model.rules import Ruled, log_odds
from durometer.model.thresholds import Threshold
from durometer.trees.agreement import probes
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers.sklearn import MEANS, REGRESSORS
from durometer.trees.readers.threshold import UNITS, doubted, least_sum, thresholded

_READ = {
    "xgboost": ("XGBRegressor", "XGBRanker"),
    "lightgbm": ("LGBMRegressor", "LGBMRanker"),
    "sklearn": REGRESSORS,
}


def regressor(model: Any) -> bool:
    """Is it a tree regressor that is read?"""
    return type(model).__name__ in _READ.get(type(model).__module__.split(".")[0], ())


def read_regressor(model: Any) -> Ensemble:
    """The sum of a regressor's trees, compared with what it predicts."""
    package = type(model).__module__.split(".")[0]
    reader = importlib.import_module(f"durometer.trees.readers.{package}")
    try:
        trees: Ensemble = reader.read_regressor(model)
    except DurometerError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DurometerError(
            f"the trees of this {type(model).__name__} cannot be read ({error}): it is not fitted, "
            "damaged, or of a version not known here"
        ) from error
    x = probes(trees, 2000, np.random.default_rng(0))
    theirs = np.asarray(model.predict(form(model, None)(x)), dtype=np.float64).reshape(-1)
    ours = trees.scores(x)[:, 0] / (trees.n_trees if type(model).__name__ in MEANS else 1)
    off = np.abs(ours - theirs)
    if not bool((off <= trees.slack()).all()):
        raise Unsupported(
            f"the reading of this {trees.source} differs from predict by up to {off.max():.3g}; "
            "please report it, and use a search: Graft or Square"
        )
    return trees


def cut_up(trees: Ensemble, model: Ruled, cuts: Sequence[float]) -> Ensemble:
    """The trees of the estimator inside, with the rule's classes."""
    source = f"{trees.source} behind a rule"
    classes = tuple(model.classes_.tolist())
    if model.method in ("predict_proba", "decision_function") and len(cuts) == 1:
        made = thresholded(trees, Threshold(model.estimator, cuts[0], 1, model.method))
        return replace(made, source=source, classes=classes)
    base, value, at = trees.base, trees.value, np.asarray(cuts, dtype=np.float64)
    if model.method == "predict_proba":
        if trees.n_classes != 2:
            raise Unsupported(f"{source}: {trees.n_classes} classes; a rule is about two")
        if trees.outputs == 2:
            base, value = base[[1]], np.ascontiguousarray(value[:, [1]])
            at = np.array([least_sum(c, trees.n_trees) for c in cuts])
        else:
            units = max(UNITS / (c * (1 - c)) for c in cuts)
            trees = doubted(trees, units * len(cuts))
            base, value, at = trees.base, trees.value, log_odds(at)
    elif trees.outputs != 1:
        raise Unsupported(f"{source}: its score is not one sum of trees")
    elif type(model.estimator).__name__ in MEANS:
        at = np.array([least_sum(c, trees.n_trees) for c in cuts])
    below = np.nextafter(at, -np.inf)
    if len(cuts) == 1:
        return replace(trees, base=base, value=value, cut=float(below[0]), classes=classes,
                       source=source, library=None)  # fmt: skip
    trees = doubted(replace(trees, base=base, value=value), _rounded(trees, base, value, at))
    base, value = trees.base, trees.value
    step = np.arange(len(cuts) + 1, dtype=np.float64)
    return replace(
        trees, value=np.ascontiguousarray(value * step), cut=0.0, classes=classes, source=source,
        base=base * step - np.concatenate([[0.0], np.cumsum(below)]), library=None,
    )  # fmt: skip


def _rounded(trees: Ensemble, base: Floats, value: Floats, cuts: Floats) -> float:
    """How much doubt, in units of the last place, the sum and its cuts carry, in any order."""
    leaves = np.where(trees.feature < 0, np.abs(value[:, 0]), 0.0)
    largest = np.maximum.reduceat(leaves, trees.roots).sum()
    return float(trees.n_trees * (np.abs(base).max() + largest) + 4 * np.abs(cuts).sum())
