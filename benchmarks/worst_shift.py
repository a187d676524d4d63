"""Noise and an adversary together: is the worst shift found ever beaten by random shifts?

Trees on Iris and breast cancer (five features), normal and uniform noise, L2 and Linf; of each
record the upper end of the least probability (`Nature` with a space) beside the least of 100 random
shifts of the same size, each integrated exactly. A positive difference is a shift that the search
missed.

    python benchmarks/worst_shift.py [--smoke] [--part 3]    # one of six pairs of table and model
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import durometer as du
from durometer.probability.methods import probability
from durometer.trees import read

FREE = {"low": -math.inf, "high": math.inf}


def models(x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    return {
        "forest 20 x 4": RandomForestClassifier(20, max_depth=4, random_state=0).fit(x, y),
        "HistGB 20 x 4": HistGradientBoostingClassifier(
            max_iter=20, max_depth=4, random_state=0
        ).fit(x, y),
        "XGBoost 30 x 4": xgb.XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1).fit(x, y),
    }


def random_shifts(rng: np.random.Generator, n: int, d: int, p: float, eps: float) -> np.ndarray:
    """(n, d): half of them on the sphere's surface (Linf: corners), half anywhere inside."""
    v = rng.normal(size=(n, d))
    v = np.sign(v) if p == math.inf else v / np.linalg.norm(v, axis=1, keepdims=True)
    v[n // 2 :] *= rng.random((n - n // 2, 1)) ** (1 / d)
    return eps * v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="toy size: does it still run?")
    parser.add_argument("--part", type=int, choices=range(6), help="one table and model alone")
    asked = parser.parse_args()
    smoke, pair = asked.smoke, -1
    each, count = (2, 5) if smoke else (9, 100)
    iris, cancer = load_iris(return_X_y=True), load_breast_cancer(return_X_y=True)
    tables = {"Iris": iris, "cancer": (cancer[0][:, :5] / cancer[0][:, :5].std(0), cancer[1])}
    every, began = [], time.process_time()
    print("| table | model | noise | space | records | above the best random shift: most | mean |")
    print("|---|---|---|---|---|---|---|")
    for table, (x, y) in tables.items():
        for name, model in models(x, y).items():
            pair += 1
            if asked.part not in (None, pair):
                continue
            rng, ensemble = np.random.default_rng(pair), read(model)
            for kind, p in (("normal", 2.0), ("normal", math.inf), ("uniform", 2.0),
                            ("uniform", math.inf)):  # fmt: skip
                d = x.shape[1]
                noise = (
                    du.Normal(sd=0.2) if kind == "normal"
                    else du.Independent([du.noise.uniform(-0.35, 0.35)] * d)
                )  # fmt: skip
                eps = 0.3 if p == 2.0 else 0.15
                rows = x[rng.permutation(len(x))[:each]]
                space = du.L2(eps, **FREE) if p == 2.0 else du.Linf(eps, **FREE)
                label = ensemble.decide(rows)
                t = du.evaluate(
                    du.Nature(model, noise, tolerance=1e-4, budget=0.3),
                    du.Dataset(rows, label), space=space, progress=False,
                ).table  # fmt: skip
                best = np.ones(len(rows))
                for shift in random_shifts(rng, count, d, p, eps):
                    found = probability(
                        ensemble, noise, rows + shift, label, tolerance=1e-3, budget=0.3
                    )
                    best = np.minimum(best, found.high)
                above = t["probability_high"].to_numpy() - best
                every += above.tolist()
                print(f"| {table} | {name} | {kind} | {'L2' if p == 2 else 'Linf'} {eps} | "
                      f"{len(rows)} | {above.max():+.4f} | {above.mean():+.4f} |",
                      flush=True)  # fmt: skip
    above = np.array(every)
    print(
        f"\n{len(above)} cases: {(above > 0.005).sum()} more than 0.005 above the best of {count} "
        f"random shifts, the most {above.max():+.4f}; below it in {(above < -1e-3).mean():.0%}; "
        f"{time.process_time() - began:.0f} CPU-s"
    )


if __name__ == "__main__":
    main()
