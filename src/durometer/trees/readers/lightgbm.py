"""LightGBM: classifier or Booster, from its own dump. It compares and sums in float64 with ``<=``.

The initial score sits inside the first tree. A feature without missing handling reads NaN as 0; a
model trained with zero_as_missing sends the single point 0 its own way, and leaves of linear_tree
are no constants: both are refused. A categorical split truncates towards zero, so that category 0
is (-1, 1), and sends NaN right."""

import math
from typing import Any

from durometer.core.errors import Unsupported
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble

TINY = 1.0000000180025095e-35
OBJECTIVES = ("binary", "multiclass", "multiclassova")
SUMS = (  # the prediction is the sum
    "regression", "regression_l1", "huber", "fair", "quantile", "lambdarank", "rank_xendcg",
)  # fmt: skip


def read(model: Any) -> Ensemble:
    """The flat form of a LightGBM classifier or Booster."""
    return _read(model, OBJECTIVES)


def read_regressor(model: Any) -> Ensemble:
    """The flat form of a LightGBM regressor: one output, whose sum is its prediction."""
    return _read(model, SUMS)


def _read(model: Any, objectives: tuple[str, ...]) -> Ensemble:
    sklearn = hasattr(model, "booster_")
    booster = model.booster_ if sklearn else model
    dump = booster.dump_model()
    written = str(dump.get("objective", "custom"))
    objective = written.split()[0]
    if objective not in objectives or "sqrt" in written.split():
        raise Unsupported(
            f"LightGBM objective {written!r}: trees are read for {', '.join(objectives)}"
        )
    outputs = int(dump["num_tree_per_iteration"])
    grower = Grower(outputs, "<=", "float64")
    for t, tree in enumerate(dump["tree_info"]):
        grower.close(_build(grower, tree["tree_structure"], t % outputs, outputs))
    return grower.ensemble(
        base=[0.0] * outputs,
        n_features=int(dump["max_feature_idx"]) + 1,
        classes=list(model.classes_)
        if hasattr(model, "classes_")
        else list(range(max(int(dump["num_class"]), 2))),
        source="LightGBM",
        cut=2.0**-53 if outputs == 1 else 0.0,
        missing=True,
    )


def _build(grower: Grower, node: Any, output: int, outputs: int) -> int:
    if "leaf_value" in node and "split_feature" not in node:
        if node.get("leaf_features"):
            raise Unsupported(
                "LightGBM linear_tree=True: its leaves are linear functions, not constants; "
                "train without it, or sample it: Nature(model, noise, method='monte carlo')"
            )
        value = [0.0] * outputs
        value[output] = float(node["leaf_value"])
        return grower.leaf(value)
    if node["missing_type"] == "Zero":
        raise Unsupported(
            "LightGBM zero_as_missing=True: train without it, NaN marks a missing value then"
        )
    left = _build(grower, node["left_child"], output, outputs)
    right = _build(grower, node["right_child"], output, outputs)
    feature = int(node["split_feature"])
    if node["decision_type"] == "==":
        codes = [int(c) for c in str(node["threshold"]).split("||")]
        return grower.member(feature, codes, left, right, right, zero=-1.0)
    if node["decision_type"] != "<=":
        raise Unsupported(f"LightGBM split {node['decision_type']!r}: '<=' and '==' are read")
    threshold = float(node["threshold"])
    if abs(threshold) <= TINY:  # LightGBM reads every |x| <= TINY as 0
        threshold = TINY if threshold >= 0 else math.nextafter(-TINY, -math.inf)
    if threshold >= 1e300:  # every number goes left, only NaN does not
        threshold = math.inf
    missing_left = bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0.0
    return grower.split(feature, threshold, left, right, missing_left)
