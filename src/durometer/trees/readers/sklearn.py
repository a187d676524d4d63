"""scikit-learn: DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting,
HistGradientBoosting.

Trees and forests round x to float32 and test ``<=``; a forest *averages probabilities* (a majority
vote would be another model). GradientBoosting rounds to float32 too and adds its prior;
HistGradientBoosting compares in float64. A forest adds the leaves' values as they are stored: to
make them sum to 1 again would move them by a unit in the last place, which decides ties. Dividing
by the number of trees is left out."""

from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
BOOSTED = ("GradientBoostingClassifier",)
HIST = ("HistGradientBoostingClassifier",)
NAMES = FORESTS + TREES + BOOSTED + HIST
MEANS = ("RandomForestRegressor", "ExtraTreesRegressor")
ALONE = ("DecisionTreeRegressor", "ExtraTreeRegressor")
REGRESSORS = (*MEANS, *ALONE, "GradientBoostingRegressor", "HistGradientBoostingRegressor")
_IDENTITY = ("squared_error", "absolute_error", "quantile", "huber")


def read(model: Any) -> Ensemble:
    """The flat form of a fitted scikit-learn tree model."""
    name = type(model).__name__
    if name in HIST:
        return _hist(model)
    if getattr(model, "n_outputs_", 1) != 1:
        raise Unsupported(
            f"{name} with {model.n_outputs_} outputs: one label per record is expected"
        )
    if name in BOOSTED:
        return _boosted(model)
    members = list(model.estimators_) if name in FORESTS else [model]
    classes = list(model.classes_)
    grower = Grower(len(classes), "<=", "float32")
    for member in members:
        _grow(grower, member.tree_, member.tree_.value[:, 0, :])
    return grower.ensemble(
        base=[0.0] * len(classes),
        n_features=int(model.n_features_in_),
        classes=classes,
        source=name,
        missing=bool(model.__sklearn_tags__().input_tags.allow_nan),
    )


def read_regressor(model: Any) -> Ensemble:
    """The flat form of a fitted regressor: one output, whose sum is its prediction, or for forests
    its prediction times the number of trees."""
    name = type(model).__name__
    if name.startswith(("Gradient", "Hist")) and model.loss not in _IDENTITY:
        raise Unsupported(
            f"{name}(loss={model.loss!r}): its prediction is no sum of trees; trees are read for "
            f"{', '.join(_IDENTITY)}"
        )
    if getattr(model, "n_outputs_", 1) != 1:
        raise Unsupported(f"{name} with {model.n_outputs_} outputs: one number per row is expected")
    if name.startswith("Hist"):
        return _hist(model)
    if name.startswith("Gradient"):
        return _boosted(model)
    grower = Grower(1, "<=", "float32")
    for member in model.estimators_ if name in MEANS else [model]:
        _grow(grower, member.tree_, member.tree_.value[:, 0, :])
    return grower.ensemble(
        base=[0.0],
        n_features=int(model.n_features_in_),
        classes=[0, 1],
        source=name,
        missing=bool(model.__sklearn_tags__().input_tags.allow_nan),
    )


def _boosted(model: Any) -> Ensemble:
    classes = list(getattr(model, "classes_", [0, 1]))
    stages = model.estimators_  # (rounds, outputs)
    outputs = int(stages.shape[1])
    zero = np.zeros((2, model.n_features_in_))
    zero[1] = 1.0
    prior = np.asarray(model._raw_predict_init(zero), dtype=np.float64)  # noqa: SLF001 - no public way
    if not np.array_equal(prior[0], prior[1]) or type(model.init_).__name__ not in (
        "DummyClassifier",
        "DummyRegressor",
        "str",
    ):
        raise Unsupported(
            f"{type(model).__name__}(init=an estimator): its prior moves with x; use "
            "init=None or 'zero'"
        )
    grower = Grower(outputs, "<=", "float32")
    for stage in stages:
        for k, member in enumerate(stage):
            value = np.zeros((member.tree_.node_count, outputs))
            value[:, k] = model.learning_rate * member.tree_.value[:, 0, 0]
            _grow(grower, member.tree_, value)
    return grower.ensemble(
        base=prior[0].tolist(),
        n_features=int(model.n_features_in_),
        classes=classes,
        source=type(model).__name__,
        cut=float(np.nextafter(0.0, -1.0)),  # score >= 0 is class 1
    )


def _hist(model: Any) -> Ensemble:
    if getattr(model, "is_categorical_", None) is not None:
        raise Unsupported(
            f"{type(model).__name__} with categorical features is not read exactly; "
            "encode them as numbers, or use LightGBM or XGBoost, whose categorical splits are read"
        )
    classes = list(getattr(model, "classes_", [0, 1]))
    base = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()  # noqa: SLF001
    grower = Grower(len(base), "<=", "float64")
    for stage in model._predictors:  # noqa: SLF001
        for k, predictor in enumerate(stage):
            nodes = predictor.nodes

            def build(i: int, nodes: Any = nodes, k: int = k) -> int:
                node = nodes[i]
                if node["is_leaf"]:
                    value = [0.0] * len(base)
                    value[k] = float(node["value"])
                    return grower.leaf(value)
                left, right = build(int(node["left"])), build(int(node["right"]))
                return grower.split(
                    int(node["feature_idx"]),
                    float(node["num_threshold"]),
                    left,
                    right,
                    bool(node["missing_go_to_left"]),
                )

            grower.close(build(0))
    return grower.ensemble(
        base=base.tolist(),
        n_features=int(model.n_features_in_),
        classes=classes,
        source=type(model).__name__,
        missing=True,
    )


def _grow(grower: Grower, tree: Any, value: Any) -> None:
    missing = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count, dtype=bool))

    def build(i: int) -> int:
        if tree.children_left[i] < 0:
            return grower.leaf(value[i].tolist())
        left, right = build(int(tree.children_left[i])), build(int(tree.children_right[i]))
        return grower.split(
            int(tree.feature[i]), float(tree.threshold[i]), left, right, bool(missing[i])
        )

    grower.close(build(0))
