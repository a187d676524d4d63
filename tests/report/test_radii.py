"""All radii from one run and the smallest changes, against runs at each radius."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import durometer as du


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(2)
    x = rng.random((300, 3))
    y = (x[:, 0] + x[:, 1] ** 2 > 0.8).astype(int)
    model = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(x, y)
    data = du.Dataset(x[:60], y[:60])
    asked = {"space": du.L2(0.4), "attack": du.Exact(minimise="distance")}
    return model, data, du.evaluate(model, data, **asked)


@pytest.mark.parametrize("eps", [0.02, 0.1, 0.25])
def test_one_run_says_what_a_run_at_each_radius_says(made, eps):
    model, data, report = made
    there = du.evaluate(model, data, space=du.L2(eps), attack=du.Exact())
    line = report.radii([eps]).iloc[0]
    assert line["at_least"].value <= there.metric("proven").value
    assert there.metric("robust").value <= line["at_most"].value
    assert line["at_most"].value - line["at_least"].value <= 1 / 60  # to the gap of 0.001


def test_radii_fall_from_clean_accuracy_to_the_run_s_own_figure(made):
    _, _, report = made
    found = report.radii()
    for side in ("at_least", "at_most"):
        values = [e.value for e in found[side]]
        assert values == sorted(values, reverse=True)
    assert found["at_most"].iloc[0].value == report.metric("clean").value
    assert found["at_most"].iloc[-1].value == report.metric("robust").value
    assert found["at_least"].iloc[-1].value == report.metric("proven").value
    assert "At every radius" in report.html()
    with pytest.raises(du.DurometerError, match="radii from 0 to 0.4"):
        report.radii([0.5])


def test_a_run_that_did_not_look_for_the_nearest_is_right_but_loose(made):
    model, data, report = made
    loose = du.evaluate(model, data, space=du.L2(0.4), attack=du.Exact())
    for eps in (0.05, 0.2):
        a, b = loose.radii([eps]).iloc[0], report.radii([eps]).iloc[0]
        assert a["at_least"].value <= b["at_least"].value
        assert a["at_most"].value >= b["at_most"].value
    assert "the curve is loose" in loose.html() and "the curve is loose" not in report.html()


def test_the_smallest_change_of_a_step_is_the_way_to_the_step():
    x = np.linspace(0, 1, 41).reshape(-1, 1)
    tree = DecisionTreeClassifier().fit(x, x[:, 0] > 0.5)
    data = du.Dataset(x, (x[:, 0] > 0.5).astype(int))
    report = du.evaluate(tree, data, space=du.L1(0.3), attack=du.Exact(minimise="distance"))
    found = report.minimal_changes()
    step = float(tree.tree_.threshold[0])
    assert list(found["distance"]) == sorted(found["distance"])
    assert np.allclose(found["distance"], np.abs(found["was"] - step), atol=1e-3)
    assert (found["distance_low"] <= found["distance"]).all()
    assert (found["distance_low"] >= 0.998 * found["distance"]).all()
    features = report.minimal_changes(by="feature")
    assert features.loc["x0", "rows"] == len(found) == int(report.table["success"].sum())
    with pytest.raises(du.DurometerError, match="'row' or 'feature'"):
        report.minimal_changes(by="column")


def test_what_an_attack_found_is_made_nearer(made):
    model, data, report = made
    rough = du.Then(du.Square(200), du.Exact(minimise="distance"))
    both = du.evaluate(model, data, space=du.L2(0.4), attack=rough)
    assert list(both.table["verdict"]) == list(report.table["verdict"])
    assert np.allclose(both.table["distance"], report.table["distance"], rtol=2e-3, equal_nan=True)
    first = du.evaluate(model, data, space=du.L2(0.4), attack=du.Square(200))
    won = first.table["success"].to_numpy() & (first.table["winner"] != "clean").to_numpy()
    assert won.any()
    assert (both.table["distance"][won] <= first.table["distance"][won] + 1e-9).all()
    assert both.table["distance"][won].mean() < 0.9 * first.table["distance"][won].mean()
