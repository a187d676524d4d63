"""One eps per channel or feature: the same as scaling the inputs by hand.

The oracle shares no code with it: inputs divided by powers of two (which is exact), a model that
multiplies them back, and one eps.
"""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import durometer as du
from durometer.config.build import build
from durometer.core.serialization import to_dict
from durometer.verification.judge import allowed

SHARE = torch.tensor([1.0, 0.5, 0.25])
COLUMNS = ["success", "final", "verdict", "winner", "forwards", "backwards", "margin"]


class Scaled(nn.Module):
    """The same network for inputs that were divided by `by`."""

    def __init__(self, inner, by):
        super().__init__()
        self.inner = inner
        self.register_buffer("by", by)

    def forward(self, x):
        return self.inner(x * self.by)


def pictures(n=24, seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 4)).eval()
    x = (torch.rand(n, 3, 8, 8) * 256).floor() / 256
    with torch.no_grad():
        y = net(x).argmax(1)
    return net, du.Dataset(x.numpy(), y.numpy())


def by_hand(net, data, by):
    by = by.reshape(-1, *[1] * (data.x.ndim - 2))
    scaled = du.Dataset((data.x / by).numpy(), data.y.numpy())
    return Scaled(net, by).eval(), scaled, (torch.zeros_like(by) / by), (torch.ones_like(by) / by)


@pytest.mark.parametrize(
    ("p", "eps", "attack"),
    [
        (math.inf, 1 / 32, du.APGD(10)),
        (math.inf, 1 / 32, du.Square(60)),
        (math.inf, 1 / 32, du.FAB(8)),
        (2.0, 0.5, du.PGD(10)),
        (2.0, 0.5, du.Square(60)),
        (2.0, 0.5, du.CW(steps=30, searches=2, c=1.0)),
        (1.0, 4.0, du.APGD(10)),
        (1.0, 4.0, du.FAB(8)),
        (math.inf, 1 / 8, du.Graft(200)),
    ],
    ids=repr,
)
def test_an_eps_per_channel_gives_the_records_of_inputs_scaled_by_hand(p, eps, attack):
    net, data = pictures()
    noun = {math.inf: du.Linf, 2.0: du.L2, 1.0: du.L1}[p]
    ours = du.evaluate(net, data, space=noun((eps * SHARE).tolist()), attack=attack)
    there, scaled, low, high = by_hand(net, data, SHARE)
    theirs = du.evaluate(there, scaled, space=noun(eps, low=low, high=high), attack=attack)
    pd.testing.assert_frame_equal(ours.table[COLUMNS], theirs.table[COLUMNS], rtol=1e-6)
    np.testing.assert_allclose(ours.table["distance"], theirs.table["distance"], rtol=1e-5)
    moved = np.asarray(theirs.adversarial) * SHARE.numpy().reshape(3, 1, 1)
    np.testing.assert_allclose(np.asarray(ours.adversarial), moved, atol=1e-7)
    assert 0 < ours.table["success"].sum() < 24
    change = np.abs(np.asarray(ours.adversarial) - data.x.numpy()).max((0, 2, 3))
    assert p < math.inf or (change <= eps * SHARE.numpy() * (1 + 1e-5)).all()


@pytest.mark.parametrize("noun", [du.Linf, du.L2, du.L1])
def test_equal_numbers_are_one_number(noun):
    net, data = pictures(8)
    eps = 0.05 if noun is du.Linf else 0.4
    one = du.evaluate(net, data, space=noun(eps), attack=du.APGD(5))
    three = du.evaluate(net, data, space=noun([eps] * 3), attack=du.APGD(5))
    every = du.evaluate(net, data, space=noun(np.full((3, 8, 8), eps)), attack=du.APGD(5))
    for other in (three, every):
        pd.testing.assert_frame_equal(one.table[COLUMNS], other.table[COLUMNS])
        np.testing.assert_array_equal(one.adversarial, other.adversarial)


