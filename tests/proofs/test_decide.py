"""The exact search against judges that share nothing with it: enumeration and HiGHS."""

import numpy as np
import pytest
import torch
from tests.oracles.small_tables import INTEGERS, MIXED, RELATIONS, play
from tests.oracles.url import compare_with_highs
from tests.oracles.worst_case import enumerate_all, near_thresholds, xgboost_thresholds
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.spaces.lp import Lp
from durometer.trees import read


def same(*arguments, **named):
    """The search decides every row, and as enumeration does; which rows can be broken."""
    found, truth = play(*arguments, **named)
    assert not found.open.any()
    assert np.array_equal(found.broken, truth) and np.array_equal(found.proven, ~truth)
    return truth


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("p", [np.inf, 2, 1, 0])
def test_whole_numbers_and_relations_as_by_enumeration(name, p):
    eps = {np.inf: 0.2, 2: 0.35, 1: 0.5, 0: 2}[p]
    truth = same(INTEGERS, RELATIONS[name], {"eps": eps, "p": p}, "xgboost", 1)
    assert len(truth) == 10


@pytest.mark.parametrize(
    "space", [{"eps": 1.5, "p": 2}, {"eps": 2.2, "p": 1}, {"eps": 1, "p": 0}, {"eps": 2, "p": 0},
              {"eps": 1.0, "p": np.inf}, {"cost": 3.0}],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["xgboost", "forest"])
def test_categories_and_one_hot_groups_as_by_enumeration(space, kind):
    relations = ["if k == 'u' then a <= 4", "if p == 1 then b > 0"]
    truth = same(MIXED, relations, space, kind, 2)
    assert truth.any()


def test_several_classes_as_by_enumeration():
    for kind in ("xgboost", "forest"):
        truth = same(INTEGERS, RELATIONS["linear"], {"eps": 0.2, "p": 2}, kind, 3, classes=4)
        assert truth.any() and not truth.all()


@pytest.mark.parametrize("p", [2, 1, 0, np.inf])
def test_real_features_in_a_ball_as_by_enumeration_of_cells(p):
    rng = np.random.default_rng(4)
    x = rng.random((300, 3)).astype(np.float32)
    y = (x[:, 0] + 0.5 * np.sin(9 * x[:, 1]) > x[:, 2]).astype(int)
    model = XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(x, y)
    eps = {2: 0.12, 1: 0.15, 0: 1, np.inf: 0.06}[p]
    x = torch.from_numpy(x[:25])
    region = Lp(float(p), eps).around(x)
    label = model.predict(x.numpy())
    allowed = np.ones((25, 2), dtype=bool)
    allowed[np.arange(25), label] = False
    found = decide(read(model), region, allowed)
    t = xgboost_thresholds(model, 3)
    reach = 1.0 if p == 0 else eps
    lists = [
        [near_thresholds(v, max(0, v - reach), min(1, v + reach), t[f]) for f, v in enumerate(row)]
        for row in x.double().tolist()
    ]
    truth = enumerate_all(region, lists, model.predict, allowed)
    assert not found.open.any()
    assert np.array_equal(found.broken, truth)


def test_url_under_all_relations_as_by_highs():
    splits = du.datasets.url()
    model = XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1)
    model.fit(splits.train.x.numpy(), splits.train.y.numpy())
    right = np.flatnonzero(model.predict(splits.test.x.numpy()) == splits.test.y.numpy())
    data = splits.test.take(torch.from_numpy(right[:24]))
    space = data.schema.space(eps=0.05, p=np.inf)
    found = decide(read(model), space.around(data.x), np.eye(2, dtype=bool)[1 - data.y.numpy()])
    assert compare_with_highs(model, data, 0.05, found, 24) == (24, 0, 0)


def test_url_in_an_l2_ball_as_by_highs_with_tangents():
    splits = du.datasets.url()
    model = XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1)
    model.fit(splits.train.x.numpy(), splits.train.y.numpy())
    data = splits.test.where(y="phishing").sample(16, seed=0)
    space = data.schema.space(eps=0.1, p=2.0)
    found = decide(read(model), space.around(data.x), np.tile([True, False], (16, 1)))
    both, wrong, _ = compare_with_highs(model, data, 0.1, found, 16, 2)
    assert both >= 14 and wrong == 0
    assert 2 <= found.broken.sum() <= 14
