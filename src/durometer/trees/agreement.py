"""A reading is trusted only after it agreed with the library: on, just above and just below
thresholds, on sentinels, on whole codes and on NaN.

Raw scores are compared, not labels: two readings may give the same label on thousands of rows and
differ where it counts (the linear leaves of LightGBM did). They must agree to what rounding can do
(`Ensemble.slack`); labels wherever scores are further apart than that.

What a reader would get wrong: the sums here are those of the library, whatever it shows its user: a
forest shows the mean."""

from collections.abc import Callable
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.data.columns import Columns
from durometer.kernels.arrays import Floats, Ints
from durometer.trees.ensemble import Ensemble


def check(ensemble: Ensemble, model: Any, rows: int = 2000, seed: int = 0) -> None:
    """Raise unless reading and model give the same scores and labels on every probing row."""
    x = probes(ensemble, rows, np.random.default_rng(seed))
    off = np.abs(ensemble.scores(x) - raw_scores(ensemble, model, x)).max(axis=1)
    wrong = ~(off <= ensemble.slack())
    ours, theirs = ensemble.predict(x), labels(ensemble, model, x)
    wrong |= (ours != theirs) & ~ensemble.near_tie(x)
    if wrong.any():
        i = int(wrong.argmax())
        raise Unsupported(
            f"the reading of this {ensemble.source} model disagrees with its predict on "
            f"{int(wrong.sum())} of {len(x)} rows (first: label {theirs[i]} there, {ours[i]} here, "
            f"scores {off[i]:.3g} apart); please report it, and use Monte Carlo meanwhile: "
            "Nature(model, noise, method='monte carlo')"
        )


def check_labels(
    ensemble: Ensemble, library: Callable[[Floats], Ints], columns: Columns | None, rows: int = 2000
) -> None:
    """Raise unless reading and library give the same labels on every probing row."""
    rng = np.random.default_rng(0)
    x = probes(ensemble, rows, rng)
    for i, c in enumerate(() if columns is None else columns.each):
        if c.kind == "label":  # a pipeline takes only the values of its table
            x[:, i] = rng.choice(np.asarray(c.codes), rows)
    wrong = (ensemble.predict(x) != library(x)) & ~ensemble.near_tie(x)
    if wrong.any():
        raise Unsupported(
            f"the reading of this {ensemble.source} disagrees with its predict on "
            f"{int(wrong.sum())} of {len(x)} rows; please report it, and use a search: Graft"
        )


def probes(ensemble: Ensemble, rows: int, rng: np.random.Generator) -> Floats:
    """Rows around the model's own thresholds: on them, one float32 and one float64 step beside,
    and random."""
    x = np.empty((rows, ensemble.n_features))
    for f in range(ensemble.n_features):
        # beyond float32's range there is nothing to stand beside
        ours = (ensemble.feature == f) & (np.abs(ensemble.threshold) < 1e38)
        t = np.unique(ensemble.threshold[ours])
        if not len(t):
            x[:, f] = rng.normal(size=rows)
            continue
        if f in ensemble.categorical:  # codes: what lies between is no question to the library
            x[:, f] = rng.integers(0, int(np.ceil(t[-1])) + 2, size=rows)
            continue
        # a sentinel far away must not swallow the others
        core = t[np.argsort(np.abs(t - np.median(t)))[: max(len(t) - 4, 1)]]
        spread = max(float(np.ptp(core)), 1e-3 * float(np.abs(core).max()), 1e-6)
        x[:, f] = rng.uniform(core.min() - 0.1 * spread, core.max() + 0.1 * spread, size=rows)
        at = rng.choice(t, size=rows)
        single = at.astype(np.float32)
        near = np.stack(
            [
                at,
                np.nextafter(at, np.inf),
                np.nextafter(at, -np.inf),
                single.astype(np.float64),
                np.nextafter(single, np.float32(np.inf)).astype(np.float64),
                np.nextafter(single, np.float32(-np.inf)).astype(np.float64),
            ]
        )
        kind = rng.integers(0, 12, size=rows)  # half of the entries stay random
        x[:, f] = np.where(kind < 6, near[np.minimum(kind, 5), np.arange(rows)], x[:, f])
    if ensemble.missing:
        some = rng.random(x.shape) < 0.05
        some[: rows // 2] = False
        some[:, list(ensemble.never_missing)] = False
        x[some] = np.nan
    return x


def labels(ensemble: Ensemble, model: Any, x: Floats) -> Ints:
    """The library's own labels as positions in `ensemble.classes`."""
    package = type(model).__module__.split(".")[0]
    if type(model).__name__ == "Booster":
        p = _xgboost(model, x) if package == "xgboost" else model.predict(x)
        if p.ndim == 2:
            return np.asarray(p.argmax(axis=1), dtype=np.int64)
        return np.asarray(p > 0.5 if ensemble.outputs == 1 else p, dtype=np.int64)
    return positions(ensemble, model.predict(_named(model, x)))


def positions(ensemble: Ensemble, predicted: Any) -> Ints:
    """Predicted classes as positions in `ensemble.classes`."""
    predicted, classes = np.asarray(predicted).ravel(), np.asarray(ensemble.classes)
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, predicted, sorter=order)], dtype=np.int64)


def raw_scores(ensemble: Ensemble, model: Any, x: Floats) -> Floats:
    """The library's own sums, (n, outputs), in the units of `Ensemble.scores`."""
    package, name = type(model).__module__.split(".")[0], type(model).__name__
    if name == "Pipeline":
        from durometer.trees.readers.pipeline import transformed

        return raw_scores(ensemble, model.steps[-1][1], transformed(model, x))
    if package == "xgboost":
        if name == "Booster":
            found = _xgboost(model, x, output_margin=True)
        else:
            found = model.predict(x, output_margin=True)
    elif package == "lightgbm":
        found = model.predict(x, raw_score=True)
    elif package == "catboost":
        found = model.predict(x, prediction_type="RawFormulaVal")
    elif hasattr(model, "decision_function"):
        found = model.decision_function(_named(model, x))
    else:
        found = model.predict_proba(_named(model, x)) * ensemble.n_trees
    return np.asarray(found, dtype=np.float64).reshape(x.shape[0], ensemble.outputs)


def _xgboost(booster: Any, x: Floats, **how: Any) -> Any:
    import xgboost

    names, types = booster.feature_names, booster.feature_types
    return booster.predict(xgboost.DMatrix(x, feature_names=names, feature_types=types), **how)


def _named(model: Any, x: Floats) -> Any:
    """The rows with the names the model was fitted with: scikit-learn complains without."""
    columns = getattr(model, "feature_names_in_", None)
    if type(model).__module__.split(".")[0] != "sklearn" or columns is None:
        return x
    import pandas as pd

    return pd.DataFrame(x, columns=list(columns))
