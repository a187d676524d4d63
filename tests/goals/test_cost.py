"""Group(cost=): what a row costs at most and at least, beside every cell of a small tree."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.tree import DecisionTreeClassifier

import durometer as du

PRICES = [[0, 1, 7], [2, 0, 0], [7, 3, 0]]
NAMED = {"a": {"b": 1, "c": 7}, "b": {"a": 2}, "c": {"a": 7, "b": 3}}


def a_tree(seed=0, depth=4):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (300, 2))
    y = (np.floor(x[:, 0] * 3) + np.floor(x[:, 1] * 3)).astype(int) % 3
    return DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x, y), x[:40], y[:40]


def cells(tree, low, high):
    """A point of every cell of the tree's grid that meets the box [low, high]."""
    inner = tree.tree_
    points = []
    for f in range(2):
        cuts = np.sort(inner.threshold[inner.feature == f])
        edges = np.concatenate([[low[f]], cuts[(cuts > low[f]) & (cuts < high[f])], [high[f]]])
        points.append((edges[:-1] + edges[1:]) / 2)
    return np.array(list(product(*points)))


def worst(tree, x, y, eps):
    """By brute force: the dearest class of any cell within the ball, row by row."""
    prices = np.array(PRICES)
    return np.array([
        prices[c, tree.predict(cells(tree, row - eps, row + eps)).astype(int)].max()
        for row, c in zip(x, y, strict=True)
    ])  # fmt: skip


def test_exact_proofs_give_the_cost_of_brute_force_from_both_sides():
    tree, x, y = a_tree()
    data = du.Dataset(x, y, classes=("a", "b", "c"))
    space = du.Linf(0.08, low=-1, high=2)
    report = du.evaluate(tree, data, space=space, goal=du.Group(cost=NAMED))
    by_hand = worst(tree, x, y, 0.08)
    assert 0 < by_hand.mean() < 7
    assert report.metric("harm").value == pytest.approx(by_hand.mean())
    assert report.metric("harm_most").value == pytest.approx(by_hand.mean())
    clean = np.array(PRICES)[y, tree.predict(x).astype(int)].mean()
    assert report.metric("harm_clean").value == pytest.approx(clean)
    assert set(report.also) == {f"cost_at_least_{v}" for v in (2, 3, 7)}


def test_a_matrix_and_a_table_are_the_same_and_are_read_back(tmp_path):
    tree, x, y = a_tree()
    data = du.Dataset(x[:12], y[:12])
    space = du.Linf(0.05, low=-1, high=2)
    ours = du.evaluate(tree, data, space=space, goal=du.Group(cost=np.array(PRICES)))
    again = du.evaluate(
        tree, data, space=space, goal=du.Group(cost={0: {1: 1, 2: 7}, 1: {0: 2}, 2: {0: 7, 1: 3}})
    )
    assert ours.metric("harm") == again.metric("harm")
    ours.save(tmp_path / "run")
    stored = du.Report.load(tmp_path / "run")
    for name in ("harm", "harm_most", "harm_clean"):
        assert stored.metric(name) == ours.metric(name)
    assert "cost per row" in str(stored)


def test_what_nobody_proved_may_cost_its_dearest_price():
    tree, x, y = a_tree()
    data = du.Dataset(x, y)
    report = du.evaluate(
        tree, data, space=du.Linf(0.08, low=-1, high=2), goal=du.Group(cost=PRICES),
        attack=du.Square(3),
    )  # fmt: skip
    by_hand = worst(tree, x, y, 0.08)
    least, most = (report.metric(name).value for name in ("harm", "harm_most"))
    assert least <= by_hand.mean() < most
    assert most == pytest.approx(np.array(PRICES).max(1)[y].mean())


