"""Damaged model files: what the libraries that read them do not notice.

LightGBM loops for ever on a tree whose nodes point at each other, and like XGBoost it reads beyond
its arrays where a file is cut: the whole process dies, without a word. So before either of them is
given a file, its structure is looked at here: lengths, and that every node is the child of one.

What a reader would get wrong: these are no readers. A file that passes may still be refused by its
library, which says so itself; one that is wrong here must not reach it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MOST = 100_000  # classes, features: more is a damaged number
_DEEP = 60  # objects in objects
_PARAMETER = re.compile(r"\[[a-z0-9_]+: [^\[\]]*\]")


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the file is damaged: {what}")


# -- LightGBM's text


def lightgbm(path: Path) -> None:
    """Raise ValueError where the text is no ensemble of trees."""
    content = path.read_bytes()
    content.decode()  # all of it: its names are read as UTF-8 later
    _need(b"\0" not in content, "it is no text")
    start = content.find(b"Tree=0\n")
    _need(content.startswith(b"tree\nversion=v"), "it does not begin with 'tree' and a version")
    _need(start > 0, "it has no tree")
    head = _fields(content[:start])
    features = _count(head, "max_feature_idx", 0) + 1
    per, classes = _count(head, "num_tree_per_iteration"), _count(head, "num_class")
    for name in ("feature_names", "feature_infos"):
        _need(len(head.get(name, "").split()) == features, f"{name} are not {features}")
    _need(bool(head.get("objective", "").strip()), "it has no objective")
    said = [w.removeprefix("num_class:") for w in head["objective"].split() if "num_class:" in w]
    _need(said in ([], [str(classes)]) and per == classes, "its numbers of classes differ")
    sizes = _whole(head.get("tree_sizes", ""))
    _need(len(sizes) % per == 0 and len(sizes) > 0, "its trees are not as many for each class")
    for k, size in enumerate(sizes.tolist()):
        block = content[start : start + size]
        _need(block.startswith(b"Tree=%d\n" % k), f"tree {k} is not where it should be")
        try:
            _tree(_fields(block), features)
        except ValueError as error:
            raise ValueError(f"tree {k}: {error}") from None
        start += size
    _need(content[start:].startswith(b"end of trees"), "it does not end after its last tree")
    _, begun, rest = content[start:].decode().partition("\nparameters:\n")
    if begun:
        asked, _, rest = rest.partition("\nend of parameters\n")
        _need(bool(rest), "its parameters do not end")
        for line in asked.splitlines():
            _need(not line or bool(_PARAMETER.fullmatch(line)), f"a parameter '{line[:40]}'")


def _fields(block: bytes) -> dict[str, str]:
    lines = (line.partition("=") for line in block.decode().splitlines() if "=" in line)
    return {name: value for name, _, value in lines}


def _count(fields: dict[str, str], name: str, least: int = 1) -> int:
    value = fields.get(name, "")
    _need(value.isascii() and value.isdigit(), f"{name} is '{value[:20]}'")
    _need(least <= int(value[:9]) <= MOST and len(value) < 9, f"{name} is {value[:20]}")
    return int(value)


def _whole(text: str) -> np.ndarray:
    return np.array([int(v) for v in text.split()], dtype=np.int64)


def _tree(fields: dict[str, str], features: int) -> None:
    leaves, cats = _count(fields, "num_leaves"), _count(fields, "num_cat", 0)
    values = [float(v) for v in fields.get("leaf_value", "").split()]
    _need(len(values) == leaves, f"{len(values)} leaf values for {leaves} leaves")
    _need(fields.get("is_linear", "0") in ("0", "1"), "is_linear is neither 0 nor 1")
    if leaves == 1:
        return
    nodes = leaves - 1
    left, right, split, kinds = (
        _whole(fields.get(name, ""))
        for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    thresholds = [float(v) for v in fields.get("threshold", "").split()]
    for name in ("split_gain", "internal_value", "internal_weight", "internal_count"):
        _need(len([float(v) for v in fields.get(name, "").split()]) in (0, nodes), name)
    for name in ("leaf_weight", "leaf_count"):
        _need(len([float(v) for v in fields.get(name, "").split()]) in (0, leaves), name)
    for column in (left, right, split, kinds, thresholds):
        _need(len(column) == nodes, f"{len(column)} entries for {nodes} nodes")
    below = np.sort(np.concatenate([left, right]))
    each = np.concatenate([np.arange(-leaves, 0), np.arange(1, nodes)])
    _need(np.array_equal(below, each), "a node is the child of none or of two")
    inner = [(k, c) for side in (left, right) for k, c in enumerate(side.tolist()) if c >= 0]
    _need(all(c > k for k, c in inner), "a node is its own ancestor")
    _need(bool(((split >= 0) & (split < features)).all()), "a split on no feature")
    _need(bool(((kinds >= 0) & (kinds < 16)).all()), "a split of no kind")
    if cats or bool((kinds & 1).any()):
        bounds, bits = (_whole(fields.get(n, "")) for n in ("cat_boundaries", "cat_threshold"))
        _need(len(bounds) == cats + 1 and bounds[0] == 0, "its categories have no bounds")
        _need(bool((np.diff(bounds) > 0).all()) and len(bits) == bounds[-1], "categories are cut")
        sets = [thresholds[k] for k in np.flatnonzero(kinds & 1).tolist()]
        _need(all(0 <= t < cats and t == int(t) for t in sets), "a split on no set of categories")


# -- XGBoost's JSON and UBJSON


def xgboost(path: Path) -> None:
    """Raise ValueError where the file is no model; a structure not known here is let through."""
    content = path.read_bytes()
    if content[:2] == b"{L":  # UBJSON, as XGBoost writes it
        model, end = _value(content, 0, 0)
        _need(end == len(content), "something stands after its end")
    else:
        model = json.loads(content)
    _need(isinstance(model, dict) and isinstance(model.get("learner"), dict), "it has no learner")
    about = model["learner"].get("learner_model_param")
    _need(isinstance(about, dict), "it has no parameters")
    features = int(about["num_feature"])
    _need(0 <= features <= 10**7 and 0 <= int(about["num_class"]) <= MOST, "its size is no size")
    booster = model["learner"].get("gradient_booster")
    _need(isinstance(booster, dict), "it has no booster")
    inner = booster.get("gbtree", booster).get("model")
    if isinstance(inner, dict) and "trees" in inner:
        trees = inner["trees"]
        _need(isinstance(trees, list), "its trees are no list")
        info, groups = inner.get("tree_info"), max(1, int(about["num_class"]))
        _need(info is None or len(info) == len(trees), "its trees are not as many as it says")
        _need(info is None or all(0 <= int(g) < groups for g in info), "a tree of no class")
        for k, tree in enumerate(trees):
            _need(isinstance(tree, dict), f"tree {k} is none")
            _nodes(k, tree, features)


def _nodes(k: int, tree: dict[str, Any], features: int) -> None:
    n = int(tree["tree_param"]["num_nodes"])
    columns = {
        name: np.asarray(tree[name])
        for name in ("left_children", "right_children", "parents", "split_indices",
                     "split_conditions", "base_weights", "default_left", "sum_hessian",
                     "loss_changes")
    }  # fmt: skip
    for name, column in columns.items():
        if column.ndim != 1 or column.dtype.kind not in "iufb":
            raise ValueError(f"the file is damaged: tree {k}, {name} are no numbers")
        if len(column) != n and int(tree["tree_param"].get("size_leaf_vector") or 0) <= 1:
            raise ValueError(f"the file is damaged: tree {k}, {len(column)} {name} of {n} nodes")
    left, right = columns["left_children"], columns["right_children"]
    below = np.concatenate([left, right])
    below = np.sort(below[below != -1])
    _need(len(np.unique(below)) == len(below), f"tree {k}: a node is the child of two")
    _need(not len(below) or (below[0] > 0 and below[-1] < n), f"tree {k}: a child that is not")
    _need(bool(((left == -1) == (right == -1)).all()), f"tree {k}: half a split")
    split = columns["split_indices"]
    _need(bool(((split >= 0) & (split < max(1, features))).all()), f"tree {k}: no such feature")


_NUMBERS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}


def _value(b: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The UBJSON value at a place, and where it ends."""
    _need(depth < _DEEP, "it is too deep")
    kind, at = b[at : at + 1], at + 1
    if kind in _NUMBERS:
        return _number(b, at, kind)
    if kind in (b"T", b"F", b"Z"):
        return {b"T": True, b"F": False, b"Z": None}[kind], at
    if kind == b"S":
        return _text(b, at)
    if kind == b"[":
        return _array(b, at, depth)
    _need(kind == b"{", f"{kind!r} at byte {at - 1} begins no value")
    made: dict[str, Any] = {}
    while b[at : at + 1] != b"}":
        name, at = _text(b, at)
        made[name], at = _value(b, at, depth + 1)
    return made, at + 1


