"""The paper's Table 1 (Iris) and figure 4 (Pima, correlated mixed noise), re-run.

    python studies/nature.py [--quick] [--draws 10000000]

Iris: a tree of depth 4, covariance 0.1 I, 15 test flowers; all boxes, 99 % boxes and our leaves.
99 % boxes leave out mass (the column "left out"), so they may lie below the truth by that much and
by no more; where they leave out nothing they must agree to rounding.
Pima: noise of a tenth of each feature's variance (normal for Glucose, BloodPressure, BMI and
DiabetesPedigreeFunction, exponential for Pregnancies, Insulin and Age), tied by the data's rank
correlations (NORTA); XGBoost with 4 trees of depth 3 as in the paper, and with 100 of depth 6.

With --draws: certified bounds of larger ensembles against that many draws through the library's own
predict. The split of the paper is not given, so figures agree in kind, not digit by digit.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from assay import datasets
from assay.datasets.pima import FEATURES
from assay.noise import Normal, from_data
from assay.trees import probability, read
from assay.trees.boxes import all_boxes, near_boxes

SEED = 0
ONE_SIDED = {name: "exponential" for name in ("Pregnancies", "Insulin", "Age")}


def iris() -> None:
    """Table 1: all boxes, 99 % boxes, leaves."""
    x, y = load_iris(return_X_y=True)
    train, test, labels, _ = train_test_split(x, y, test_size=0.1, random_state=SEED)
    tree = DecisionTreeClassifier(max_depth=4, random_state=SEED).fit(train, labels)
    ensemble, noise = read(tree), Normal(cov=0.1 * np.eye(4))
    ours = probability(ensemble, noise, test, ensemble.predict(test))
    every = all_boxes(ensemble)
    print("| sample | boxes | all boxes | 99 % boxes | 99 % boxes | left out | leaves |")
    print("|---|---|---|---|---|---|---|")
    worst_all = worst_near = worst_whole = 0.0
    explained = 0
    for i, row in enumerate(test):
        label = int(ensemble.predict(row[None])[0])
        near = near_boxes(ensemble, noise, row)
        whole, part = every.robustness(noise, row, label), near.robustness(noise, row, label)
        worst_all = max(worst_all, abs(whole - ours.middle[i]))
        worst_near = max(worst_near, abs(part - ours.middle[i]))
        out = max(1 - float(noise.mass(row[None], near.low[None], near.high[None]).sum()), 0.0)
        short = ours.middle[i] - part
        explained += bool(-1e-12 <= short <= out + 1e-12)
        if out < 1e-6:
            worst_whole = max(worst_whole, abs(short))
        print(
            f"| {i + 1} | {int((every.label == label).sum())} | {whole:.5f} | "
            f"{int((near.label == label).sum())} | {part:.5f} | {out:.1e} | {ours.middle[i]:.5f} |"
        )
    print(f"largest difference: all boxes {worst_all:.1e}, 99 % boxes {worst_near:.1e}")
    print(
        f"99 % boxes: {explained} of {len(test)} within what they leave out; "
        f"largest difference where they leave out less than 1e-6: {worst_whole:.1e}"
    )


def against_draws(draws: int, rows: int = 4) -> None:
    """Certified bounds against plain draws through the library's own predict, 5 standard errors."""
    frame, y = women()
    train, test, labels, _ = train_test_split(frame.to_numpy(), y, test_size=0.1, random_state=SEED)
    sd = tuple(0.1 * train.std(axis=0))
    noise = Normal(sd=sd)
    models = {
        "XGBoost 100 x 6": xgb.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1),
        "forest 20 x 8": RandomForestClassifier(20, max_depth=8, random_state=SEED),
    }
    print(f"\nPima, sd 0.1 of each feature's, {draws:,} draws per record")
    print("| model | record | low | high | drawn | 5 standard errors | inside |")
    print("|---|---|---|---|---|---|---|")
    for name, model in models.items():
        model.fit(train, labels)
        ensemble = read(model)
        label = ensemble.predict(test[:rows])
        found = probability(ensemble, noise, test[:rows], label, tolerance=1e-5, budget=2.0)
        for i in range(rows):
            rng, chunk, hits = np.random.default_rng([SEED, i]), 250_000, 0
            for _ in range(draws // chunk):
                hits += int(
                    (model.predict(noise.sample(test[i : i + 1], chunk, rng)[0]) == label[i]).sum()
                )
            n = draws // chunk * chunk
            p = hits / n
            error = 5 * np.sqrt(max(p * (1 - p), 1 / n) / n)
            inside = found.low[i] - error <= p <= found.high[i] + error
            print(
                f"| {name} | {i} | {found.low[i]:.6f} | {found.high[i]:.6f} | {p:.6f} | "
                f"{error:.1e} | {'yes' if inside else 'NO'} |",
                flush=True,
            )


def women() -> tuple[pd.DataFrame, np.ndarray]:
    """The 724 measured records with the paper's 7 features."""
    data = datasets.pima()
    x = np.concatenate([data.train.x.numpy(), data.test.x.numpy()])
    y = np.concatenate([data.train.y.numpy(), data.test.y.numpy()])
    order = np.argsort(np.concatenate([data.train.ids, data.test.ids]))
    frame = pd.DataFrame(x[order], columns=list(FEATURES)).drop(columns="SkinThickness")
    measured = (frame[["Glucose", "BloodPressure", "BMI"]] > 0).all(axis=1).to_numpy()
    return frame[measured], y[order][measured]


def pima(trees: int, depth: int, rows: int | None) -> None:
    """Figure 4: the distribution of robustness over the test records."""
    frame, y = women()
    train, test, labels, truth = train_test_split(frame, y, test_size=0.1, random_state=SEED)
    model = xgb.XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1)
    model.fit(train.to_numpy(), labels)
    ensemble = read(model)
    noise = from_data(frame, ratio=10, kinds=ONE_SIDED)
    x = test.to_numpy()[:rows]
    began, cpu = time.perf_counter(), time.process_time()
    found = probability(
        ensemble, noise, x, ensemble.predict(x), tolerance=1e-3, budget=8.0, seed=SEED
    )
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    r = found.middle
    accuracy = (model.predict(test.to_numpy()) == truth).mean()
    print(f"\nPima, XGBoost {trees} x depth {depth}: accuracy {accuracy:.2f}, {len(x)} tested")
    print(f"{found.kind} intervals: widest {found.width.max():.1e}, {took:.1f} s ({cpu:.1f} CPU s)")
    print(
        f"robustness from {r.min():.2f} to {r.max():.2f}; {(r > 0.99).sum()} of {len(r)} above 0.99"
    )
    counts, edges = np.histogram(r, bins=10, range=(0, 1))
    for n, low in zip(counts, edges, strict=False):
        print(f"  {low:.1f}-{low + 0.1:.1f} {'#' * int(n)} {n}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer Pima records")
    parser.add_argument("--draws", type=int, help="only: bounds against this many draws a record")
    given = parser.parse_args()
    quick = given.quick
    if given.draws:
        against_draws(given.draws)
        return
    iris()
    pima(4, 3, 20 if quick else None)
    pima(100, 6, 10 if quick else None)


if __name__ == "__main__":
    main()