def test_expected_cost_under_noise_is_the_sum_over_the_cells():
    tree, x, y = a_tree(depth=3)
    sd = np.array([0.1, 0.05])
    nature = du.Nature(tree, du.Normal(sd=sd.tolist()))
    report = du.evaluate(nature, du.Dataset(x, y), goal=du.Group(cost=PRICES))
    inner, by_hand = tree.tree_, []
    edges = [
        np.concatenate([[-9.0], np.sort(inner.threshold[inner.feature == f]), [9.0]])
        for f in range(2)
    ]
    middle = [(e[:-1] + e[1:]) / 2 for e in edges]
    label = tree.predict(np.array(list(product(*middle)))).astype(int)
    label = label.reshape(len(middle[0]), len(middle[1]))
    for row, c in zip(x, y, strict=True):
        mass = [np.diff(norm.cdf((e - v) / s)) for e, v, s in zip(edges, row, sd, strict=True)]
        by_hand.append((np.outer(*mass) * np.array(PRICES)[c][label]).sum())
    harm = report.metric("harm")
    assert harm.value == pytest.approx(np.mean(by_hand), abs=1e-6)
    assert harm.low < np.mean(by_hand) < harm.high


def test_a_network_is_climbed_to_the_dearest_class_in_reach():
    """Two logits rise together: what is likelier first is the cheap class."""
    net = torch.nn.Linear(1, 3).double()
    with torch.no_grad():
        net.weight[:] = torch.tensor([[0.0], [1.0], [3.0]])
        net.bias[:] = torch.tensor([0.0, -0.1, -0.9])
    data = du.Dataset(np.zeros((4, 1)), [0] * 4)
    prices = {0: {1: 1.0, 2: 10.0}}
    how = {"goal": du.Group(cost=prices), "attack": du.PGD(20)}
    near = du.evaluate(net, data, space=du.Linf(0.25, low=-1, high=1), **how)
    far = du.evaluate(net, data, space=du.Linf(0.5, low=-1, high=1), **how)
    assert near.metric("harm").value == 1.0  # from .1 to .4 the cheap class leads
    assert far.metric("harm").value == 10.0  # the dear one from .4 on


def test_a_source_without_rows_and_rows_without_a_source_are_counted_right():
    tree, x, y = a_tree()
    keep = y != 0
    data = du.Dataset(x[keep], y[keep])
    goal = du.Group(cost={0: {1: 100}, 1: {0: 4}})
    report = du.evaluate(tree, data, space=du.Linf(0.08, low=-1, high=2), goal=goal)
    assert report.also == {}  # nobody can lose 100 here
    hits = [
        4.0 * (0 in tree.predict(cells(tree, row - 0.08, row + 0.08))) * (c == 1)
        for row, c in zip(x[keep], y[keep], strict=True)
    ]
    assert report.metric("harm").value == pytest.approx(np.mean(hits))
    assert report.metric("harm").n == keep.sum()


def test_saved_prices_are_judged_again(tmp_path):
    tree, x, y = a_tree()
    data = du.Dataset(x[:20], y[:20])
    report = du.evaluate(
        tree, data, space=du.Linf(0.08, low=-1, high=2), goal=du.Group(cost=PRICES)
    )
    for k, part in enumerate([report, *report.also.values()]):  # the first holds the others, too
        folder = part.save(tmp_path / str(k))
        found = du.verify(folder, tree, data)
        assert not found.findings, found
        assert not any("no rule for this goal" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cost": [[0, 1]]}, "one per class"),
        ({"cost": {0: {1: -1}}}, "costs -1"),
        ({"cost": {0: {1: float("nan")}}}, "costs nan"),
        ({"cost": {0: {1: 0}}}, "no confusion costs"),
        ({"cost": {0: 3}}, "must be"),
        ({}, "needs a relation"),
        ({"relation": {0: [1]}, "least": 2}, "give cost="),
        ({"relation": {0: [1]}, "cost": {0: {1: 1}}}, "relation= and cost="),
    ],
)
def test_prices_nobody_can_mean_are_refused(given, said):
    with pytest.raises(du.DurometerError, match=said):
        du.Group(**given)


def test_what_is_right_costs_nothing():
    with pytest.raises(du.DurometerError, match="where it is right"):
        du.Group(cost=[[1, 1], [0, 0]]).prices(2)
