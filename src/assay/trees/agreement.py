"""A reading is trusted only after it agreed with the library: on, just above and just below
thresholds.

Rows where the library's own rounding may decide (scores closer than `Ensemble.slack`) are not
counted."""

from typing import Any

import numpy as np

from assay.errors import Unsupported
from assay.kernels.arrays import Floats, Ints
from assay.trees.ensemble import Ensemble


def check(ensemble: Ensemble, model: Any, rows: int = 2000, seed: int = 0) -> None:
    """Raise unless reading and model give the same label on every probing row."""
    x = probes(ensemble, rows, np.random.default_rng(seed))
    ours, theirs = ensemble.predict(x), labels(ensemble, model, x)
    wrong = (ours != theirs) & ~near_tie(ensemble, x)
    if wrong.any():
        i = int(wrong.argmax())
        raise Unsupported(
            f"the reading of this {ensemble.source} model disagrees with its predict on "
            f"{int(wrong.sum())} of "
            f"{len(x)} rows (first: {theirs[i]} there, {ours[i]} here); please report it, "
            f"and use Monte Carlo "
            "meanwhile: Nature(model.predict, noise)"
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
        spread = max(float(t[-1] - t[0]), 1e-3 * float(np.abs(t).max()), 1e-6)
        x[:, f] = rng.uniform(t[0] - 0.1 * spread, t[-1] + 0.1 * spread, size=rows)
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
        x[some] = np.nan
    return x


def near_tie(ensemble: Ensemble, x: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where the two best scores are too close for the library's own precision."""
    s = ensemble.scores(x)
    if ensemble.outputs == 1:
        return np.asarray(np.abs(s[:, 0] - ensemble.cut) <= ensemble.slack())
    top = np.sort(s, axis=1)
    return np.asarray(top[:, -1] - top[:, -2] <= ensemble.slack())


def labels(ensemble: Ensemble, model: Any, x: Floats) -> Ints:
    """The library's own labels as positions in `ensemble.classes`."""
    package = type(model).__module__.split(".")[0]
    if type(model).__name__ == "Booster":
        if package == "xgboost":
            import xgboost

            names, types = model.feature_names, model.feature_types
            p = model.predict(xgboost.DMatrix(x, feature_names=names, feature_types=types))
        else:
            p = model.predict(x)
        if p.ndim == 2:
            return np.asarray(p.argmax(axis=1), dtype=np.int64)
        return np.asarray(p > 0.5 if ensemble.outputs == 1 else p, dtype=np.int64)
    rows: Any = x
    columns = getattr(model, "feature_names_in_", None)
    if package == "sklearn" and columns is not None:  # it complains about rows without names
        import pandas as pd

        rows = pd.DataFrame(x, columns=list(columns))
    predicted = np.asarray(model.predict(rows)).ravel()
    classes = np.asarray(ensemble.classes)
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, predicted, sorter=order)], dtype=np.int64)