@pytest.mark.parametrize("noun", [du.Linf, du.L2, du.L1])
@pytest.mark.parametrize(
    "attack", [du.APGD(10), du.Square(100), du.FAB(8), du.Graft(200)], ids=repr
)
def test_an_eps_of_zero_leaves_a_channel_as_it_was_and_costs_nothing(noun, attack):
    net, data = pictures()
    size = {du.Linf: 0.2, du.L2: 2.0, du.L1: 20.0}[noun]
    report = du.evaluate(net, data, space=noun([size, 0, size / 2]), attack=attack)
    moved = np.asarray(report.adversarial) != data.x.numpy()
    assert not moved[:, 1].any()
    assert moved[:, 0].any() and moved[:, 2].any()
    assert report.table["success"].any()


def test_a_normalised_network_is_attacked_as_the_plain_one():
    """The usual reason: (x - mean) / std is done outside, so the box and eps differ by channel."""
    net, data = pictures()
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.25, 0.22, 0.28])

    class Plain(nn.Module):
        def forward(self, x):
            return net((x - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1))

    x = (data.x - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1)
    with torch.no_grad():
        y = net(x).argmax(1).numpy()
    outside = du.Linf(
        (0.03 / std).tolist(), low=((0 - mean) / std).tolist(), high=((1 - mean) / std).tolist()
    )
    a = du.evaluate(Plain().eval(), du.Dataset(data.x.numpy(), y), space=du.Linf(0.03))
    b = du.evaluate(net, du.Dataset(x.numpy(), y), space=outside)
    assert a.metric("robust").value == b.metric("robust").value
    assert 0 < a.metric("robust").value < 1


def test_the_region_holds_what_every_channel_allows_and_no_more():
    x = torch.full((2, 3, 4, 4), 0.5)
    space = du.Linf([0.2, 0.1, 0.0])
    region = space.around(x)
    for channel, inside, outside in ((0, 0.2, 0.201), (1, 0.1, 0.101), (2, 0.0, 1e-4)):
        for size, right in ((inside, True), (outside, False)):
            moved = x.clone()
            moved[:, channel, 1, 1] += size
            assert region.contains(moved).tolist() == [right] * 2
            judged = allowed(to_dict(space), x.numpy(), moved.numpy())
            assert judged.tolist() == [right] * 2
    moved = x.clone()
    moved[:, 0], moved[:, 1] = 0.7, 0.45
    assert region.distance(moved)[0].item() == pytest.approx(0.2)
    assert (region.decode(region.origin) == x).all()


@pytest.mark.parametrize("noun", [du.L2, du.L1])
def test_judge_and_region_agree_on_random_points_of_scaled_norms(noun):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.3, 0.7, (400, 3, 2, 2)).astype(np.float32)
    space = noun([0.3, 0.2, 0.05])
    change = rng.normal(size=x.shape) * np.array([0.3, 0.2, 0.05]).reshape(3, 1, 1)
    change *= rng.uniform(0.05, 0.6, (400, 1, 1, 1))
    moved = (x + change).astype(np.float32).clip(0, 1)
    inside = space.around(torch.from_numpy(x)).contains(torch.from_numpy(moved)).numpy()
    np.testing.assert_array_equal(inside, allowed(to_dict(space), x, moved))
    p = 2 if noun is du.L2 else 1
    share = np.abs(moved - x) / np.array([0.3, 0.2, 0.05]).reshape(3, 1, 1)
    plain = np.linalg.norm(share.reshape(400, -1), p, axis=1) <= 1
    np.testing.assert_array_equal(inside, plain)
    assert 0 < inside.sum() < 400


