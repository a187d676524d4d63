"""`read(model)`: the flat form of any supported tree model, trusted only after it passed `check`.

Libraries are recognised by module name, so none is imported that the user has not imported already.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.columns import Columns
from durometer.kernels.arrays import Floats, Ints
from durometer.model.frames import form
from durometer.model.thresholds import threshold_of
from durometer.trees.agreement import check, check_labels, labels, positions
from durometer.trees.ensemble import Ensemble

SUPPORTED = (
    "scikit-learn DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting and "
    "HistGradientBoosting classifiers; XGBoost, LightGBM and CatBoost classifiers and Boosters; "
    "pipelines of scalers, imputers, one-hot and ordinal encoders (of text) before one of them; "
    "FixedThresholdClassifier and TunedThresholdClassifierCV around one of these"
)


def reader(model: Any, columns: Columns | None = None) -> str | None:
    """The name of the reader for this model, None if it is no tree model we read.

    With the data's `columns` also pipelines that encode them.
    """
    package = type(model).__module__.split(".")[0]
    name = type(model).__name__
    rule = threshold_of(model)
    if rule is not None:
        return "threshold" if reader(rule.estimator, columns) is not None else None
    if package == "sklearn":
        from durometer.trees.readers.encoded import encoded
        from durometer.trees.readers.pipeline import scaled
        from durometer.trees.readers.sklearn import NAMES

        if scaled(model):
            return "pipeline" if reader(model.steps[-1][1]) is not None else None
        if columns is not None and encoded(model):
            return "encoded" if reader(model.steps[-1][1]) is not None else None
        return "sklearn" if name in NAMES else None
    known = {
        "xgboost": ("XGBClassifier", "XGBRFClassifier", "Booster"),
        "lightgbm": ("LGBMClassifier", "Booster"),
        "catboost": ("CatBoostClassifier",),
    }
    return package if name in known.get(package, ()) else None


def read(model: Any, columns: Columns | None = None, *, checked: bool = True) -> Ensemble:
    """Reads a fitted tree model into flat arrays, and compares the reading with the model's own
    predictions.

    Args:
        model: A scikit-learn, XGBoost, LightGBM or CatBoost classifier, or a pipeline of scalers
            and encoders before one.
        columns: The columns of the data, for pipelines that encode text.
        checked: Whether to compare with the model's own predictions.

    Returns:
        The `Ensemble`.

    Raises:
        Unsupported: The model is of a kind that is not read.
        DurometerError: The model is not fitted, damaged, or the reading differs from it.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> found = read(tree)
    >>> found.n_trees, found.threshold[found.feature >= 0].round(3).tolist()
    (1, [1.5])
    """
    if isinstance(model, Ensemble):
        return model
    name = reader(model, columns)
    if name == "threshold":
        return _thresholded(model, columns, checked)
    if name == "encoded":
        return _encoded(model, columns)
    if name is None:
        raise Unsupported(
            f"{type(model).__name__} is not a tree model that is read; supported: {SUPPORTED}"
        )
    _require_fitted(model, name)
    parse: Callable[[Any], Ensemble] = importlib.import_module(
        f"durometer.trees.readers.{name}"
    ).read
    try:
        ensemble = parse(model)
        if checked:
            check(ensemble, model)
    except DurometerError:
        raise
    except Exception as error:  # libraries raise kinds of their own
        raise DurometerError(
            f"the trees of this {type(model).__name__} cannot be read "
            f"({type(error).__name__}: {error}): it is damaged, or of a version not known here"
        ) from error
    return replace(ensemble, library=partial(labels, ensemble, model))


def _thresholded(model: Any, columns: Columns | None, checked: bool) -> Ensemble:
    """The trees inside with the wrapper's threshold, and labels as the wrapper gives them."""
    from durometer.trees.readers.threshold import thresholded

    rule = threshold_of(model)
    assert rule is not None
    ensemble = thresholded(read(rule.estimator, columns, checked=checked), rule)
    rows = form(model, columns)

    def library(x: Floats) -> Ints:
        return positions(ensemble, model.predict(rows(x)))

    if checked:
        check_labels(ensemble, library, columns)
    return replace(ensemble, library=library)


def _encoded(model: Any, columns: Any) -> Ensemble:
    from durometer.trees.readers.encoded import read

    try:
        return read(model, columns)
    except DurometerError:
        raise
    except Exception as error:  # scikit-learn's own, on a value it does not know
        raise Unsupported(
            f"this {type(model).__name__} cannot be read ({type(error).__name__}: {error}); use a "
            "search: Graft or MOEVA"
        ) from error


def _require_fitted(model: Any, name: str) -> None:
    fitted: Callable[[Any], bool] = {
        "sklearn": lambda m: hasattr(m, "classes_"),
        "pipeline": lambda m: hasattr(m, "classes_"),
        "xgboost": lambda m: not hasattr(m, "get_booster") or m.__sklearn_is_fitted__(),
        "lightgbm": lambda m: not hasattr(m, "fit") or m.__sklearn_is_fitted__(),
        "catboost": lambda m: bool(m.is_fitted()),
    }[name]
    if not fitted(model):
        raise DurometerError(f"{type(model).__name__} is not fitted; call fit first")
