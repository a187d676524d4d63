"""Does any interval exclude the truth? Thirty kinds of tree models against an oracle that shares no
code with the package.

    python studies/nature/oracle.py [--seeds 12] [--kind xgboost] [--smoke]

The oracle takes thresholds from the libraries' own dumps, finds the float64 border of each by
bisection of the library's comparison, asks the library's own `predict` at a point inside every
joint cell, and adds up masses computed with math.erfc and math.exp. Models are small, so that all
cells can be asked: two or three features, a few trees. A third of the records stand *on* a
threshold or one unit above it; where the model allows it, values are missing. Intervals are those
of every class under independent noise of mixed kinds, to 1e-6 and again with so little budget that
convolutions, halves and moments decide.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from durometer import noise as nz
from durometer.probability.certified.bounds import bounds
from durometer.probability.methods import distribution
from durometer.trees import read
from durometer.trees.grid import Grid

warnings.filterwarnings("ignore")
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
LGB = {"n_estimators": 4, "num_leaves": 5, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
XGB = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
Maker = tuple[Callable[[], Any], int, str]  # model, classes, what its data are like


def kinds() -> dict[str, Maker]:
    """name -> (model, classes, data): "plain", "holes", "whole" (integers), "codes", a sentinel."""

    def x(**more: Any) -> Callable[[], Any]:
        return lambda: xgb.XGBClassifier(**{**XGB, **more})

    def g(**more: Any) -> Callable[[], Any]:
        return lambda: lgb.LGBMClassifier(**{**LGB, **more})

    def c(**more: Any) -> Callable[[], Any]:
        return lambda: catboost.CatBoostClassifier(**{"iterations": 4, "depth": 3, **QUIET, **more})

    def f(n: int, depth: int = 3) -> Callable[[], Any]:
        return lambda: RandomForestClassifier(n, max_depth=depth, random_state=0)

    return {
        "tree": (lambda: DecisionTreeClassifier(max_depth=4, random_state=0), 3, "plain"),
        "tree, holes": (lambda: DecisionTreeClassifier(max_depth=4, random_state=0), 2, "holes"),
        "extra tree": (lambda: ExtraTreeClassifier(max_depth=4, random_state=0), 2, "plain"),
        "forest": (f(4), 2, "plain"),
        "forest, 3 classes": (f(4), 3, "plain"),
        "forest, ties": (f(3, 2), 3, "whole"),
        "forest, more ties": (f(6, 2), 2, "whole"),
        "forest, holes": (f(4), 2, "holes"),
        "extra trees": (
            lambda: ExtraTreesClassifier(4, max_depth=3, random_state=0), 2, "plain"),
        "extra trees, ties": (
            lambda: ExtraTreesClassifier(6, max_depth=2, random_state=0), 3, "whole"),
        "boosting": (lambda: GradientBoostingClassifier(n_estimators=4), 2, "plain"),
        "boosting, 3 classes": (lambda: GradientBoostingClassifier(n_estimators=3), 3, "plain"),
        "hist": (lambda: HistGradientBoostingClassifier(max_iter=4, max_depth=3), 2, "plain"),
        "hist, holes": (
            lambda: HistGradientBoostingClassifier(max_iter=3, max_depth=3), 3, "holes"),
        "xgboost": (x(), 2, "plain"),
        "xgboost, 3 classes": (x(n_estimators=3), 3, "plain"),
        "xgboost, base_score .01": (x(base_score=0.01), 2, "plain"),
        "xgboost, base_score .9": (x(base_score=0.9), 2, "plain"),
        "xgboost, holes": (x(), 2, "holes"),
        "xgboost, missing=-999": (x(missing=-999.0), 2, "-999"),
        "xgboost, missing=0": (x(missing=0.0), 2, "0"),
        "xgboost, dart": (x(booster="dart", rate_drop=0.4), 2, "plain"),
        "xgboost, dart and base_score": (
            x(booster="dart", rate_drop=0.4, base_score=0.3), 2, "whole"),
        "xgboost forest": (
            lambda: xgb.XGBRFClassifier(n_estimators=4, max_depth=3, n_jobs=1), 2, "plain"),
        "lightgbm": (g(), 2, "plain"),
        "lightgbm, 3 classes": (g(n_estimators=3), 3, "plain"),
        "lightgbm, one against all": (g(n_estimators=3, objective="multiclassova"), 3, "plain"),
        "lightgbm, holes": (g(), 2, "holes"),
        "lightgbm, categories": (g(min_data_per_group=5, cat_smooth=1), 2, "codes"),
        "lightgbm, rf": (
            g(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6), 2, "plain"),
        "catboost": (c(), 2, "plain"),
        "catboost, lossguide, holes": (c(grow_policy="Lossguide"), 2, "holes"),
    }  # fmt: skip


def task(rng: np.random.Generator, classes: int, like: str) -> tuple[np.ndarray, np.ndarray]:
    d = int(rng.integers(2, 4))
    x = np.round(rng.normal(size=(200, d)), 1)
    if like == "whole":
        x = np.rint(2 * x)[:40]
    if like == "codes":
        x[:, 0] = rng.integers(0, 5, len(x))
    score = x[:, 0] * (1 if like != "codes" else 0.6) + x[:, -1] * x[:, d // 2]
    borders = np.quantile(score, [0.35, 0.7][: classes - 1])
    y = np.digitize(score + 0.3 * rng.normal(size=len(x)), borders)
    y[:classes] = range(classes)
    if like == "holes":
        x = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    if like in ("-999", "0"):
        x = np.where(rng.random(x.shape) < 0.1, float(like), x)
    return x, y


def thresholds(model: Any, d: int) -> tuple[list[list[float]], str, type]:
    """Raw thresholds per feature from the library's own dump, its operator, its precision."""
    found: list[list[float]] = [[] for _ in range(d)]
    package, name = type(model).__module__.split(".")[0], type(model).__name__
    if package == "xgboost":
        table = model.get_booster().trees_to_dataframe()
        for f, t in table.loc[table["Feature"] != "Leaf", ["Feature", "Split"]].to_numpy():
            found[int(str(f)[1:])].append(float(np.float32(t)))
        return found, "<", np.float32
    if package == "lightgbm":
        table = model.booster_.trees_to_dataframe()
        for f, t, kind in table[["split_feature", "threshold", "decision_type"]].to_numpy():
            if isinstance(f, str) and kind == "<=":
                found[int(f.rpartition("_")[2])].append(float(t))
        return found, "zero", np.float64
    if package == "catboost":
        for f, borders in model.get_borders().items():
            found[int(f)] += [float(b) for b in borders]
        return found, "<=", np.float32
    if name.startswith("Hist"):
        for stage in model._predictors:  # noqa: SLF001 - it has no other dump
            for predictor in stage:
                for node in predictor.nodes[predictor.nodes["is_leaf"] == 0]:
                    found[int(node["feature_idx"])].append(float(node["num_threshold"]))
        return found, "<=", np.float64
    members = np.ravel(model.estimators_) if hasattr(model, "estimators_") else [model]
    for member in members:
        tree = member.tree_
        for f, t in zip(tree.feature, tree.threshold, strict=True):
            if f >= 0:
                found[int(f)].append(float(t))
    return found, "<=", np.float32


