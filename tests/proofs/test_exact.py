"""`Exact` in a whole evaluation: verdicts, columns and classes by name, goals, distances."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.trees import read


@pytest.fixture(scope="module")
def url():
    splits = du.datasets.url()
    model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1)
    model.fit(splits.train.x.numpy(), splits.train.y.numpy())
    return model, splits.test.where(y="phishing").sample(40)


def test_every_row_is_decided_and_nothing_that_a_search_finds_is_missed(url):
    model, data = url
    space = data.schema.space(eps=0.05, p=np.inf)
    exact = du.evaluate(model, data, space=space, attack=du.Exact())
    search = du.evaluate(model, data, space=space, attack=du.Graft(300))
    assert exact.metric("open").value == 0
    a, b = exact.table, search.table
    assert (np.asarray(a["verdict"])[np.asarray(b["verdict"]) == "broken"] == "broken").all()
    assert exact.metric("broken").value >= search.metric("broken").value


def test_after_an_attack_only_what_is_left_is_decided(url):
    model, data = url
    space = data.schema.space(eps=0.05, p=np.inf)
    both = du.evaluate(model, data, space=space, attack=du.Then(du.Graft(200), du.Exact()))
    alone = du.evaluate(model, data, space=space, attack=du.Exact())
    assert list(both.table["verdict"]) == list(alone.table["verdict"])


def test_columns_and_classes_are_matched_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 9, (300, 3)), columns=["a", "b", "c"])
    good = (frame.a + 2 * frame.b > 10).to_numpy()
    model = XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1)
    model.fit(frame[["c", "a", "b"]], good.astype(int))
    schema = du.Schema([du.Feature(n, "integer", 0, 8) for n in "abc"])
    data = du.Dataset(frame[:40], good[:40].astype(int), schema=schema)
    report = du.evaluate(model, data, space=schema.space(eps=0.13, p=np.inf), attack=du.Exact())
    assert report.metric("open").value == 0
    words = np.where(good, "accept", "refuse")
    forest = RandomForestClassifier(8, max_depth=4, random_state=0).fit(frame, words)
    data = du.Dataset(frame[:40], words[:40], classes=("refuse", "accept"), schema=schema)
    report = du.evaluate(forest, data, space=schema.space(eps=0.13, p=np.inf), attack=du.Exact())
    assert report.metric("open").value == 0


def test_a_goal_of_some_classes_only():
    rng = np.random.default_rng(1)
    x = rng.random((600, 4))
    y = (3 * x[:, 0]).astype(int) + 3 * (x[:, 1] > 0.6)
    model = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(x, y)
    data = du.Dataset(x[:60], y[:60])
    goal = du.Group({0: [5], 1: [3, 4], 2: [0]})
    kw = {"space": du.L2(0.25), "goal": goal}
    exact = du.evaluate(model, data, attack=du.Exact(), **kw)
    search = du.evaluate(model, data, attack=du.Square(300), **kw)
    assert exact.metric("open").value == 0
    assert exact.metric("broken").value >= search.metric("broken").value > 0


def test_the_nearest_counterexample_is_the_nearest():
    rng = np.random.default_rng(2)
    x = rng.random((300, 2))
    model = XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(x, x[:, 0] + x[:, 1] > 1)
    data = du.Dataset(x[:20], model.predict(x[:20]))
    report = du.evaluate(model, data, space=du.L2(0.5), attack=du.Exact(minimise="distance"))
    side = np.linspace(0, 1, 401)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    label = model.predict(grid)
    for row, start in zip(report.table.to_dict("records"), x[:20], strict=True):
        other = grid[label != row["y"]]
        near = np.linalg.norm(other - start, axis=1).min()
        if row["verdict"] == "broken":
            assert row["distance"] <= near + 1e-9
            assert row["distance"] >= near - 0.01  # the grid's own width
        else:
            assert near > 0.49


def test_a_cost_besides_a_distance():
    features = [
        du.Feature(n, "integer", 0, 10, cost=c) for n, c in zip("abc", (1, 2, 5), strict=True)
    ]
    schema = du.Schema(features)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 11, (300, 3)).astype(float)
    model = RandomForestClassifier(10, random_state=0).fit(x, x.sum(1) > 15)
    region = schema.space(eps=0.4, p=2, cost=6.0).around(torch.from_numpy(x[:30]))
    allowed = np.ones((30, 2), dtype=bool)
    allowed[np.arange(30), model.predict(x[:30]).astype(int)] = False
    found = decide(read(model), region, allowed)
    from tests.oracles.worst_case import enumerate_all

    truth = enumerate_all(
        region, [[range(11)] * 3] * 30, lambda v: model.predict(v).astype(int), allowed
    )
    assert not found.open.any()
    assert np.array_equal(found.broken, truth) and truth.any() and not truth.all()


def test_other_spaces_are_refused_by_name(url):
    model, _ = url
    with pytest.raises(du.Unsupported, match="Lp balls and tables, not in a SimpleNamespace"):
        decide(read(model), SimpleNamespace(), np.ones((1, 2), dtype=bool))


def test_cells_that_may_be_filled_in_or_left_blank_leave_no_row_proven():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (600, 2)).astype(float)
    x[rng.random(600) < 0.2, 0] = np.nan
    y = (np.isnan(x[:, 0]) | (x[:, 0] > 4)).astype(int)
    model = XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1).fit(x, y)
    loose = du.Feature("a", "integer", 0, 8, missing=True, fill=1.0, hide=1.0)
    fixed = du.Feature("a", "integer", 0, 8, missing=True)
    for first, proven in ((loose, False), (fixed, True)):
        schema = du.Schema([first, du.Feature("b", "integer", 0, 8)])
        data = du.Dataset(x[:40], y[:40], schema=schema)
        report = du.evaluate(model, data, space=schema.space(eps=1, p=0), attack=du.Exact())
        assert (report.metric("proven").value > 0) == proven
        if first is loose:  # a gap that is filled in flips the row
            search = du.evaluate(model, data, space=schema.space(eps=1, p=0), attack=du.Graft(300))
            assert search.metric("broken").value == 1
