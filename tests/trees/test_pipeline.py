"""Scalers before trees: thresholds in the units of the inputs, exact to the last bit."""

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from xgboost import XGBClassifier

import durometer as du
from durometer.trees.readers import read, reader

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1, 1e3, 1e-4, 7] + [0, 5e3, 1e-3, -2]
Y = ((X[:, 0] > 0) ^ (X[:, 1] > 5e3)).astype(int)


@pytest.mark.parametrize("scalers", [[StandardScaler()], [MinMaxScaler()], [MaxAbsScaler()],
                                     [RobustScaler(), MinMaxScaler()]], ids=str)  # fmt: skip
@pytest.mark.parametrize(
    "trees",
    [
        RandomForestClassifier(12, random_state=0),
        GradientBoostingClassifier(n_estimators=8),
        XGBClassifier(n_estimators=8, n_jobs=1),
        LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1),
        CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False, thread_count=1),
    ],
    ids=lambda m: type(m).__name__,
)
def test_labels_on_and_beside_every_threshold_are_the_pipelines_own(scalers, trees):
    pipe = make_pipeline(*scalers, trees).fit(X, Y)
    ensemble = read(pipe)
    inner = ensemble.feature >= 0
    at = RNG.integers(0, len(X), 4000)
    pick = RNG.choice(np.flatnonzero(inner), 4000)
    for beside in (lambda t: t, lambda t: np.nextafter(t, np.inf),
                   lambda t: np.nextafter(t, -np.inf)):  # fmt: skip
        x = X[at].copy()
        x[np.arange(4000), ensemble.feature[pick]] = beside(ensemble.threshold[pick])
        assert np.array_equal(ensemble.predict(x), pipe.predict(x))


def test_noise_on_a_scaled_forest_is_read_not_drawn():
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(12, random_state=0)).fit(frame, Y)
    nature = du.Nature(pipe, du.Normal(sd={"a": 0.1, "b": 50.0, "c": 1e-5, "d": 0.5}))
    table = du.evaluate(nature, du.Dataset(frame[:15], Y[:15])).table
    assert set(table["winner"]) <= {"exact", "certified"}
    drawn = du.Nature(pipe, nature.noise, method="monte carlo", draws=20_000, confidence=0.9999)
    other = du.evaluate(drawn, du.Dataset(frame[:15], Y[:15])).table
    assert (table["probability_low"] <= other["probability_high"] + 1e-9).all()
    assert (table["probability_high"] >= other["probability_low"] - 1e-9).all()


def test_what_bends_the_axis_is_not_read():
    assert reader(make_pipeline(PowerTransformer(), RandomForestClassifier(5)).fit(X, Y)) is None


@pytest.mark.parametrize("first", [(), ("passthrough",)], ids=["alone", "passthrough"])
def test_a_pipeline_that_scales_nothing_is_its_last_step(first):
    x = np.random.default_rng(0).random((200, 3))
    y = (x[:, 0] > 0.5).astype(int)
    pipe = make_pipeline(*first, RandomForestClassifier(5, max_depth=3, random_state=0)).fit(x, y)
    assert (read(pipe).predict(x) == pipe.predict(x)).all()