def border(t: float, operator: str, kind: type) -> float:
    """The largest float64 that the library's comparison sends left."""

    def left(v: float) -> bool:
        if operator == "zero":  # LightGBM reads what is next to zero as zero
            return (0.0 if abs(v) <= float(np.float32(1e-35)) else v) <= t
        return bool(kind(v) < kind(t)) if operator == "<" else bool(float(kind(v)) <= t)

    low, high = t - 1e-3 * max(abs(t), 1e-30), t + 1e-3 * max(abs(t), 1e-30)
    while np.nextafter(low, np.inf) < high:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if left(middle) else (low, middle)
    return high if left(high) else low


def cells(model: Any, d: int, like: str) -> list[np.ndarray]:
    """Per feature the sorted borders; codes and sentinels are cells of their own."""
    raw, operator, kind = thresholds(model, d)
    out = []
    for f in range(d):
        edges = [border(t, operator, kind) for t in set(raw[f]) if abs(t) < 1e30]
        if like == "codes" and f == 0:
            edges += [-1.0] + [float(np.nextafter(c, -np.inf)) for c in range(1, 8)]
        if like in ("-999", "0"):
            mark = np.float32(float(like))
            after = float(np.nextafter(mark, np.float32(np.inf)))
            edges += [border(t, "<", np.float32) for t in (float(mark), after)]
        out.append(np.unique(edges))
    return out


