"""Operating rules against brute force: thresholds, bands and tolerances on tree models.

Every row's verdict by `Exact` beside the answer of the model itself in one point of every cell of
its trees within reach (two features, so the cells can be listed), and every probability under noise
beside plain draws. A disagreement is an error of ours.

    python benchmarks/rules.py [--smoke]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import durometer as du

EPS, SD = 0.06, 0.1


def thresholds(model: Any, feature: int) -> np.ndarray:
    """The thresholds of one feature, by the library's own dump."""
    if hasattr(model, "get_booster"):
        frame = model.get_booster().trees_to_dataframe()
        return frame[frame.Feature == f"f{feature}"].Split.to_numpy()
    if hasattr(model, "booster_"):
        frame = model.booster_.trees_to_dataframe()
        return frame[frame.split_feature == f"Column_{feature}"].threshold.to_numpy()
    if hasattr(model, "_predictors"):
        nodes = [n for stage in model._predictors for p in stage for n in p.nodes]
        return np.array(
            [n["num_threshold"] for n in nodes if not n["is_leaf"] and n["feature_idx"] == feature]
        )
    trees = [t.tree_ for t in np.ravel(model.estimators_)]
    return np.concatenate([t.threshold[t.feature == feature] for t in trees])


def reach(cuts: list[np.ndarray], row: np.ndarray) -> np.ndarray:
    """One point of every cell within EPS, and the ends."""
    sides = []
    for j in range(2):
        low, high = row[j] - EPS, row[j] + EPS
        inside = np.unique(cuts[j][(cuts[j] > low) & (cuts[j] < high)])
        edges = np.concatenate([[low], inside, [high]])
        sides.append(np.concatenate([[low, row[j], high], (edges[1:] + edges[:-1]) / 2]))
    return np.array(list(product(*sides)))


def compared(
    name: str,
    model: Any,
    score: Callable[[np.ndarray], np.ndarray],
    wrapped: du.Classifier,
    y: np.ndarray,
    wins: Callable[[int, np.ndarray], np.ndarray],
    x: np.ndarray,
    draws: int,
) -> None:
    """One line of the table."""
    data = du.Dataset(x, y)
    began = time.process_time()
    report = du.evaluate(wrapped, data, space=du.Linf(EPS), progress=False)
    seconds = time.process_time() - began
    verdict = np.asarray(report.table["verdict"])
    cuts = [np.asarray(thresholds(model, j), dtype=float) for j in range(2)]
    truth = np.array([wins(i, score(reach(cuts, row))).any() for i, row in enumerate(x)])
    wrong = int(((verdict == "broken") != truth).sum())
    noisy = min(len(x), 100)
    few = du.Dataset(x[:noisy], y[:noisy])
    under = du.evaluate(du.Nature(wrapped, du.Normal(sd=SD)), few, progress=False)
    low = np.asarray(under.table["probability_low"], dtype=float)
    high = np.asarray(under.table["probability_high"], dtype=float)
    rng = np.random.default_rng(7)
    start = np.asarray(wrapped_band(wrapped, score(x[:noisy])))
    outside = 0
    for i in range(noisy):
        drawn = score(x[i] + SD * rng.standard_normal((draws, 2)))
        stays = float((wrapped_band(wrapped, drawn, score(x[i : i + 1])[0]) == start[i]).mean())
        off = 4 * np.sqrt(max(stays * (1 - stays), 1 / draws) / draws)
        outside += not low[i] - off <= stays <= high[i] + off
    print(
        f"| {name} | {len(x)} | {int(truth.sum())} | {int((verdict == 'proven').sum())} | "
        f"{int((verdict == 'open').sum())} | {wrong} | {seconds:.1f} | {outside} of {noisy} |",
        flush=True,
    )


def wrapped_band(wrapped: du.Classifier, score: np.ndarray, clean: float | None = None) -> Any:
    """The class of each score, written here again from the name of the rule."""
    score = np.asarray(score, dtype=float)
    kind = wrapped.kind
    if "moved by" in kind:
        clean_score = score if clean is None else clean
        return np.where(np.abs(score - clean_score) > 1.0, 2, 1)
    return np.searchsorted([0.3, 0.7] if "bands" in kind else [0.7], score, side="right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="toy size: does it still run?")
    smoke = parser.parse_args().smoke
    rows, draws = (20, 2_000) if smoke else (500, 20_000)
    rng = np.random.default_rng(11)
    fit, x = rng.uniform(0, 1, (600, 2)), rng.uniform(0, 1, (rows, 2))

    def target(x: np.ndarray) -> np.ndarray:
        return 10 * x[:, 0] ** 2 - 5 * x[:, 1] + 0.3 * rng.standard_normal(len(x))

    def label(x: np.ndarray) -> np.ndarray:
        noise = 0.2 * rng.standard_normal(len(x))
        return (x[:, 0] + 0.5 * x[:, 1] + noise > 0.75).astype(int)

    print("| model, rule | rows | broken, brute force | proven | open | wrong verdicts | CPU s | "
          "noise: draws outside |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    y = label(x)
    for model in (
        RandomForestClassifier(10, max_depth=4, random_state=0),
        xgboost.XGBClassifier(n_estimators=10, max_depth=3),
        lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, min_child_samples=5),
    ):
        model.fit(fit, label(fit))

        def score(x: np.ndarray, model: Any = model) -> np.ndarray:
            return np.asarray(model.predict_proba(x)[:, 1])

        name = type(model).__name__
        compared(f"{name}, threshold 0.7", model, score, du.wrap(model, threshold=0.7), y,
                 lambda i, s: (s >= 0.7) != y[i], x, draws)  # fmt: skip
        band = np.searchsorted([0.3, 0.7], score(x), side="right")
        compared(f"{name}, bands 0.3 and 0.7", model, score, du.wrap(model, bands=[0.3, 0.7]), band,
                 lambda i, s, band=band: np.searchsorted([0.3, 0.7], s, side="right") != band[i],
                 x, draws)  # fmt: skip
    for regressor in (
        RandomForestRegressor(10, max_depth=4, random_state=0),
        GradientBoostingRegressor(n_estimators=10, random_state=0),
        HistGradientBoostingRegressor(max_iter=10),
        xgboost.XGBRegressor(n_estimators=10, max_depth=3),
        lightgbm.LGBMRegressor(n_estimators=10, verbose=-1, min_child_samples=5),
    ):
        regressor.fit(fit, target(fit))

        def value(x: np.ndarray, model: Any = regressor) -> np.ndarray:
            return np.asarray(model.predict(x), dtype=float)

        clean = value(x)
        compared(f"{type(regressor).__name__}, tolerance 1", regressor, value,
                 du.wrap(regressor, tolerance=1.0), np.zeros(rows, int),
                 lambda i, s, clean=clean: np.abs(s - clean[i]) > 1, x, draws)  # fmt: skip


if __name__ == "__main__":
    main()
