"""The exact search against judges that share nothing with it: enumeration and HiGHS."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from tests.oracles.url import compare_with_highs
from tests.oracles.worst_case import enumerate_all, near_thresholds, xgboost_thresholds
from xgboost import XGBClassifier

import assay as ay
from assay.proofs.search.decide import decide
from assay.trees import read

INTEGERS = [ay.Feature(c, "integer", 0, 6) for c in "abcd"]
MIXED = [
    *INTEGERS[:2],
    ay.Feature("k", "category", values=("u", "v", "w"), cost=2.0),
    ay.Feature("p", "boolean", group="g"),
    ay.Feature("q", "boolean", group="g"),
    ay.Feature("r", "boolean", group="g"),
]
RELATIONS = {
    "none": [],
    "linear": ["a + b <= c + 3", "a - 2 * d <= 4"],
    "sum": ["a + b == c + d"],
    "if then": ["if a > 2 then b > 1", "if c > 0 and d > 3 then a <= 4"],
    "original": ["a + b >= a.original + b.original - 1", "c <= c.original + 2 or d == 0"],
    "counts": ["count(a > 2, b > 2, c > 2) <= 2", "count(a == 0, d == 0) == 1 or b > 0"],
    "sets": ["a in {0, 2, 5}", "b != 3"],
    "mixed or": ["if a > 2 then b + c <= 6"],
}


def table(features, rows, seed):
    rng = np.random.default_rng(seed)
    columns = []
    groups = {}
    for f in features:
        if f.group:
            pick = groups.setdefault(f.group, rng.integers(0, 3, rows))
            columns.append((pick == "pqr".index(f.name)).astype(float))
        else:
            columns.append(rng.integers(0, len(f.values) or f.high + 1, rows).astype(float))
    x = np.stack(columns, axis=1)
    weights = rng.normal(size=x.shape[1])
    score = (x - x.mean(0)) @ weights + 2 * (x[:, 0] > 2) * (x[:, 1] < 3) - (x[:, 2] > 1)
    return x, (score + rng.normal(size=rows) > np.median(score)).astype(int)


def compare(features, relations, space, kind, seed, rows=10, classes=2):
    schema = ay.Schema(features, relations)
    x, y = table(features, 400, seed)
    if classes > 2:
        y = y + 2 * (x[:, 1] > 3)
    if kind == "forest":
        model = RandomForestClassifier(12, max_depth=5, random_state=seed).fit(x, y)
    else:
        model = XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1).fit(x, y)
    valid = schema.program.valid(torch.from_numpy(x), torch.from_numpy(x)).numpy()
    x = x[valid][:rows]
    label = model.predict(x)
    allowed = np.ones((len(x), int(y.max()) + 1), dtype=bool)
    allowed[np.arange(len(x)), label] = False
    region = schema.space(**space).around(torch.from_numpy(x))
    found = decide(read(model), region, allowed)
    values = [
        sorted(f.codes) if f.values else range(int(f.low or 0), int(f.high or 1) + 1)
        for f in features
    ]
    truth = enumerate_all(region, [values] * len(x), model.predict, allowed)
    assert not (found.proven & truth).any(), "a proof of a row that can be broken"
    assert not (found.broken & ~truth).any()
    if found.broken.any():
        points = found.point[found.broken]
        where = torch.from_numpy(np.flatnonzero(found.broken))
        assert region.take(where).contains(torch.from_numpy(points)).all()
        assert allowed[found.broken, model.predict(points)].all()
    assert not found.open.any()
    return truth


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("p", [np.inf, 2, 1, 0])
def test_whole_numbers_and_relations_as_by_enumeration(name, p):
    eps = {np.inf: 0.2, 2: 0.35, 1: 0.5, 0: 2}[p]
    truth = compare(INTEGERS, RELATIONS[name], {"eps": eps, "p": p}, "xgboost", 1)
    assert len(truth) == 10


@pytest.mark.parametrize(
    "space", [{"eps": 1.5, "p": 2}, {"eps": 2.2, "p": 1}, {"eps": 1, "p": 0}, {"eps": 2, "p": 0},
              {"eps": 1.0, "p": np.inf}, {"cost": 3.0}],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["xgboost", "forest"])
def test_categories_and_one_hot_groups_as_by_enumeration(space, kind):
    relations = ["if k == 'u' then a <= 4", "if p == 1 then b > 0"]
    truth = compare(MIXED, relations, space, kind, 2)
    assert truth.any()


def test_several_classes_as_by_enumeration():
    for kind in ("xgboost", "forest"):
        truth = compare(INTEGERS, RELATIONS["linear"], {"eps": 0.2, "p": 2}, kind, 3, classes=4)
        assert truth.any() and not truth.all()


@pytest.mark.parametrize("p", [2, 1, 0, np.inf])
def test_real_features_in_a_ball_as_by_enumeration_of_cells(p):
    rng = np.random.default_rng(4)
    x = rng.random((300, 3)).astype(np.float32)
    y = (x[:, 0] + 0.5 * np.sin(9 * x[:, 1]) > x[:, 2]).astype(int)
    model = XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(x, y)
    eps = {2: 0.12, 1: 0.15, 0: 1, np.inf: 0.06}[p]
    x = torch.from_numpy(x[:25])
    region = ay.spaces.lp.Lp(float(p), eps).around(x)
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
    splits = ay.datasets.url()
    model = XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1)
    model.fit(splits.train.x.numpy(), splits.train.y.numpy())
    right = np.flatnonzero(model.predict(splits.test.x.numpy()) == splits.test.y.numpy())
    data = splits.test.take(torch.from_numpy(right[:24]))
    space = data.schema.space(eps=0.05, p=np.inf)
    found = decide(read(model), space.around(data.x), np.eye(2, dtype=bool)[1 - data.y.numpy()])
    assert compare_with_highs(model, data, 0.05, found, 24) == (24, 0, 0)
