"""Threshold wrappers are read as the trees inside, with the threshold they decide by."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import durometer as du
from durometer.trees import read

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (240, 3)).round(2)
Y = (X[:, 0] + 0.5 * X[:, 1] + 0.15 * RNG.standard_normal(240) > 0.75).astype(int)


def models():
    import lightgbm
    import xgboost

    yield RandomForestClassifier(15, max_depth=3, random_state=0)
    yield GradientBoostingClassifier(n_estimators=10, random_state=0)
    yield HistGradientBoostingClassifier(max_iter=10)
    yield xgboost.XGBClassifier(n_estimators=10, max_depth=3)
    yield lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, min_child_samples=5)
    yield make_pipeline(StandardScaler(), RandomForestClassifier(10, max_depth=3, random_state=0))


@pytest.mark.parametrize("positive", [None, 0])
@pytest.mark.parametrize("model", list(models()), ids=lambda m: type(m).__name__)
def test_the_reading_decides_as_predict_does(model, positive):
    model.fit(X, Y)
    for t in (0.2, 0.7):
        wrapped = FixedThresholdClassifier(model, threshold=t, pos_label=positive).fit(X, Y)
        ensemble = read(wrapped)
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 12)] * 3), -1).reshape(-1, 3)
        np.testing.assert_array_equal(ensemble.decide(grid), wrapped.predict(grid))
        assert (wrapped.predict(grid) != model.predict(grid)).any()


def test_a_tie_at_the_threshold_is_positive():
    """Leaves of one half: the probability equals the threshold to the last bit."""
    x = np.array([[0.0], [0.0], [1.0], [1.0]])
    forest = RandomForestClassifier(4, bootstrap=False, random_state=0).fit(x, [0, 1, 1, 1])
    for positive, t in ((1, 0.5), (0, 0.5)):
        wrapped = FixedThresholdClassifier(forest, threshold=t, pos_label=positive).fit(
            x, [0, 1, 1, 1]
        )
        np.testing.assert_array_equal(read(wrapped).predict(x), wrapped.predict(x))


@pytest.mark.parametrize("model", list(models()), ids=lambda m: type(m).__name__)
def test_every_row_is_decided_and_agrees_with_brute_force(model):
    wrapped = FixedThresholdClassifier(model.fit(X, Y), threshold=0.7).fit(X, Y)
    data = du.Dataset(X[:40], Y[:40])
    report = du.evaluate(wrapped, data, space=du.Linf(0.08), progress=False)
    assert report.metric("open").value == 0
    assert report.metric("clean").value == (wrapped.predict(X[:40]) == Y[:40]).mean()
    steps = np.stack(np.meshgrid(*[np.linspace(-0.08, 0.08, 17)] * 3), -1).reshape(-1, 3)
    for i in range(40):
        found = wrapped.predict(np.clip(X[i] + steps, 0, 1)) != Y[i]
        if found.any():
            assert report.table["verdict"][i] == "broken"


def test_a_tuned_threshold_is_read_too():
    tuned = TunedThresholdClassifierCV(
        RandomForestClassifier(10, max_depth=3, random_state=0), cv=3, random_state=0
    ).fit(X, Y)
    np.testing.assert_array_equal(read(tuned).decide(X), tuned.predict(X))


def test_text_columns_behind_a_threshold():
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame(X, columns=list("abc"))
    frame["job"] = np.where(X[:, 2] > 0.5, "clerk", "smith")
    encode = ColumnTransformer([("t", OneHotEncoder(), ["job"])], remainder="passthrough")
    pipe = make_pipeline(encode, RandomForestClassifier(10, max_depth=3, random_state=0))
    wrapped = FixedThresholdClassifier(pipe, threshold=0.7).fit(frame, Y)
    data = du.Dataset(frame.assign(y=Y)[:60], target="y")
    space = du.Schema.suggest(frame).space(eps=0.1)
    report = du.evaluate(wrapped, data, space=space, progress=False)
    assert report.metric("clean").value == (wrapped.predict(frame[:60]) == Y[:60]).mean()
    assert report.metric("open").value == 0
    assert "Exact" in set(report.table["winner"])


def test_other_models_are_asked_for_the_distance_from_the_threshold():
    wrapped = FixedThresholdClassifier(LogisticRegression(), threshold=0.7).fit(X, Y)
    model = du.wrap(wrapped)
    logits = model.logits(torch.from_numpy(X))
    np.testing.assert_array_equal(logits.argmax(1).numpy(), wrapped.predict(X))
    p = wrapped.predict_proba(X)[:, 1]
    want = np.log(p / (1 - p)) - np.log(0.7 / 0.3)
    np.testing.assert_allclose((logits[:, 1] - logits[:, 0]).numpy(), want, atol=1e-9)
    report = du.evaluate(wrapped, du.Dataset(X[:60], Y[:60]), space=du.Linf(0.05), progress=False)
    assert report.spec.answers == "logits"