@pytest.mark.parametrize("noun", [du.Linf, du.L2, du.L1])
def test_proofs_hold_with_an_eps_per_feature(noun, tmp_path):
    """Exact and Linear: what is proven, and what is broken, is so of inputs scaled by hand."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    x = (rng.uniform(size=(300, 4)) * 4096).round() / 4096
    y = (x[:, 0] + x[:, 1] * 2 + x[:, 2] - x[:, 3] > 1.5).astype(int)
    share, eps = np.array([1.0, 0.5, 0.25, 0.5]), {du.Linf: 0.1, du.L2: 0.12, du.L1: 0.15}[noun]
    some, there = slice(0, 40), x / share
    spaces = noun((eps * share).tolist()), noun(eps, high=(1 / share).tolist())
    for model, proof in (
        (RandomForestClassifier(5, max_depth=4, random_state=0), du.Exact(certificates=True)),
        (LogisticRegression(C=100), du.Linear()),
    ):
        if proof == du.Linear():
            ours, theirs = model.fit(x, y), LogisticRegression(C=100).fit(x, y)
            theirs.coef_ = theirs.coef_ * share
        else:
            ours = model.fit(x, y)
            theirs = RandomForestClassifier(5, max_depth=4, random_state=0).fit(there, y)
        a = du.evaluate(ours, du.Dataset(x[some], y[some]), space=spaces[0], attack=proof)
        b = du.evaluate(theirs, du.Dataset(there[some], y[some]), space=spaces[1], attack=proof)
        assert a.table["verdict"].tolist() == b.table["verdict"].tolist()
        assert {"broken", "proven"} <= set(a.table["verdict"])
        a.save(tmp_path / type(model).__name__)
        found = du.verify(
            tmp_path / type(model).__name__, model=ours, data=du.Dataset(x[some], y[some])
        )
        assert not found.findings, str(found)
        if proof == du.Exact(certificates=True):
            assert found.checked["proofs"] == (a.table["verdict"] == "proven").sum()


@pytest.mark.parametrize(("noun", "size"), [(du.Linf, 0.02), (du.L2, 0.15), (du.L1, 0.4)])
def test_bounds_of_a_network_with_an_eps_per_channel(noun, size):
    net, data = pictures(12)
    eps = (size * SHARE).tolist()
    ours = du.evaluate(net, data, space=noun(eps), attack=du.Bounds())
    there, scaled, low, high = by_hand(net, data, SHARE)
    theirs = du.evaluate(there, scaled, space=noun(size, low=low, high=high), attack=du.Bounds())
    assert ours.table["verdict"].tolist() == theirs.table["verdict"].tolist()
    assert (ours.table["verdict"] == "proven").any()
    hard = du.evaluate(net, data, space=noun(eps), attack=du.APGD(30, restarts=2))
    assert not (hard.table["success"] & (ours.table["verdict"] == "proven")).any()


def test_the_nearest_evasion_is_counted_in_the_largest_eps():
    from sklearn.tree import DecisionTreeClassifier

    x = np.array([[0.2, 0.2], [0.8, 0.8]])
    tree = DecisionTreeClassifier().fit(x[:, :1] @ [[1.0, 1.0]], [0, 1])  # cuts at 0.5
    cut = int(tree.tree_.feature[0])
    eps = [0.8, 0.8]
    eps[cut] = 0.4
    report = du.evaluate(
        tree, du.Dataset(x[:1], [0]), space=du.Linf(eps), attack=du.Exact(minimise="distance")
    )
    assert report.table["distance"][0] == pytest.approx(0.6, rel=1e-2)  # 0.3 of 0.4, times 0.8
    curve = report.radii([0.4, 0.7])
    assert [e.value for e in curve["at_most"]] == [1.0, 0.0]


def test_from_a_file_in_print_and_on_the_page(tmp_path):
    space = build("spaces", {"type": "Linf", "eps": ["8/255", "4/255", "2/255"]})
    assert space == du.Linf([8 / 255, 4 / 255, 2 / 255])
    assert to_dict(space) == {"type": "Linf", "eps": [8 / 255, 4 / 255, 2 / 255]}
    assert build("spaces", to_dict(space)) == space == pickle.loads(pickle.dumps(space))
    assert eval(repr(space), {"Linf": du.Linf}) == space
    assert space.description == (
        "The attacker may change every feature by at most its own eps (8/255, 4/255, 2/255)."
    )
    net, data = pictures(6)
    report = du.evaluate(net, data, space=space, attack=du.APGD(3))
    assert "8/255, 4/255, 2/255" in str(report)
    page = report.html()
    assert "Every feature, by at most its own eps: 8/255, 4/255, 2/255." in page
    report.save(tmp_path / "run")
    found = du.verify(tmp_path / "run", model=net, data=data)
    assert found, str(found)
    assert "units of its eps" in du.evaluate(
        net, data, space=du.L2([0.1, 0.2, 0.3]), attack=du.APGD(3)
    ).html()  # fmt: skip


def test_a_stored_picture_keeps_its_levels_and_its_eps():
    net, data = pictures(12)
    x = (data.x * 255).round() / 255
    space = du.Quantised(du.Linf([8 / 255, 4 / 255, 0]))
    report = du.evaluate(net, du.Dataset(x.numpy(), data.y.numpy()), space=space)
    steps = np.abs(np.asarray(report.adversarial) - x.numpy()) * 255
    np.testing.assert_allclose(steps, steps.round(), atol=1e-3)
    assert (steps.max((0, 2, 3)).round() <= [8, 4, 0]).all()
    assert report.table["success"].any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: du.L0([1, 2]), "L0 counts the features"),
        (lambda: du.Linf([0, 0]), "expected a positive number"),
        (lambda: du.Linf([0.1, -0.1]), "expected a positive number"),
        (lambda: du.Linf([0.1, math.nan]), "expected a positive number"),
        (lambda: du.Schema([du.Feature("a", low=0, high=1)]).space(eps=[0.1]), r"eps=\[0.1\]"),
        (lambda: du.training.Free(eps=[0.1, 0.2]), r"Free\(eps=\[0.1, 0.2\]\): expected a number"),
        (lambda: du.Linf([]), "expected a positive number"),
        (lambda: du.Linf({"a": 0.1}), "expected a positive number"),
        (lambda: du.Linf([[0.1], [0.1, 0.2]]), "expected a positive number"),
        (lambda: du.Linf(pd.Series({"b": 0.1, "a": 0.2})), "knows no names"),
        (lambda: du.Linf([0.1, 0.2]).check(torch.zeros(1, 3, 8, 8)), "it has 3 channels"),
        (lambda: du.Linf([0.1] * 8).check(torch.zeros(1, 3, 8, 8)), "it has 3 channels"),
        (lambda: du.Linf([0.1] * 8).check(torch.zeros(1, 8, 8)), "it has no channels"),
        (lambda: du.Linf([0.1] * 3).check(torch.zeros(1, 4)), "it has 4 features"),
        (lambda: du.Linf([8, 4, 2]).check(torch.zeros(1, 3, 8, 8)), r"write Linf\(8 / 255\)"),
        (lambda: du.Linf(0.1, low=[0, 0]).check(torch.zeros(1, 3, 8, 8)), "low=.*3 channels"),
    ],
)
def test_what_is_wrong_is_said(make, said):
    with pytest.raises(du.DurometerError, match=said):
        make()


@pytest.mark.parametrize("noun", [du.Linf, du.L2, du.L1])
@pytest.mark.parametrize("last", [0.05, 0.0])
def test_the_promises_of_a_space_are_kept(noun, last):
    du.testing.check_space(noun([0.4, 0.2, last]), torch.rand(8, 3, 5, 5))
    du.testing.check_space(noun([0.4, 0.2, last]), torch.rand(8, 3, dtype=torch.float64))


def test_noise_is_shifted_by_one_eps_only():
    from sklearn.tree import DecisionTreeClassifier

    x = np.random.default_rng(0).uniform(size=(50, 2))
    tree = DecisionTreeClassifier(max_depth=2).fit(x, x[:, 0] > 0.5)
    game = du.Nature(tree, du.Normal(sd=0.1))
    with pytest.raises(du.Unsupported, match="one eps, not by one per feature"):
        du.evaluate(game, du.Dataset(x, x[:, 0] > 0.5), space=du.L2([0.1, 0.2], -np.inf, np.inf))
