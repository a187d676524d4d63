"""XGBoost: classifier or Booster, gbtree or dart, from its own JSON.

XGBoost rounds x to float32, tests ``<``, and sums in float32; base_score is a probability for
logistic objectives and must be turned into a margin. dart adds each tree to the base, takes the
base off again and weighs what is left, which rounds twice. A classifier's `missing=-999` means that
this number goes where NaN goes; a Booster has no such number. A categorical split lists the codes
that go *right*. Early stopping keeps trees that predict does not use: a classifier stops at
best_iteration, a Booster does not."""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import Unsupported
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble

OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")
SUMS = (
    "reg:squarederror",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "rank:ndcg",
    "rank:pairwise",
    "rank:map",
)  # the prediction is the sum


def read(model: Any) -> Ensemble:
    """The flat form of an XGBoost classifier or Booster."""
    return _read(model, OBJECTIVES)


def read_regressor(model: Any) -> Ensemble:
    """The flat form of an XGBoost regressor: one output, whose sum is its prediction."""
    return _read(model, SUMS)


def _read(model: Any, objectives: tuple[str, ...]) -> Ensemble:
    sklearn = hasattr(model, "get_booster")
    booster = model.get_booster() if sklearn else model
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective = learner["objective"]["name"]
    if objective not in objectives:
        raise Unsupported(
            f"XGBoost objective {objective!r}: trees are read for {', '.join(objectives)}"
        )
    parameters = learner["learner_model_param"]
    n_classes = max(int(parameters["num_class"]), 0)
    outputs = max(n_classes, 1)
    gradient_booster = learner["gradient_booster"]
    weight = None
    if gradient_booster["name"] == "dart":
        weight = gradient_booster["weight_drop"]
        gradient_booster = gradient_booster["gbtree"]
    elif gradient_booster["name"] != "gbtree":
        raise Unsupported(
            f"XGBoost booster {gradient_booster['name']!r}: trees are read for gbtree and dart"
        )
    trees, info = gradient_booster["model"]["trees"], gradient_booster["model"]["tree_info"]
    if sklearn and getattr(model, "early_stopping_rounds", None):
        per_round = (
            int(gradient_booster["model"]["gbtree_model_param"].get("num_parallel_tree", 1))
            * outputs
        )
        trees = trees[: (model.best_iteration + 1) * per_round]
    raw = parameters["base_score"].strip("[]").split(",")
    score = np.asarray([float(s) for s in raw], dtype=np.float32)
    if objective == "binary:logistic":  # numpy's float32 logarithm is a unit off now and then
        score = np.asarray([-math.log(np.float32(1) / s - np.float32(1)) for s in score])
    base = np.broadcast_to(score.astype(np.float32), (outputs,))
    sentinel = getattr(model, "missing", None) if sklearn else None  # None, NaN: no number
    grower = Grower(outputs, "<", "float32")
    for t, tree in enumerate(trees):
        leaves = _leaves(tree, base[info[t]], None if weight is None else np.float32(weight[t]))
        _grow(grower, tree, info[t], outputs, leaves, sentinel)
    return grower.ensemble(
        base=base.astype(np.float64).tolist(),
        n_features=int(parameters["num_feature"]),
        classes=list(model.classes_)
        if hasattr(model, "n_classes_")
        else list(range(max(n_classes, 2))),
        source="XGBoost",
        cut=1.5 * 2.0**-24 if outputs == 1 else 0.0,  # below it the float32 sigmoid is still 0.5
        single=True,
        missing=True,
    )


def _leaves(tree: Any, base: np.float32, weight: np.float32 | None) -> NDArray[np.float32]:
    """What each leaf adds to the sum, rounded as the library rounds it."""
    value = np.asarray(tree["split_conditions"], dtype=np.float32)
    return value if weight is None else np.asarray(((base + value) - base) * weight)


def _grow(
    grower: Grower,
    tree: Any,
    output: int,
    outputs: int,
    leaves: NDArray[np.float32],
    sentinel: float | None,
) -> None:
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise Unsupported("XGBoost multi_strategy='multi_output_tree'; use 'one_output_per_tree'")
    left, right = tree["left_children"], tree["right_children"]
    condition, feature, default = (
        tree["split_conditions"],
        tree["split_indices"],
        tree["default_left"],
    )
    kind = tree.get("split_type", [0] * len(left))
    codes: dict[int, list[int]] = {}
    for node, start, size in zip(
        tree.get("categories_nodes", []),
        tree.get("categories_segments", []),
        tree.get("categories_sizes", []),
        strict=True,
    ):
        codes[node] = tree["categories"][start : start + size]

    def build(i: int) -> int:
        if left[i] < 0:
            value = [0.0] * outputs
            value[output] = float(leaves[i])
            return grower.leaf(value)
        a, b = build(left[i]), build(right[i])
        absent = a if default[i] else b
        threshold = float(np.float32(condition[i]))
        if kind[i] == 1:
            node = grower.member(feature[i], codes[i], b, a, absent)
        else:
            node = grower.split(feature[i], threshold, a, b, bool(default[i]))
        if sentinel is None or math.isnan(sentinel):
            return node
        if kind[i] != 1 and (sentinel < threshold) == bool(default[i]):
            return node  # it goes there anyway
        return grower.sentinel(feature[i], sentinel, node, absent)

    grower.close(build(0))