def _number(b: bytes, at: int, kind: bytes) -> tuple[Any, int]:
    form = _NUMBERS[kind]
    end = at + struct.calcsize(form)
    _need(end <= len(b), "it is cut")
    return struct.unpack(form, b[at:end])[0], end


def _length(b: bytes, at: int) -> tuple[int, int]:
    kind = b[at : at + 1]
    _need(kind in (b"i", b"U", b"I", b"l", b"L"), f"no length at byte {at}")
    n, at = _number(b, at + 1, kind)
    _need(0 <= n <= len(b), f"a length of {n} at byte {at}")
    return int(n), at


def _text(b: bytes, at: int) -> tuple[str, int]:
    n, at = _length(b, at)
    _need(at + n <= len(b), "it is cut")
    return b[at : at + n].decode(), at + n


def _array(b: bytes, at: int, depth: int) -> tuple[Any, int]:
    if b[at : at + 1] == b"$":
        kind, at = b[at + 1 : at + 2], at + 2
        _need(kind in _NUMBERS and b[at : at + 1] == b"#", f"no array at byte {at}")
        n, at = _length(b, at + 1)
        end = at + n * struct.calcsize(_NUMBERS[kind])
        _need(end <= len(b), "it is cut")
        return np.frombuffer(b, np.dtype(_NUMBERS[kind]), n, at), end
    values = []
    if b[at : at + 1] == b"#":
        n, at = _length(b, at + 1)
        for _ in range(n):
            value, at = _value(b, at, depth + 1)
            values.append(value)
        return values, at
    while b[at : at + 1] != b"]":
        value, at = _value(b, at, depth + 1)
        values.append(value)
    return values, at + 1


CHECKS: dict[str, Callable[[Path], None]] = {"lightgbm": lightgbm, "xgboost": xgboost}
