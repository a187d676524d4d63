"""Refits until some features alone provably never flip a decision."""

import pickle

import numpy as np
import pytest

import durometer as du


def data(n=400):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (n, 3)).astype(float)
    y = (x[:, 0] + 2 * (x[:, 1] > 6) + rng.integers(0, 2, n) > 5).astype(int)
    schema = du.Schema([du.Feature(name, "integer", 0, 8) for name in "abc"])
    return du.Dataset(x, y, schema=schema)


def models():
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    return [
        XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1),
        LGBMClassifier(n_estimators=40, num_leaves=7, min_child_samples=5, verbose=-1, n_jobs=1),
        RandomForestClassifier(8, max_depth=4, random_state=0),
    ]


@pytest.mark.parametrize("model", models(), ids=lambda m: type(m).__name__)
def test_no_swap_of_the_feature_changes_an_answer(model):
    rows = data()
    model.fit(rows.x.numpy(), rows.y.numpy())
    made = du.training.without_flips(model, rows, ["b"], seconds=2)
    assert type(made.model) is type(model)
    assert made.answers["as it was"].status == "found"
    assert made.answers[made.plan].status == "proven"
    again = pickle.loads(pickle.dumps(made.model))
    x = rows.x.numpy()
    for value in range(9):
        other = x.copy()
        other[:, 1] = value
        np.testing.assert_array_equal(again.predict(other), again.predict(x))
    assert again.predict_proba(x).shape == (len(x), 2)
    assert made.price.rows == 80
    assert made.plan in str(made)


def test_a_feature_that_decides_nothing_costs_nothing():
    rows = data()
    model = models()[0].fit(rows.x.numpy(), rows.x.numpy()[:, 0] > 4)
    easy = du.Dataset(rows.x, (rows.x[:, 0] > 4).long(), schema=rows.schema)
    made = du.training.without_flips(model, easy, ["c"])
    assert made.plan == "as it was"
    assert (made.price.lost, made.price.gained) == (0, 0)


def test_without_a_schema_it_is_refused():
    rows = data()
    model = models()[0].fit(rows.x.numpy(), rows.y.numpy())
    with pytest.raises(du.DurometerError, match="give a schema"):
        du.training.without_flips(model, du.Dataset(rows.x, rows.y), ["b"])
