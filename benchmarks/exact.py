"""The exact worst case of trees: time a row and open rows, beside HiGHS, veritas, Graft, MOEVA.

    python benchmarks/exact.py [--rows 200] [--only linf] [--smoke]

URL phishing (63 features, 14 relations, whole numbers), rows of both classes that the model gets
right, models trained here. `Exact` has 5 CPU-seconds a row. On the same rows, where they apply:
HiGHS (mixed-integer program with the same relations, 20 s), veritas (bounds only: no relations,
no whole numbers, so it answers an easier question for the attacker), Graft and MOEVA (searches:
what they miss of the rows that are truly attackable). Times are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import assay as ay
from assay.proofs.search.decide import Decision, decide
from assay.trees import read

sys.path.insert(0, str(Path(__file__).parent.parent))  # the oracles of the tests

MODELS = {
    "XGB 100x4": lambda: _xgb(100, 4),
    "XGB 100x6": lambda: _xgb(100, 6),
    "XGB 300x6": lambda: _xgb(300, 6),
    "LGB 100x31": lambda: _lgb(),
    "CatBoost 100x6": lambda: _cat(),
    "RF 100x8": lambda: _forest(8),
    "RF 100": lambda: _forest(None),
}
# group, model, eps, p, rows at most
SETTINGS = [
    *(("linf", m, 0.05, math.inf, 200) for m in ("XGB 100x4", "XGB 100x6", "XGB 300x6")),
    *(("linf", m, 0.05, math.inf, 200) for m in ("LGB 100x31", "CatBoost 100x6")),
    *(("l2", m, 0.1, 2.0, 200) for m in ("XGB 100x6", "LGB 100x31")),
    ("l2", "XGB 300x6", 0.1, 2.0, 60),
    *(("l1", m, 0.1, 1.0, 200) for m in ("XGB 100x6", "LGB 100x31")),
    ("l0", "XGB 100x6", 2, 0.0, 40),
    ("forest", "RF 100x8", 0.05, math.inf, 40),
    ("forest", "RF 100", 0.05, math.inf, 20),
]


def _xgb(trees: int, depth: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1, random_state=0)


def _lgb() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1, random_state=0)


def _cat() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=100, depth=6, verbose=0, thread_count=1, random_seed=0, allow_writing_files=False
    )


def _forest(depth: int | None) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, max_depth=depth, random_state=0)


def right_rows(model: Any, data: ay.Dataset, count: int) -> ay.Dataset:
    """Rows that the model gets right, drawn from both classes."""
    wrong = np.asarray(model.predict(data.x.numpy())).ravel().astype(int) != data.y.numpy()
    order = np.random.default_rng(0).permutation(np.flatnonzero(~wrong))
    return data.take(torch.from_numpy(np.sort(order[:count])))


def line(name: str, found: Decision) -> None:
    ms, n = 1e3 * found.seconds, len(found.seconds)
    fast = [(~found.open & (found.seconds <= s)).mean() for s in (1.0, 5.0)]
    print(
        f"{name:34s} {n:5d} rows  broken {found.broken.sum():4d}  proven {found.proven.sum():4d}  "
        f"open {found.open.sum():3d}   ms a row: mean {ms.mean():8.2f}  median "
        f"{np.median(ms):7.2f}  "
        f"max {ms.max():8.1f}   in 1 s / 5 s {fast[0]:.3f} / {fast[1]:.3f}",
        flush=True,
    )


def played(model: Any, data: ay.Dataset, space: Any, seconds: float) -> Decision:
    y = data.y.numpy()
    ensemble = read(model)
    allowed = np.ones((len(y), ensemble.n_classes), dtype=bool)
    allowed[np.arange(len(y)), y] = False
    found = decide(ensemble, space.around(data.x), allowed, seconds)
    flipped = np.asarray(model.predict(found.point[found.broken])).ravel().astype(int)
    assert (flipped != y[found.broken]).all(), "the library does not agree"
    return found


def searches(model: Any, data: ay.Dataset, space: Any, found: Decision, smoke: bool) -> None:
    graft, moeva = ay.Graft(100 if smoke else 3000), ay.MOEVA(generations=2 if smoke else 100)
    for name, attack in (("Graft", graft), ("MOEVA", moeva)):
        began = time.process_time()
        report = ay.evaluate(model, data, space=space, attack=attack)
        spent = time.process_time() - began
        hit = np.asarray(report.table["verdict"]) == "broken"
        wrong = int((hit & found.proven).sum())
        print(
            f"    {name:8s} breaks {hit.sum()} of {found.broken.sum()} attackable rows, "
            f"{1e3 * spent / len(data):.0f} ms a row; of the proven rows {wrong}"
        )


def milp_peer(model: Any, data: ay.Dataset, eps: float, found: Decision, rows: int) -> None:
    from tests.oracles.url import compare_with_highs

    began = time.process_time()
    both, wrong, open_ = compare_with_highs(model, data, eps, found, rows)
    spent = (time.process_time() - began) / max(1, rows)
    print(
        f"    HiGHS    {1e3 * spent:.0f} ms a row on {rows} rows, {open_} not solved in 20 s; "
        f"decided by both {both}, contradictions {wrong}"
    )


def veritas_peer(model: Any, data: ay.Dataset, eps: float, found: Decision, rows: int) -> None:
    """Bounds of the output in the Linf box; no relations, no whole numbers."""
    import veritas

    trees = veritas.get_addtree(model, silent=True)
    features = data.schema.features
    width = np.array([f.range[1] - f.range[0] for f in features])
    low, high = (b.numpy() for b in data.schema.bounds(data.x))
    x, y = data.x.numpy(), data.y.numpy()
    proven = broken = 0
    began = time.process_time()
    for i in range(rows):
        kind = veritas.HeuristicType.MIN_OUTPUT if y[i] else veritas.HeuristicType.MAX_OUTPUT
        config = veritas.Config(kind)
        config.stop_when_optimal = True
        lo, hi = np.maximum(low[i], x[i] - eps * width), np.minimum(high[i], x[i] + eps * width)
        box = [veritas.Interval(a, np.nextafter(b, np.inf)) for a, b in zip(lo, hi, strict=True)]
        search = config.get_search(trees, box)
        search.step_for(5.0, 100)
        bounds, sign = search.current_bounds(), 1 if y[i] else -1
        sure, flipped = sign * bounds.best > 0, sign * bounds.atleast < 0
        proven, broken = proven + bool(sure), broken + bool(flipped)
    spent = (time.process_time() - began) / max(1, rows)
    print(
        f"    veritas  {1e3 * spent:.0f} ms a row on {rows} rows: proven {proven} (Exact, with "
        f"relations and whole numbers: {found.proven[:rows].sum()}), broken {broken}"
    )


def url(args: argparse.Namespace) -> None:
    splits = ay.datasets.url()
    x, y = splits.train.x.numpy(), splits.train.y.numpy()
    if args.smoke:
        x, y = x[:800], y[:800]
    fitted: dict[str, Any] = {}
    for group, name, eps, p, most in SETTINGS:
        if args.only and group not in args.only.split(","):
            continue
        if args.smoke and name not in ("XGB 100x4", "LGB 100x31"):
            continue
        if name not in fitted:
            fitted[name] = MODELS[name]().fit(x, y)
        model = fitted[name]
        data = right_rows(model, splits.test, 4 if args.smoke else min(most, args.rows))
        space = splits.test.schema.space(eps=eps, p=p)
        found = played(model, data, space, 0.2 if args.smoke else 5.0)
        line(f"{name}, L{p:g} {eps:g}", found)
        if args.peers and name in ("XGB 100x4", "XGB 100x6") and group == "linf":
            few = min(4 if args.smoke else 20, len(data))
            milp_peer(model, data, eps, found, few)
            veritas_peer(model, data, eps, found, few)
        if args.peers and name in ("XGB 100x6", "LGB 100x31") and group in ("linf", "l2", "l1"):
            some = data.take(torch.arange(min(40, len(data))))
            searches(model, some, space, played(model, some, space, 5.0), args.smoke)


def digits(args: argparse.Namespace) -> None:
    """Ten classes: every other class is a goal of its own."""
    from sklearn.datasets import load_digits
    from xgboost import XGBClassifier

    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(x[:1200], y[:1200])
    few = 4 if args.smoke else 100
    right = np.flatnonzero(model.predict(x[1200:]) == y[1200:])[:few] + 1200
    data = ay.Dataset(x[right], y[right])
    for eps, p in ((0.05, math.inf), (0.2, 2.0)):
        found = played(model, data, ay.spaces.lp.Lp(p, eps), 0.2 if args.smoke else 5.0)
        line(f"digits XGB 10 x 40x4, L{p:g} {eps:g}", found)


def tables(args: argparse.Namespace) -> None:
    """LCLD (ratios, an instalment, categories; 47: one-hot groups) and the features of CTU-13.

    The bundled CTU-13 rows are all botnet: the label here is an artificial one (is the mean rank of
    eight features above its median?), to see 756 features and 360 relations at work.
    """
    from sklearn.model_selection import train_test_split
    from xgboost import XGBClassifier

    ctu = ay.datasets.ctu13().test
    rank = ctu.x[:, ::90].argsort(0).argsort(0).double().mean(1)
    sets = {
        "LCLD 28": (ay.datasets.lcld().test, None),
        "LCLD 47": (ay.datasets.lcld(47).test, None),
        "CTU-13, artificial label": (ctu, (rank > rank.median()).long()),
    }
    for name, (data, label) in sets.items():
        y = (data.y if label is None else label).numpy()
        train, test = train_test_split(
            np.arange(len(data)), test_size=0.4, random_state=0, stratify=y
        )
        model = XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
        model.fit(data.x.numpy()[train], y[train])
        part = ay.Dataset(data.x[torch.from_numpy(test)], y[test], schema=data.schema)
        some = right_rows(model, part, 4 if args.smoke else 60)
        for eps, p in ((0.05, math.inf), (0.1, 2.0)):
            space = data.schema.space(eps=eps, p=p)
            found = played(model, some, space, 0.2 if args.smoke else 2.0)
            line(f"{name} XGB 60x4, L{p:g} {eps:g}", found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--only", default="", help="linf,l2,l1,l0,forest,digits,tables")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = args.only.split(",") if args.only else []
    url(args)
    if not chosen or "digits" in chosen:
        digits(args)
    if not chosen or "tables" in chosen:
        tables(args)


if __name__ == "__main__":
    main()
