"""CatBoost: symmetric (oblivious) and other trees, from its JSON. It rounds x to float32; ``x >
border`` goes right.

An oblivious tree asks one question per level; bit i of the leaf number is the answer to question
i. Each level repeats over all nodes, also where an earlier border already decided it: pruning
takes that out. NaN counts as below or above every border, as the feature says."""

import json
import tempfile
from pathlib import Path
from typing import Any

from durometer.core.errors import Unsupported
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble


def read(model: Any) -> Ensemble:
    """The flat form of a CatBoost classifier."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        dump = json.loads(path.read_text())
    info = dump["features_info"]
    for kind in ("categorical_features", "text_features", "embedding_features"):
        if info.get(kind):
            raise Unsupported(
                f"CatBoost with {kind.replace('_', ' ')}: only numeric features are read; "
                f"encode them first"
            )
    columns = {f["feature_index"]: f["flat_feature_index"] for f in info["float_features"]}
    high = {
        f["feature_index"]: f.get("nan_value_treatment") == "AsTrue" for f in info["float_features"]
    }
    scale, bias = dump["scale_and_bias"]
    bias = [float(b) for b in bias] if isinstance(bias, list) else [float(bias)]
    classes = list(model.classes_)
    outputs = 1 if len(classes) == 2 and len(bias) <= 1 else len(classes)
    grower = Grower(outputs, "<=", "float32")

    def test(split: Any) -> tuple[int, float, bool]:
        if split["split_type"] != "FloatFeature":
            raise Unsupported(f"CatBoost split {split['split_type']!r}: only FloatFeature is read")
        f = split["float_feature_index"]
        return columns[f], float(split["border"]), not high[f]

    def grow(node: Any) -> int:
        if "value" in node:
            v = node["value"] if isinstance(node["value"], list) else [node["value"]]
            return grower.leaf([scale * float(a) for a in v])
        left, right = grow(node["left"]), grow(node["right"])
        f, border, missing_left = test(node["split"])
        return grower.split(f, border, left, right, missing_left)

    for tree in dump.get("oblivious_trees", []):
        values, splits = tree["leaf_values"], tree["splits"] or []
        level = [
            grower.leaf([scale * float(v) for v in values[i * outputs : (i + 1) * outputs]])
            for i in range(2 ** len(splits))
        ]
        for split in reversed(splits):  # the last question is the highest bit: pair i with i + half
            f, border, missing_left = test(split)
            half = len(level) // 2
            level = [
                grower.split(f, border, level[i], level[i + half], missing_left)
                for i in range(half)
            ]
        grower.close(level[0])
    for tree in dump.get("trees", []):
        grower.close(grow(tree))
    return grower.ensemble(
        base=(bias or [0.0]) if len(bias or [0.0]) == outputs else bias * outputs,
        n_features=len(model.feature_names_),
        classes=classes,
        source="CatBoost",
        missing=True,
    )
