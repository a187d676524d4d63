"""The paper's Table 3 (nine decision trees on MNIST, leaves against a million draws, five noise
levels) and its Iris example with four different distributions (section 5.4), re-run.

    python studies/nature/tables.py [--draws 1000000] [--smoke]

Table 3: images of 3 x 3 to 10 x 10 pixels, trees of depth 4 to 6, the first ten test images;
R-squared and the largest difference between exact leaves and draws, which is the draws' own error.
The sample of MNIST that comes with the package stands in for all 60,000 training images.
Iris: XGBoost with 4 trees, normal, exponential, chi-square and lognormal noise tied by rank
correlations of 0.1 to 0.3; the paper does not give its parameters. Exponential and chi-square
errors start at the record, so records above the last threshold have a robustness of exactly 1.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from durometer import datasets
from durometer.noise import Copula, Marginal, Normal, exponential, lognormal, normal
from durometer.probability.methods import probability
from durometer.trees import read

SIZES = ((3, 4), (3, 5), (3, 6), (5, 5), (5, 6), (8, 4), (8, 5), (10, 4), (10, 5))  # pixels, depth
LEVELS = (0.0001, 0.001, 0.01, 0.1, 0.5)  # covariances


def small(x: Any, pixels: int) -> np.ndarray:
    """28 x 28 images as means over a coarser grid."""
    x = np.asarray(x, dtype=np.float64)[:, 0]
    fine = np.repeat(np.repeat(x, pixels, axis=1), pixels, axis=2)
    return fine.reshape(len(x), pixels, 28, pixels, 28).mean(axis=(2, 4)).reshape(len(x), -1)


def table_three(draws: int, sizes: tuple[tuple[int, int], ...], levels: tuple[float, ...]) -> None:
    data = datasets.mnist()
    print("| pixels, depth | covariance | R-squared | largest difference | leaves s | draws s |")
    print("|---|---|---|---|---|---|")
    for pixels, depth in sizes:
        x, test = small(data.train.x, pixels), small(data.test.x, pixels)[:10]
        model = DecisionTreeClassifier(max_depth=depth, random_state=0)
        ensemble = read(model.fit(x, data.train.y.numpy()))
        label = ensemble.decide(test)
        for level in levels:
            noise = Normal(cov=level * np.eye(test.shape[1]))
            began = time.process_time()
            exact = probability(ensemble, noise, test, label).middle
            middle = time.process_time()
            rng = np.random.default_rng(0)
            share = np.array([_drawn(model, level**0.5, row, draws, rng) for row in test])
            end = time.process_time()
            spread = ((exact - exact.mean()) ** 2).sum()
            fit = 1 - ((exact - share) ** 2).sum() / spread if spread > 0 else 1.0
            print(
                f"| {pixels} x {pixels}, {depth} | {level} | {fit:.6f} | "
                f"{np.abs(exact - share).max():.1e} | {middle - began:.3f} | {end - middle:.1f} |",
                flush=True,
            )


def _drawn(model: Any, sd: float, row: np.ndarray, draws: int, rng: Any) -> float:
    """The share of draws that keep the label. Only features that the tree asks are drawn."""
    used = np.unique(model.tree_.feature[model.tree_.feature >= 0])
    rows = np.tile(row.astype(np.float32), (min(draws, 10_000), 1))
    mine, hits = model.predict(row[None])[0], 0
    for start in range(0, draws, len(rows)):
        n = min(len(rows), draws - start)
        rows[:n, used] = row[used] + sd * rng.standard_normal((n, len(used)))
        hits += int((model.predict(rows[:n]) == mine).sum())
    return hits / draws


def _share(model: Any, noise: Normal, row: np.ndarray, draws: int, rng: Any) -> float:
    mine, hits = model.predict(row[None])[0], 0
    for start in range(0, draws, 10_000):
        n = min(10_000, draws - start)
        hits += int((model.predict(noise.sample(row[None], n, rng)[0]) == mine).sum())
    return hits / draws


def iris(draws: int) -> None:
    x, y = load_iris(return_X_y=True)
    train, test, labels, _ = train_test_split(x, y, test_size=0.1, random_state=0)
    rho = np.array([[1, 0.1, 0.2, 0.3], [0.1, 1, 0.1, 0.2], [0.2, 0.1, 1, 0.3], [0.3, 0.2, 0.3, 1]])
    parts = (normal(0, 0.3), exponential(0.3), Marginal("chi2", (1.0, 0.0, 0.2)), lognormal(0.2))
    noise = Copula(parts, rho)
    for depth in (3, 4):
        model = xgb.XGBClassifier(n_estimators=4, max_depth=depth, n_jobs=1).fit(train, labels)
        ensemble = read(model)
        label = ensemble.decide(test)
        found = probability(ensemble, noise, test, label, tolerance=1e-4, budget=4.0)
        rng = np.random.default_rng(0)
        drawn = np.array([_share(model, noise, row, draws, rng) for row in test])  # type: ignore[arg-type]
        print(
            f"Iris, XGBoost 4 x depth {depth}: {len(test)} flowers, {found.kind}, widest "
            f"{found.width.max():.1e}; robustness {found.middle.min():.3f} to "
            f"{found.middle.max():.3f}, {(found.high > 1 - 1e-6).sum()} of them 1; "
            f"largest difference to {draws:,} draws {np.abs(found.middle - drawn).max():.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--smoke", action="store_true", help="to see that it runs: one tree")
    given = parser.parse_args()
    if given.smoke:
        table_three(2000, SIZES[:1], LEVELS[:1])
        iris(2000)
        return
    table_three(given.draws, SIZES, LEVELS)
    iris(given.draws)


if __name__ == "__main__":
    main()
