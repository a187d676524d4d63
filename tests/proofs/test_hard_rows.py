"""Rows that stayed open for as long as one liked: what went round in circles there."""

import numpy as np
import pytest
import torch
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.spaces.lp import Lp
from durometer.trees import read


def decided(model, data, space, seconds):
    y = data.y.numpy()
    right = np.flatnonzero(model.predict(data.x.numpy()) == y)
    rows = data.take(torch.from_numpy(right[:40]))
    y = rows.y.numpy()
    allowed = np.ones((len(y), int(y.max()) + 1), dtype=bool)
    allowed[np.arange(len(y)), y] = False
    found = decide(read(model), space.around(rows.x), allowed, seconds)
    assert (model.predict(found.point[found.broken]) != y[found.broken]).all()
    return found


@pytest.mark.parametrize("size", [28, 47])
def test_relations_that_pull_at_one_feature_from_two_sides_leave_nothing_open(size):
    """Loan, instalment, income and their ratios: each repair used to undo the one before."""
    data = du.datasets.lcld(size).test
    model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1, random_state=0)
    model.fit(data.x.numpy()[300:], data.y.numpy()[300:])
    found = decided(model, data.take(torch.arange(300)), data.schema.space(eps=0.1, p=2), 1.0)
    assert not found.open.any()
    assert found.broken.any()


def test_a_budget_has_its_share_of_the_bound():
    """Without one its price could not fall, and 70,000 boxes were not enough where 12 are."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1, random_state=0)
    model.fit(x[:1200] / 16, y[:1200])
    found = decided(model, du.Dataset(x[1200:] / 16, y[1200:]), Lp(2.0, 0.2), 1.0)
    assert not found.open.any()
    assert found.proven.any() and found.broken.any()
    assert found.nodes.max() < 2000