def noise_of(rng: np.random.Generator, like: str, d: int) -> list[tuple[Any, Callable[..., float]]]:
    """(a marginal of the package, its cdf written down here) per feature."""
    parts: list[tuple[Any, Callable[..., float]]] = []
    for f in range(d):
        sd = float(rng.choice([0.02, 0.2, 0.7]))
        wide = max(sd, 0.2)
        kind = int(rng.integers(0, 5))
        if like == "codes" and f == 0:
            m = np.full((8, 8), 0.02) + 0.84 * np.eye(8)
            rows = nz.Confusion(tuple(map(tuple, m.tolist())))
            parts.append((rows, lambda t, v, m=m: m[int(v), : max(math.floor(t) + 1, 0)].sum()))
        elif kind == 0:
            part = nz.uniform(-sd, sd)
            parts.append((part, lambda t, v, s=sd: min(max((t - v + s) / (2 * s), 0.0), 1.0)))
        elif kind == 1:
            part = nz.exponential(sd)
            parts.append((part, lambda t, v, s=sd: 1 - math.exp(-max(t - v, 0.0) / s)))
        elif kind == 2:
            part = nz.Marginal("norm", (0.0, wide), integer=True)
            parts.append((part, lambda t, v, s=wide: _normal((math.floor(t) + 0.5 - v) / s)))
        elif kind == 3:
            parts.append((nz.no_noise(), lambda t, v: float(v <= t)))
        else:
            parts.append((nz.normal(0, sd), lambda t, v, s=sd: _normal((t - v) / s)))
    return parts


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def truth(
    model: Any,
    edges: list[np.ndarray],
    cdfs: list[Callable[..., float]],
    row: np.ndarray,
    names: list[Any],
) -> np.ndarray:
    """P(class) of one record: every joint cell asked of the library."""
    inside, masses = [], []
    for f, t in enumerate(edges):
        if np.isnan(row[f]):
            inside.append(np.array([np.nan]))
            masses.append(np.array([1.0]))
            continue
        below = [0.0, *[cdfs[f](float(b), float(row[f])) for b in t], 1.0]
        ends = np.concatenate([t[:1] - 1.0, t, t[-1:] + 1.0]) if len(t) else np.array([-1.0, 1.0])
        middle = (ends[1:] + ends[:-1]) / 2
        inside.append(np.where(middle > ends[:-1], middle, ends[1:]))  # borders belong to the left
        masses.append(np.maximum(np.diff(below), 0.0))
    rows = np.array(list(itertools.product(*inside)))
    mass = np.array([math.prod(m) for m in itertools.product(*masses)])
    label = np.asarray(model.predict(rows[mass > 0])).ravel()
    return np.array([mass[mass > 0][label == name].sum() for name in names])


def one(name: str, maker: Maker, seed: int, rows: int) -> tuple[int, int, float]:
    """(intervals, excluded, largest excess) of one model."""
    make, classes, like = maker
    rng = np.random.default_rng([seed, len(name), sum(map(ord, name))])
    x, y = task(rng, classes, like)
    more = {"categorical_feature": [0]} if like == "codes" else {}
    model = make().fit(x, y, **more)
    ensemble, d = read(model), x.shape[1]
    edges = cells(model, d, like)
    if math.prod(len(t) + 1 for t in edges) > 20_000:
        return 0, 0, 0.0
    parts = noise_of(rng, like, d)
    records = x[rng.choice(len(x), rows, replace=False)].copy()
    for i in range(0, rows, 3):  # on a threshold, or a unit above it
        f = int(rng.integers(d))
        if len(edges[f]) and not (like == "codes" and f == 0):
            t = rng.choice(edges[f])
            records[i, f] = t if rng.random() < 0.5 else np.nextafter(t, np.inf)
    if like != "holes":
        records = np.where(np.isnan(records), 0.0, records)
    noise = nz.Independent(tuple(p for p, _ in parts))
    exact = np.array(
        [truth(model, edges, [c for _, c in parts], r, list(ensemble.classes)) for r in records]
    )
    found = [distribution(ensemble, noise, records, workers=1)[:2]]
    if ensemble.n_trees > 1:
        grid = Grid.of(ensemble)
        masses = grid.masses(noise, records)
        ends = [
            bounds(ensemble, grid, masses, records, np.full(rows, c), budget=1e-5, listed=8,
                   crossed=20, widest=6, bins=16, workers=1)[:2]
            for c in range(ensemble.n_classes)
        ]  # fmt: skip
        found.append((np.stack([a for a, _ in ends], 1), np.stack([b for _, b in ends], 1)))
    count, wrong, worst = 0, 0, 0.0
    for low, high in found:
        excess = np.maximum(low - exact, exact - high)
        count += excess.size
        wrong += int((excess > 1e-12).sum())
        worst = max(worst, float(excess.max()))
    return count, wrong, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kind", default="", help="only kinds whose name holds this")
    parser.add_argument("--smoke", action="store_true", help="one seed and three records of each")
    given = parser.parse_args()
    total, excluded, began = 0, 0, time.process_time()
    for name, maker in kinds().items():
        if given.kind not in name:
            continue
        parts = [
            one(name, maker, seed, 3 if given.smoke else 9)
            for seed in range(1 if given.smoke else given.seeds)
        ]
        n, wrong, worst = (
            sum(p[0] for p in parts),
            sum(p[1] for p in parts),
            max(p[2] for p in parts),
        )
        total, excluded = total + n, excluded + wrong
        print(
            f"{name:32s} {n:6d} intervals, {wrong} excluded, largest excess {worst:.1e}", flush=True
        )
    took = time.process_time() - began
    print(f"{total} intervals, {excluded} excluded the truth ({took:.0f} CPU s)")
    if excluded:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
