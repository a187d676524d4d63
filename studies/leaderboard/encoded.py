"""Estimators fitted on any table of the board, text columns included.

Boosters take text as categories of their own (XGBoost, LightGBM) or as strings (CatBoost);
whatever else there is stands behind a one-hot encoder, and is then asked by its scores alone.
"""

from __future__ import annotations

from typing import Any

import durometer as du


def fit(estimator: Any, train: du.Dataset) -> Any:
    """On numbers where all columns are, else on the frame."""
    y, library = train.y.numpy(), type(estimator).__module__.partition(".")[0]
    if train.table is None:  # numbers only, codes among them
        return estimator.fit(train.x.numpy(), y)
    frame = train.frame()
    text = [name for name in frame if frame[name].dtype.kind not in "iufb"]
    if not text:
        return estimator.fit(train.x.numpy(), y)
    if library in ("xgboost", "lightgbm"):
        return estimator.fit(frame.astype(dict.fromkeys(text, "category")), y)
    if library == "catboost":
        return estimator.fit(frame.astype(dict.fromkeys(text, str)), y, cat_features=text)
    return _encoded(estimator, text).fit(frame, y)


def _encoded(estimator: Any, text: list[str]) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(
        make_column_transformer((encoder, text), remainder="passthrough"), estimator
    )
