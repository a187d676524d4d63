"""Scalers before trees: a scikit-learn pipeline of monotone scalers and a tree model, as trees.

A scaler moves every feature by itself and never turns its order, so `scaled(x) <= t` is `x <= b`
for one b per threshold. That b is the largest float64 for which the scaler's own arithmetic passes
the test, found by bisection over the floats themselves: dividing and adding back would be off by a
rounding just where attacks and noise go.

What a reader would get wrong: only the scaler's own `transform` knows how it rounds.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Array, Floats
from durometer.trees.ensemble import Ensemble

SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


def scaled(model: Any) -> bool:
    """Is it a pipeline of scalers, or of nothing, before one last model?"""
    steps = [step for _, step in getattr(model, "steps", [])]
    return bool(steps) and all(
        type(s).__name__ in SCALERS or s is None or s == "passthrough" for s in steps[:-1]
    )


def read(model: Any) -> Ensemble:
    """The trees of the last step, with thresholds in the units of the pipeline's inputs."""
    from durometer.trees import readers

    trees = readers.read(model.steps[-1][1])
    if trees.categorical:
        raise Unsupported("a scaler before categorical splits: codes must not be scaled")
    inner = (trees.feature >= 0) & np.isfinite(trees.threshold)
    tests = np.stack([trees.feature[inner], trees.threshold[inner]], axis=1)
    pairs, place = np.unique(tests, axis=0, return_inverse=True)
    raw = trees.threshold.copy()
    raw[inner] = _borders(model, pairs[:, 0].astype(np.int64), pairs[:, 1])[place.ravel()]
    return replace(trees, threshold=raw, source=f"scaled {trees.source}")


def _borders(model: Any, feature: Array, threshold: Floats) -> Floats:
    """The largest input whose scaled value is at most the threshold."""
    at = np.arange(len(feature))
    x = np.zeros((len(feature), int(model.steps[-1][1].n_features_in_)))

    def passes(values: Floats) -> Array:
        x[at, feature] = values
        return np.asarray(transformed(model, x)[at, feature] <= threshold)

    return borders(passes, len(feature))


def borders(passes: Callable[[Floats], Array], n: int) -> Floats:
    """Of n tests that hold up to some number each: the largest float64 for which they hold."""
    top = np.finfo(np.float64).max
    low, high = (np.full(n, _key(np.array([end]))[0]) for end in (-top, top))
    for _ in range(64):
        middle = low // 2 + high // 2 + (low % 2 + high % 2) // 2  # their difference overflows
        yes = passes(_value(middle))
        low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return _value(low)


def transformed(model: Any, x: Floats) -> Floats:
    """Rows as the last step sees them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # it was fitted with names, and order is all that matters
        for _, step in model.steps[:-1]:
            if step is not None and step != "passthrough":
                x = np.asarray(step.transform(x), dtype=np.float64)
    return x


def _key(x: Floats) -> Array:
    """Floats as integers in the same order."""
    bits = x.view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _value(key: Array) -> Floats:
    bits = np.where(key >= 0, key, np.int64(-(2**63)) - key)
    return bits.astype(np.int64).view(np.float64)
