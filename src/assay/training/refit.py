"""refit: the user's own estimator, fitted anew with its parameters, on more and weighted rows.

Any scikit-learn style estimator that `clone` copies: XGBoost, LightGBM, CatBoost, forests,
boosting, and pipelines that end in one. Rows go in the form the estimator was fitted on: by name in
a frame where it knows names, else as an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.data import Dataset
from assay.errors import AssayError, Unsupported
from assay.kernels.arrays import Floats, Ints
from assay.model.frames import names_of


def refit(
    model: Any, data: Dataset, x: Floats | None = None, y: Ints | None = None,
    weight: Floats | None = None,
) -> Any:  # fmt: skip
    """A new estimator like `model`, fitted on the data and further rows of these weights.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rows = Dataset([[0.0], [1.0]], [0, 1])
    >>> tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    >>> refit(tree, rows, np.array([[0.4]]), np.array([1]), np.array([1.0])).predict([[0.3]])
    array([1])
    """
    from sklearn.base import clone

    labels = getattr(model, "classes_", None)
    if labels is None or not hasattr(model, "fit"):
        raise Unsupported(
            f"harden refits an estimator: {type(model).__name__} has no fit() or was never fitted; "
            "give the fitted classifier (XGBClassifier, not its Booster)"
        )
    rows = data.x.double().numpy()
    if rows.ndim != 2:
        raise AssayError(f"x has shape {rows.shape}; a table is (rows, features)")
    truth, weights = data.y.numpy(), np.ones(len(rows))
    if x is not None and y is not None and weight is not None and len(x):
        rows, truth = np.concatenate([rows, x]), np.concatenate([truth, y])
        weights = np.concatenate([weights, weight])
    fresh = clone(model)
    fresh.fit(_form(model, data, rows), np.asarray(labels)[truth], **_weighted(fresh, weights))
    return fresh


def _form(model: Any, data: Dataset, rows: Floats) -> Any:
    """Rows as the estimator was fitted on them."""
    wanted = names_of(model)
    if wanted is None or data.columns is None:
        return rows
    return data.columns.frame(rows)[list(wanted)]


def _weighted(model: Any, weights: Floats) -> dict[str, Floats]:
    """The weights, by the name under which the estimator takes them."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list):
        return {f"{steps[-1][0]}__sample_weight": weights}
    return {"sample_weight": weights}
