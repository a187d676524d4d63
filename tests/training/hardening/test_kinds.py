"""What harden takes: gaps, votes, calibrated and thresholded models, linear ones; and names of what
it does not."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import durometer as du
from durometer.training.hardening.refit import refit
from durometer.training.holdout import holdout
from durometer.trees import read

RNG = np.random.default_rng(0)
X = RNG.random((240, 2))
Y = (X.sum(axis=1) > 1).astype(int)
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
FOREST = RandomForestClassifier(6, max_depth=3, random_state=0)
EPS = 0.05


def rows(x):
    gaps = bool(np.isnan(x).any())
    schema = du.Schema([du.Feature(n, "real", 0, 1, missing=gaps) for n in "ab"])
    return du.Dataset(x, Y, schema=schema), schema.space(eps=EPS, p=np.inf)


def models():
    extra = ExtraTreesClassifier(5, max_depth=3, random_state=0)
    yield "gaps", HistGradientBoostingClassifier(max_iter=8, random_state=0), GAPS
    yield "vote", VotingClassifier([("a", extra), ("b", FOREST)], voting="soft"), X
    yield "calibrated", CalibratedClassifierCV(FOREST, cv=2, ensemble=False), X
    yield "threshold", FixedThresholdClassifier(FOREST, threshold=0.6), X
    yield "logistic", LogisticRegression(), X
    yield "scaled logistic", make_pipeline(StandardScaler(), LogisticRegression()), X


@pytest.mark.parametrize(("name", "model", "x"), list(models()), ids=lambda v: str(v)[:15])
def test_the_same_kind_comes_back(name, model, x):
    model.fit(x, Y)
    data, space = rows(x)
    hardened = du.training.harden(model, data, space, rounds=2, max_loss=0.5)
    again = pickle.loads(pickle.dumps(hardened.model))
    assert type(again) is type(model)
    shown = again.predict_proba(x[:5])
    np.testing.assert_allclose(shown, hardened.model.predict_proba(x[:5]))
    assert all(r.proven + r.broken + r.open == pytest.approx(1) for r in hardened.path)
    if name == "threshold":
        assert again.threshold == 0.6


def test_a_linear_model_is_judged_by_its_margin():
    model = LogisticRegression(C=100).fit(X, Y)
    data, space = rows(X)
    hardened = du.training.harden(model, data, space, rounds=1, share=0.2, seed=0, max_loss=0.5)
    first = hardened.models[0]
    w, b = first.coef_[0], first.intercept_[0]
    _, rest = holdout(data, 0.2, 0)
    assert hardened.attacked == len(rest)
    x, y = rest.x.numpy(), rest.y.numpy()
    low, high = np.clip(x - EPS, 0, 1), np.clip(x + EPS, 0, 1)
    toward = np.where(y == 1, -1, 1)[:, None] * w  # where an attacker goes
    worst = np.where(toward > 0, high, low)
    lead = (worst @ w + b) * np.where(y == 1, 1, -1)
    assert hardened.path[0].proven == pytest.approx((lead > 0).mean(), abs=1e-9)
    assert 0 < hardened.path[0].proven < 1


def test_a_column_nobody_shows_is_forgotten():
    x = np.column_stack([X, X[:, 0] + 3.0])
    model = LogisticRegression(C=100).fit(x, Y)
    kept = np.array([True, True, False])
    again = refit(model, du.Dataset(x, Y), kept=kept, free=0.0)
    assert again.coef_[0, 2] == 0
    moved = x.copy()
    moved[:, 2] = RNG.random(len(x)) * 100
    np.testing.assert_array_equal(again.predict(x), again.predict(moved))
    assert again.score(x, Y) > 0.9


def test_the_step_that_is_not_read_is_named():
    text = pd.DataFrame({"note": ["good", "bad"] * 20, "y": [1, 0] * 20})
    model = make_pipeline(TfidfVectorizer(), FOREST).fit(text.note, text.y)
    with pytest.raises(du.Unsupported, match="'tfidfvectorizer', TfidfVectorizer"):
        read(model)
