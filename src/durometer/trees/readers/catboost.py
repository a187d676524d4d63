"""CatBoost: symmetric (oblivious) and other trees, from its JSON. It rounds x to float32; ``x >
border`` goes right.

An oblivious tree asks one question per level; bit i of the leaf number is the answer to question
i. Each level repeats over all nodes, also where an earlier border already decided it: pruning
takes that out. NaN counts as below or above every border, as the feature says.

A test of a category (one-hot, or a statistic of the target for it) is "value in S". S is read off
the model's own leaf numbers, asked with every value of the column: no hash and no prior is copied.
Statistics of several categories together are refused.
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.data.columns import Column, Columns
from durometer.kernels.arrays import Floats, Ints
from durometer.model.frames import match_columns
from durometer.trees.agreement import positions, probes
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble

_PROBES = 1000
_WITHOUT = "encode them first, or use a search: Graft"


def read(model: Any) -> Ensemble:
    """The flat form of a CatBoost classifier of numbers."""
    dump = _dumped(model)
    if dump["features_info"].get("categorical_features"):
        raise Unsupported(
            "CatBoost with categories is read by the data's columns: give the data as a frame, or "
            f"{_WITHOUT}"
        )
    return _grown(model, dump, {}, ())


def has_categories(model: Any) -> bool:
    """Is it fitted, with columns that it takes for categories?"""
    return bool(model.is_fitted()) and bool(model.get_cat_feature_indices())


def read_categories(model: Any, columns: Columns) -> Ensemble:
    """The flat form of a CatBoost classifier with categories, over the codes of these columns;
    compared with the model's own scores and labels."""
    dump = _dumped(model)
    if not dump.get("oblivious_trees"):
        raise Unsupported(
            "CatBoost with categories: only symmetric trees are read; fit it without "
            f"grow_policy=, {_WITHOUT}"
        )
    for ctr in dump["features_info"].get("ctrs", ()):
        names = [e["combination_element"] for e in ctr["elements"]]
        if names != ["cat_feature_value"]:
            raise Unsupported(
                "CatBoost with statistics of several columns together is not read: fit it with "
                f"max_ctr_complexity=1, {_WITHOUT}"
            )
    own = match_columns(model, columns)
    each = list(columns.each if own is None else columns.select(own).each)
    at = {
        c["feature_index"]: c["flat_feature_index"]
        for c in dump["features_info"]["categorical_features"]
    }
    for i in at.values():
        if each[i].kind != "label":
            raise Unsupported(
                f"column '{each[i].name}' is a category to CatBoost and of kind {each[i].kind} in "
                "the data: make it text or a category in the frame to have the trees read"
            )
        if any(v != int(v) or v < 0 for v in each[i].codes):
            raise Unsupported(f"column '{each[i].name}' has codes that are no whole numbers")
    # numbers stay numbers: between whole ones, too
    each = [c if i in at.values() else Column(c.name, "real") for i, c in enumerate(each)]
    shown = Columns(
        tuple(replace(c, name=n) for c, n in zip(each, model.feature_names_, strict=True))
    )
    sets = _sets(model, shown, dump, sorted(at.values()))
    made = _grown(model, dump, sets, tuple(at.values()))

    def library(x: Floats) -> Ints:
        return positions(made, model.predict(shown.frame(x)))

    _check(made, model, shown, library)
    return replace(made, library=library)


