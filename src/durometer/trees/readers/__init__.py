"""`read(model)`: the flat form of any supported tree model, trusted only after it passed `check`.

Libraries are recognised by module name, so none is imported that the user has not imported already.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.columns import Columns
from durometer.kernels.arrays import Floats, Ints
from durometer.model.exact_types import impostor
from durometer.model.frames import form
from durometer.model.rules import Ruled
from durometer.model.thresholds import threshold_of
from durometer.trees.agreement import check, check_labels, labels, positions
from durometer.trees.ensemble import Ensemble

SUPPORTED = (
    "scikit-learn DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting and "
    "HistGradientBoosting classifiers; XGBoost, LightGBM and CatBoost classifiers and Boosters "
    "(CatBoost with categories, where each statistic is of one column); "
    "pipelines of scalers, imputers, one-hot and ordinal encoders (of text) before one of them; "
    "FixedThresholdClassifier and TunedThresholdClassifierCV around one of these; "
    "CalibratedClassifierCV with one classifier of two classes; soft votes of forests"
)


def reader(model: Any, columns: Columns | None = None) -> str | None:
    """The name of the reader for this model, None if it is no tree model we read.

    With the data's `columns` also pipelines that encode them. A model with a part that is not the
    library's own, or with a method of its own, is none.
    """
    return None if impostor(model) else _reader(model, columns)


def _reader(model: Any, columns: Columns | None) -> str | None:
    package = type(model).__module__.split(".")[0]
    name = type(model).__name__
    if isinstance(model, Ruled):
        from durometer.trees.readers.ruled import regressor

        read = (
            regressor(model.estimator)
            if model.method == "predict"
            else (
                model.method in ("predict_proba", "decision_function")
                and _reader(model.estimator, columns) is not None
            )
        )
        return "ruled" if read else None
    rule = threshold_of(model)
    if rule is not None:
        return "threshold" if _reader(rule.estimator, columns) is not None else None
    if package == "sklearn":
        from durometer.trees.readers.combined import inside
        from durometer.trees.readers.encoded import encoded
        from durometer.trees.readers.pipeline import scaled
        from durometer.trees.readers.sklearn import NAMES

        members = inside(model)
        if members:
            return "combined" if all(_reader(m, columns) for m in members) else None

        if scaled(model):
            return "pipeline" if _reader(model.steps[-1][1], None) is not None else None
        if columns is not None and encoded(model):
            return "encoded" if _reader(model.steps[-1][1], None) is not None else None
        return "sklearn" if name in NAMES else None
    known = {
        "xgboost": ("XGBClassifier", "XGBRFClassifier", "Booster"),
        "lightgbm": ("LGBMClassifier", "Booster"),
        "catboost": ("CatBoostClassifier",),
    }
    if package == "catboost" and name in known[package] and columns is not None:
        from durometer.trees.readers.catboost import has_categories

        if has_categories(model):
            return "categories"
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
    if name == "ruled":
        return _ruled(model, columns, checked)
    if name == "threshold":
        return _thresholded(model, columns, checked)
    if name == "encoded":
        return _encoded(model, columns)
    if name == "combined":
        return _combined(model, columns, checked)
    if name == "categories":
        return _categories(model, columns)
    if name is None:
        if other := impostor(model):
            raise Unsupported(
                f"{other}, so the trees of this {type(model).__name__} may not be what answers; "
                "use the library's own, or a search: Graft"
            )
        raise Unsupported(
            f"{type(model).__name__} is not a tree model that is read{_why(model)}; supported: "
            f"{SUPPORTED}"
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


def _why(model: Any) -> str:
    """The step of a pipeline that is not read, in words."""
    from durometer.trees.readers.encoded import unread

    step = unread(model)
    return "" if step is None else f" (its step {step})"


def _ruled(model: Ruled, columns: Columns | None, checked: bool) -> Ensemble:
    """The trees inside with the rule's cuts, and labels as the rule gives them."""
    from durometer.trees.readers.ruled import cut_up

    if model.rule.cuts is None:
        raise Unsupported(
            f"{model.rule.sentence}: a rule that depends on the row it is measured against has no "
            "trees of its own; attack it in a static game"
        )
    ensemble = cut_up(scores_of(model, columns, checked), model, model.rule.cuts)
    rows = form(model.estimator, columns)

    def library(x: Floats) -> Ints:
        return positions(ensemble, model.predict(rows(x)))

    if checked:
        check_labels(ensemble, library, columns)
    return replace(ensemble, library=library)


def scores_of(model: Ruled, columns: Columns | None, checked: bool = True) -> Ensemble:
    """The trees of the estimator behind a rule, before it cuts their sum."""
    from durometer.trees.readers.ruled import read_regressor

    if model.method == "predict":
        return read_regressor(model.estimator)
    return read(model.estimator, columns, checked=checked)


def relative_to(model: Ruled, columns: Columns | None, trees: Ensemble, clean: float) -> Ensemble:
    """The trees behind a tolerance, for a row with this clean score."""
    from durometer.trees.readers.ruled import cut_up

    (cuts,) = model.rule.cuts_at(np.array([clean]))
    rows = form(model.estimator, columns)

    def library(x: Floats) -> Ints:
        return model.rule.bands(model.scores(rows(x)), np.full(len(x), clean))

    return replace(cut_up(trees, model, cuts.tolist()), library=library)


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


def _combined(model: Any, columns: Columns | None, checked: bool) -> Ensemble:
    """Several classifiers, or one with a calibrator, and labels as the whole gives them."""
    from durometer.trees.readers.combined import calibrated, inside, voted

    members = [read(m, columns, checked=checked) for m in inside(model)]
    vote = type(model).__name__ == "VotingClassifier"
    ensemble = voted(model, members) if vote else calibrated(model, members[0])
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


def _categories(model: Any, columns: Any) -> Ensemble:
    from durometer.trees.readers.catboost import read_categories

    try:
        return read_categories(model, columns)
    except DurometerError:
        raise
    except Exception as error:  # CatBoost's own, on a value it does not take
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
