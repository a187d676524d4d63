"""Calibrated classifiers and soft votes of forests are read as trees; they decide as predict."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import durometer as du
from durometer.core.errors import Unsupported
from durometer.trees import read
from durometer.trees.readers import reader

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (400, 2)).round(2)
Y = np.where(X[:, 0] + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(400) > 0.75, "yes", "no")
EPS = 0.043  # no sum of a row and it is a threshold
GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 2), -1).reshape(-1, 2)


def models():
    import lightgbm
    import xgboost

    yield RandomForestClassifier(15, max_depth=3, random_state=0)
    yield GradientBoostingClassifier(n_estimators=10, random_state=0)
    yield HistGradientBoostingClassifier(max_iter=10)
    yield xgboost.XGBClassifier(n_estimators=10, max_depth=3)
    yield lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, min_child_samples=5)


def inner(step):
    """Points of the grid whose balls lie inside it."""
    some = GRID[::step]
    return some[((some > 0.05) & (some < 0.95)).all(1)]


def brute(model, rows):
    """Is another label found in one of many points of each box? An oracle that reads no trees."""
    steps = np.linspace(-EPS, EPS, 41)
    steps = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
    own = model.predict(rows)
    return np.array([(model.predict(r + steps) != o).any() for r, o in zip(rows, own, strict=True)])


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
@pytest.mark.parametrize("model", list(models()), ids=lambda m: type(m).__name__)
def test_one_calibrated_classifier_decides_by_a_threshold(model, method):
    y = (Y == "yes").astype(int)
    model.fit(X[:200], y[:200])
    # calibrated on rows of which few are positive: the threshold moves away from 1/2
    some = np.concatenate([np.flatnonzero(y[200:] == 0)[:120], np.flatnonzero(y[200:] == 1)[:30]])
    whole = CalibratedClassifierCV(FrozenEstimator(model), method=method, ensemble=False)
    whole.fit(X[200:][some], y[200:][some])
    ensemble = read(whole)
    np.testing.assert_array_equal(ensemble.decide(GRID), whole.predict(GRID))
    assert (whole.predict(GRID) != model.predict(GRID)).any()
    rows = inner(37)
    data = du.Dataset(rows, whole.predict(rows))
    report = du.evaluate(whole, data, space=du.Linf(EPS), progress=False)
    assert set(report.table["winner"]) == {"Exact"}
    proven = np.asarray(report.table["verdict"] == "proven")
    assert 0 < proven.sum() < len(rows) and not (proven & brute(whole, rows)).any()


@pytest.mark.parametrize("weights", [None, [2, 1, 3]])
def test_a_soft_vote_of_forests_is_one_sum(weights):
    vote = VotingClassifier(
        [
            ("forest", RandomForestClassifier(8, max_depth=3, random_state=0)),
            ("extra", ExtraTreesClassifier(5, max_depth=4, random_state=0)),
            ("tree", DecisionTreeClassifier(max_depth=3, random_state=0)),
        ],
        voting="soft", weights=weights,
    ).fit(X, Y)  # fmt: skip
    ensemble = read(vote)
    np.testing.assert_array_equal(
        np.asarray(vote.classes_)[ensemble.decide(GRID)], vote.predict(GRID)
    )
    rows = inner(43)
    data = du.Dataset(rows, vote.predict(rows), classes=("no", "yes"))
    report = du.evaluate(vote, data, space=du.Linf(EPS), progress=False)
    assert report.metric("open").value == 0 and report.metric("clean").value == 1
    proven = np.asarray(report.table["verdict"] == "proven")
    assert proven.any() and not (proven & brute(vote, rows)).any()


def test_three_classes_and_ties():
    """Trees that cancel: both classes have one half in wide regions; predict takes the first."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 5)
    first, second = (x[:, 0] > 0.5).astype(int), (x[:, 1] > 0.5).astype(int)
    vote = VotingClassifier(
        [("a", DecisionTreeClassifier(max_features=None)), ("b", DecisionTreeClassifier())],
        voting="soft",
    ).fit(x, first)
    vote.estimators_[1].fit(x, second)
    np.testing.assert_array_equal(read(vote).decide(GRID), vote.predict(GRID))
    three = np.digitize(X.sum(1), [0.7, 1.2])
    vote = VotingClassifier(
        [("a", RandomForestClassifier(6, max_depth=3)), ("b", ExtraTreesClassifier(6))],
        voting="soft", weights=[1, 0.3],
    ).fit(X, three)  # fmt: skip
    np.testing.assert_array_equal(read(vote).decide(GRID), vote.predict(GRID))


def test_what_is_no_sum_is_searched_and_said_so():
    y = (Y == "yes").astype(int)
    folds = CalibratedClassifierCV(RandomForestClassifier(5, max_depth=3), cv=3).fit(X, y)
    assert reader(folds) is None
    boosted = VotingClassifier(
        [("a", GradientBoostingClassifier(n_estimators=5)), ("b", RandomForestClassifier(5))],
        voting="soft",
    ).fit(X, y)
    with pytest.raises(Unsupported, match="gives no sum of probabilities"):
        read(boosted)
    hard = VotingClassifier([("a", RandomForestClassifier(5))], voting="hard").fit(X, y)
    assert reader(hard) is None
    data = du.Dataset(X[:20], y[:20])
    for model in (folds, boosted):
        report = du.evaluate(model, data, space=du.Linf(EPS), progress=False)
        assert "no-proof" in [f.id for f in report.flags]
