"""The quasi-Monte-Carlo estimate against certified bounds and plain draws."""

from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier

import durometer as du
from durometer.probability.estimated import score_tables as lookup
from durometer.probability.estimated.quasi import scrambled, stretch
from durometer.probability.methods import probability
from durometer.trees import read


def task(features: int = 6, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, features))
    score = x[:, 0] * x[:, 1] + x[:, 2] - 0.5 * x[:, 3]
    return x, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


MODELS = {
    "one score": (2, xgb.XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1)),
    "two scores with tied votes": (2, RandomForestClassifier(10, max_depth=6, random_state=0)),
    "boosted classes": (4, xgb.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)),
    "three classes": (3, RandomForestClassifier(6, max_depth=5, random_state=0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_agrees_with_certified_bounds(name: str) -> None:
    classes, model = MODELS[name]
    x, y = task(classes=classes)
    ensemble, noise, rows = read(model.fit(x, y)), du.Normal(sd=0.15), x[:12]
    label = ensemble.predict(rows)
    sure = probability(ensemble, noise, rows, label, tolerance=1e-5, budget=2.0)
    found = probability(ensemble, noise, rows, label, tolerance=1e-3, budget=0.5, estimate=True)
    assert sure.width.max() < 1e-4
    assert found.kind == "estimate" and (classes > 2 or found.width.max() <= 1e-3)
    # 99 % intervals: of twelve, two may miss, but not by much
    miss = np.maximum(found.low - sure.high, sure.low - found.high)
    assert (miss > 0).sum() <= 2 and miss.max() < found.width.max()


def test_mass_that_no_sample_visits_stays_inside_the_interval() -> None:
    x = np.repeat([[0.0], [2.0]], 20, axis=0)
    model = xgb.XGBClassifier(n_estimators=2, max_depth=1, n_jobs=1).fit(x, np.repeat([0, 1], 20))
    ensemble = read(model)
    border = float(ensemble.threshold[ensemble.feature >= 0][0])
    found = probability(
        ensemble, du.Normal(sd=border / 6.1), x[:1], np.zeros(1, int), estimate=True
    )
    assert found.low[0] <= norm.cdf(6.1) + 1e-15 and found.high[0] == 1


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", ["one score", "three classes", "boosted classes"])
def test_tables_and_walks_give_the_same_mass(
    name: str, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes, model = MODELS[name]
    x, y = task(classes=classes)
    ensemble = read(model.fit(x, y))
    chain = np.eye(6) + 0.4 * (np.eye(6, k=1) + np.eye(6, k=-1))
    noise = du.Normal(cov=0.03 * chain) if tied else du.Normal(sd=0.2)

    def ask() -> np.ndarray:
        how = {"tolerance": 1e-9, "budget": 1e-6, "estimate": True}
        return probability(ensemble, noise, x[:5], np.ones(5, int), **how).middle

    by_tables = ask()

    tabulate = lookup.tabulate

    def only_walks(forest, roots, columns):  # type: ignore[no-untyped-def]
        return replace(tabulate(forest, roots[:0], columns), walked=roots)

    monkeypatch.setattr(lookup, "tabulate", only_walks)
    np.testing.assert_allclose(ask(), by_tables, atol=1e-12)


def test_scrambled_points_fill_every_interval_once() -> None:
    rng = np.random.default_rng(3)
    rule = scrambled(5, rng)
    points = np.concatenate([stretch(*rule, 0, 100), stretch(*rule, 100, 156)], axis=1)
    assert points.min() > 0 and points.max() < 1
    for row in points:
        assert sorted((row * 256).astype(int)) == list(range(256))
    first = np.array([stretch(*scrambled(2, rng), 0, 1)[:, 0] for _ in range(2000)])
    assert np.abs(first.mean(axis=0) - 0.5).max() < 0.03  # each point by itself is uniform
