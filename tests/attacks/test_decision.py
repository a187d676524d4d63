"""Attacks that see labels only: Ray (Linf), Circle (L2), Walk (L0, L1, patches, windows)."""

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer.problem.donors import Donors, donors
from durometer.testing import check_attack


@pytest.mark.parametrize("attack", [du.Ray(150), du.Circle(200)])
def test_they_keep_every_promise_of_an_attack(attack):
    check_attack(attack, at_once=40)


@pytest.mark.parametrize("space", [du.L1(0.5), du.L0(2)])
def test_walk_keeps_every_promise_of_an_attack(space):
    check_attack(du.Walk(200), space, at_once=40)


def test_donors_do_not_depend_on_the_order_of_the_rows():
    data = du.Dataset(torch.rand(400, 3), torch.arange(400) % 2)
    model = du.wrap(lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], 1))
    first = donors(model, data)
    other = donors(model, data.take(torch.arange(399, -1, -1)))
    assert torch.equal(first.x, other.x) and torch.equal(first.label, other.label)
    assert len(first.x) == 256


class Stripes(nn.Module):
    """Two classes that alternate along the first pixel: no row's label says much of the next."""

    def forward(self, x):
        s = torch.sin(12 * x[:, 0]) * 100
        return torch.stack([-s, s], 1)


@pytest.mark.parametrize(
    "attack,space",
    [
        (du.Ray(400), du.Linf(0.3)),
        (du.Circle(400), du.L2(0.3)),
        (du.Walk(400), du.L1(0.3)),
        (du.Walk(400), du.L0(1)),
    ],
)
def test_a_near_boundary_is_found_by_labels(attack, space):
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)).double()
    data = du.Dataset(x, (torch.sin(12 * x[:, 0]) > 0).long())
    report = du.evaluate(
        du.wrap(Stripes(), answers="labels"), data, space=space, attack=attack, progress=False
    )
    assert report.metric("robust").value <= 0.05


@pytest.mark.parametrize(
    "attack,space",
    [
        (du.Ray(300), du.Linf(0.12)),
        (du.Circle(400), du.L2(0.25)),
        (du.Walk(600), du.L1(0.5)),
        (du.Walk(600), du.L0(2)),
    ],
)
def test_any_goal_and_any_eps(attack, space):
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=space, goal=du.Targeted(1), attack=attack, progress=False)
    seen = du.evaluate(
        net, data, space=space, goal=du.Targeted(1), attack=du.APGD(50), progress=False
    )
    lost = seen.table["success"] & ~report.table["success"]
    assert lost.mean() <= 0.13
    won = report.table["success"].to_numpy()
    x = torch.from_numpy(report.adversarial[won])
    assert (net(x.double()).argmax(1) == 1).all()


def test_an_eps_for_each_feature():
    net, data = du.testing.toy()
    eps = [0.0] + [0.2] * 7
    report = du.evaluate(net, data, space=du.Linf(eps), attack=du.Ray(200), progress=False)
    assert np.all(report.adversarial[:, 0] == data.x.numpy()[:, 0])
    assert report.metric("robust").value < 0.7


def test_one_class_alone_has_no_donors_and_is_searched_all_the_same():
    net, data = du.testing.toy()
    data = data.where(y=0)
    report = du.evaluate(net, data, space=du.Linf(0.3), attack=du.Ray(300), progress=False)
    assert report.metric("robust").value < 0.3


def test_points_outside_the_ball_do_not_count_as_blocked():
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.01), attack=du.Ray(60), progress=False)
    assert not report.table["blocked"].any()


def test_they_never_ask_more_than_they_say():
    net, data = du.testing.toy()
    for attack, space in (
        (du.Ray(50), du.Linf(0.001)), (du.Circle(50), du.L2(0.001)), (du.Walk(50), du.L1(0.001)),
    ):  # fmt: skip
        report = du.evaluate(net, data, space=space, attack=attack, progress=False)
        assert 30 <= report.table["forwards"].max() <= 52  # the clean answer, and one as a donor


def test_donors_is_what_it_holds():
    held = Donors(torch.zeros(3, 2), torch.eye(3), np.arange(3))
    assert held.label.tolist() == [0, 1, 2]


def _pictures(n=24):
    """Eight by eight pictures whose label hangs on the middle: a patch there reaches all."""
    x = torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(2)).double()

    def label(z):
        return (np.asarray(z)[:, 0, 3:5, 3:5].mean((1, 2)) > 0.5).astype(int)

    return label, du.Dataset(x, label(x.numpy()))


@pytest.mark.parametrize("off,left", [(3, 0.0), (0, 1.0)])
def test_labels_alone_are_searched_inside_a_patch_by_default(off, left):
    """A patch on the middle wins every row; one beside it cannot win any, and claims none."""
    label, data = _pictures()
    mask = np.zeros((8, 8), bool)
    mask[off : off + 2, off : off + 2] = True
    report = du.evaluate(
        label, data, space=du.Patch(mask), budget=du.Budget(forwards=300), progress=False
    )
    assert report.metric("robust").value == left
    assert report.spec.answers == "labels"
    won = report.adversarial - data.x.numpy()
    assert not won[:, 0, ~mask].any()
    assert any(f.id == "labels-only" for f in report.flags) == bool(left)


def test_labels_alone_find_the_place_of_a_window():
    label, data = _pictures()
    report = du.evaluate(label, data, space=du.Rectangle(3, 3), progress=False)
    assert report.metric("robust").value == 0
    assert set(report.table["winner"]) == {"Walk"}


def test_a_patch_has_a_default_on_networks_too():
    net, data = du.testing.toy((1, 8, 8))
    report = du.evaluate(net, data, space=du.Rectangle(3, 3), progress=False)
    other = du.evaluate(net, data, space=du.Rectangle(3, 3), attack=du.DOA(20, stride=2))
    assert report.metric("robust").value <= other.metric("robust").value


def test_levels_of_a_picture_are_kept_by_walks():
    net, data = du.testing.toy((1, 8, 8))
    data = du.Dataset((data.x * 16).round() / 16, net((data.x * 16).round() / 16).argmax(1))
    space = du.Quantised(du.L1(3.0), levels=17)
    report = du.evaluate(net, data, space=space, attack=du.Walk(600), progress=False)
    assert report.metric("robust").value < 1
    assert np.array_equal(report.adversarial * 16, (report.adversarial * 16).round())
