"""XGBoost: classifier or Booster, gbtree or dart, from its own JSON.

XGBoost rounds x to float32, tests ``<``, and sums in float32; base_score is a probability for
logistic objectives and must be turned into a margin. A categorical split lists the codes that go
*right*. Early stopping keeps trees that predict does not use: a classifier stops at
best_iteration, a Booster does not."""

import json
from typing import Any

import numpy as np

from assay.errors import Unsupported
from assay.trees.builder import Grower
from assay.trees.ensemble import Ensemble

OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")


def read(model: Any) -> Ensemble:
    """The flat form of an XGBoost classifier or Booster."""
    sklearn = hasattr(model, "get_booster")
    booster = model.get_booster() if sklearn else model
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective = learner["objective"]["name"]
    if objective not in OBJECTIVES:
        raise Unsupported(
            f"XGBoost objective {objective!r}: trees are read for {', '.join(OBJECTIVES)}"
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
    grower = Grower(outputs, "<", "float32")
    for t, tree in enumerate(trees):
        _grow(grower, tree, info[t], outputs, 1.0 if weight is None else float(weight[t]))
    raw = parameters["base_score"].strip("[]").split(",")
    score = np.asarray([float(s) for s in raw], dtype=np.float32)
    if objective == "binary:logistic":
        score = -np.log(np.float32(1) / score - np.float32(1))
    return grower.ensemble(
        base=np.broadcast_to(score, (outputs,)).astype(np.float64).tolist(),
        n_features=int(parameters["num_feature"]),
        classes=list(model.classes_) if sklearn else list(range(max(n_classes, 2))),
        source="XGBoost",
        cut=1.5 * 2.0**-24 if outputs == 1 else 0.0,  # below it the float32 sigmoid is still 0.5
        single=True,
        missing=True,
    )


def _grow(grower: Grower, tree: Any, output: int, outputs: int, weight: float) -> None:
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
            value[output] = float(np.float32(np.float32(condition[i]) * np.float32(weight)))
            return grower.leaf(value)
        a, b = build(left[i]), build(right[i])
        if kind[i] == 1:
            return grower.member(feature[i], codes[i], b, a, a if default[i] else b)
        return grower.split(feature[i], float(np.float32(condition[i])), a, b, bool(default[i]))

    grower.close(build(0))