def _sets(
    model: Any, shown: Columns, dump: Any, at: list[int]
) -> dict[tuple[int, int], tuple[int, list[int]]]:
    """For each test of a category, by tree and level: the column, and the codes that pass it. A
    column of -1: all pass, or none does."""
    base = np.zeros(len(shown))
    for i in at:
        base[i] = shown.each[i].codes[0]
    blocks = []
    for i in at:
        rows = np.tile(base, (len(shown.each[i].codes), 1))
        rows[:, i] = shown.each[i].codes
        blocks.append(np.asarray(model.calc_leaf_indexes(_pool(model, shown.frame(rows)))))
    found = {}
    for t, tree in enumerate(dump["oblivious_trees"]):
        for level, split in enumerate(tree["splits"] or []):
            if split["split_type"] == "FloatFeature":
                continue
            bits = [(leaves[:, t].astype(np.int64) >> level) & 1 for leaves in blocks]
            moved = [k for k, b in enumerate(bits) if (b != b[0]).any()]
            if len(moved) > 1:
                raise Unsupported(f"a CatBoost test of several categories is not read; {_WITHOUT}")
            i = at[moved[0]] if moved else -1
            passed = bits[moved[0] if moved else 0]
            codes = shown.each[i].codes if moved else (0.0,)
            found[t, level] = i, [int(c) for c, b in zip(codes, passed, strict=False) if b]
    return found


def _pool(model: Any, frame: Any) -> Any:
    from catboost import Pool

    return Pool(frame, cat_features=model.get_cat_feature_indices())


def _check(made: Ensemble, model: Any, shown: Columns, library: Callable[[Floats], Ints]) -> None:
    """Raise unless trees and model agree beside every threshold and on every value."""
    rng = np.random.default_rng(0)
    x = probes(made, _PROBES, rng)
    for i, c in enumerate(shown.each):
        if c.kind == "label":
            x[:, i] = rng.choice(np.asarray(c.codes), len(x))
    raw = model.predict(shown.frame(x), prediction_type="RawFormulaVal")
    raw = np.asarray(raw, dtype=np.float64).reshape(len(x), made.outputs)
    wrong = ~(np.abs(made.scores(x) - raw).max(axis=1) <= made.slack())
    wrong |= (made.predict(x) != library(x)) & ~made.near_tie(x)
    if wrong.any():
        raise Unsupported(
            f"the reading of this CatBoost model disagrees with its predict on {int(wrong.sum())} "
            f"of {len(x)} rows; please report it, and use a search: Graft"
        )


def _dumped(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        dump = json.loads(path.read_text())
    for kind in ("text_features", "embedding_features"):
        if dump["features_info"].get(kind):
            raise Unsupported(f"CatBoost with {kind.replace('_', ' ')} is not read: {_WITHOUT}")
    return dump


def _grown(
    model: Any, dump: Any, sets: dict[tuple[int, int], tuple[int, list[int]]],
    categories: tuple[int, ...],
) -> Ensemble:  # fmt: skip
    info = dump["features_info"]
    floats = info.get("float_features", [])
    columns = {f["feature_index"]: f["flat_feature_index"] for f in floats}
    high = {f["feature_index"]: f.get("nan_value_treatment") == "AsTrue" for f in floats}
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

    for t, tree in enumerate(dump.get("oblivious_trees", [])):
        values, splits = tree["leaf_values"], tree["splits"] or []
        level = [
            grower.leaf([scale * float(v) for v in values[i * outputs : (i + 1) * outputs]])
            for i in range(2 ** len(splits))
        ]
        for number in reversed(range(len(splits))):  # the last is the highest bit: i with i + half
            half = len(level) // 2
            if (t, number) in sets:
                f, passed = sets[t, number]
                if f < 0:
                    level = level[half:] if passed else level[:half]
                else:
                    level = [
                        grower.member(f, passed, level[i + half], level[i], level[i])
                        for i in range(half)
                    ]
                continue
            f, border, missing_left = test(splits[number])
            level = [
                grower.split(f, border, level[i], level[i + half], missing_left)
                for i in range(half)
            ]
        grower.close(level[0])
    for tree in dump.get("trees", []):
        grower.close(grow(tree))
    made = grower.ensemble(
        base=(bias or [0.0]) if len(bias or [0.0]) == outputs else bias * outputs,
        n_features=len(model.feature_names_),
        classes=classes,
        source="CatBoost",
        missing=True,
    )
    return replace(made, never_missing=categories) if categories else made
