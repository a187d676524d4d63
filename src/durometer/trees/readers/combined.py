"""Classifiers of scikit-learn made of tree models: calibrated ones, and votes on probabilities.

A calibrator (isotonic, sigmoid) keeps the order of one classifier's scores, so the calibrated one
decides by a threshold on them. Where the threshold lies is asked of the calibrator itself, by
halving. An isotonic one is a line between two knots, and rounding keeps the order of what is
subtracted, multiplied and added there; that it is kept from line to line is asked at every knot.
Of a sigmoid, scores at which it is within rounding of 1/2 are doubt, which every proof is told of.
A soft vote of forests and trees is a weighted sum of sums.

What a reader would get wrong: the mean of several calibrated classifiers (`ensemble=True` with
folds), and a vote of boosted models, are sums of curves, not of trees: they are not read. Nor is a
vote by labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Array, Floats
from durometer.model.thresholds import Threshold
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers.pipeline import borders
from durometer.trees.readers.threshold import UNITS, doubted, thresholded

_NEAR = 1e-12  # of a probability of 1/2: a calibrator's own rounding
_NEAR_SINGLE = 1e-6  # where it is asked in single precision


def inside(model: Any) -> list[Any]:
    """The fitted classifiers a model is made of: [] if it is none of those that are read."""
    name = type(model).__name__
    if name == "CalibratedClassifierCV":
        found = list(getattr(model, "calibrated_classifiers_", ()))
        if len(found) != 1 or len(model.classes_) != 2 or found[0].method not in _METHODS:
            return []
        return [_thawed(found[0].estimator)]
    if name == "VotingClassifier" and model.voting == "soft":
        return list(getattr(model, "estimators_", ()))
    return []


_METHODS = ("sigmoid", "isotonic")


def _thawed(model: Any) -> Any:
    return model.estimator if type(model).__name__ == "FrozenEstimator" else model


def calibrated(model: Any, trees: Ensemble) -> Ensemble:
    """The trees of the one classifier inside, with the threshold its calibrator makes."""
    (held,) = model.calibrated_classifiers_
    (calibrator,) = held.calibrators
    estimator = _thawed(held.estimator)
    source = f"calibrated {trees.source}"
    falls = calibrator.a_ > 0 if held.method == "sigmoid" else not calibrator.increasing_
    if falls:
        raise Unsupported(f"{source}: its calibrator turns the scores round; it is not read")
    by_sum = hasattr(estimator, "decision_function")
    dtype = np.dtype(np.float64)
    if not by_sum:
        dtype = estimator.predict_proba(_rows(model, trees)).dtype

    def positive(score: Floats, p: float = 0.5) -> Array:
        with np.errstate(all="ignore"):
            found = np.asarray(calibrator.predict(score.astype(dtype)), dtype=np.float64)
        return np.asarray(found > p)

    def last(p: float) -> float:
        """The largest score whose probability is at most p."""

        def low(score: Floats) -> Array:
            return ~positive(score if by_sum else score.clip(0.0, 1.0), p) & (by_sum | (score <= 1))

        return float(borders(low, 1)[0])

    near = _NEAR if dtype == np.float64 else _NEAR_SINGLE
    cut = low = high = last(0.5)
    if held.method == "sigmoid":
        low, high = last(0.5 - near), last(0.5 + near)
    elif not _rises(calibrator.X_thresholds_.astype(dtype), positive):
        raise Unsupported(f"{source}: rounding turns its calibrator round at a knot")
    value = float(np.nextafter(cut, np.inf))  # from it on class 1
    if by_sum and not np.isfinite([low, high, value]).all():
        raise Unsupported(f"{source}: it never answers one of its classes, or nearly so")
    if not by_sum and not (0 < value < 1 and low >= 0 and high <= 1):
        raise Unsupported(f"{source}: it never answers one of its classes, or nearly so")
    wide = high - low
    if by_sum:
        made = thresholded(trees, Threshold(estimator, value, 1, "decision_function"))
        units = wide
    else:
        made = thresholded(trees, Threshold(estimator, value, 1, "predict_proba"))
        units = wide * trees.n_trees if trees.outputs == 2 else wide / (value * (1 - value))
    unit = 2.0**-24 if trees.single else 2.0**-53
    made = doubted(made, units / unit + UNITS)
    return replace(made, source=source, classes=tuple(np.asarray(model.classes_).tolist()))


def _rises(knots: Floats, positive: Callable[[Floats], Array]) -> bool:
    """Is the answer never taken back from one knot to the next? Between them it is not."""
    ends = [np.nextafter(knots, k, dtype=knots.dtype) for k in (-np.inf, np.inf)]
    at = np.unique(np.concatenate([knots, *ends]))
    return bool((np.diff(positive(at).astype(np.int8)) >= 0).all())


def _rows(model: Any, trees: Ensemble) -> Any:
    rows = np.zeros((1, trees.n_features))
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))


def voted(model: Any, members: list[Ensemble]) -> Ensemble:
    """A soft vote of forests and trees, as one sum of trees."""
    classes = tuple(np.asarray(model.classes_).tolist())
    source = f"a vote of {len(members)} models"
    for m in members:
        if m.outputs != len(classes) or m.single:
            raise Unsupported(
                f"{source}: {m.source} among them gives no sum of probabilities (boosted models do "
                "not); it is not read"
            )
    weights = np.ones(len(members))
    if model.weights is not None:
        kept = [e is not None and e != "drop" for _, e in model.estimators]
        weights = np.asarray(model.weights, dtype=np.float64)[kept]
    if (weights < 0).any() or not weights.sum() > 0:
        raise Unsupported(f"{source}: weights {weights.tolist()}; expected none below 0")
    share = weights / weights.sum()
    nodes = np.cumsum([0, *(len(m.feature) for m in members)])[:-1]

    def joined(name: str, shift: bool = False) -> Any:
        parts = [getattr(m, name) for m in members]
        dtype = parts[0].dtype
        if shift:
            parts = [np.where(p < 0, p, p + n) for p, n in zip(parts, nodes, strict=True)]
        return np.concatenate(parts).astype(dtype)

    value = np.concatenate([m.value * (w / m.n_trees) for m, w in zip(members, share, strict=True)])
    whole = replace(
        members[0], feature=joined("feature"), threshold=joined("threshold"),
        left=joined("left", True), right=joined("right", True),
        missing_left=joined("missing_left"), roots=joined("roots", True), value=value,
        base=np.zeros(len(classes)), classes=classes, source=source, library=None,
        missing=all(m.missing for m in members),
        never_missing=tuple(sorted({f for m in members for f in m.never_missing})),
        categorical=tuple(sorted({f for m in members for f in m.categorical})),
    )  # fmt: skip
    return doubted(whole, UNITS * (len(members) + 2))
