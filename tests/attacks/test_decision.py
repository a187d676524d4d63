"""Attacks that see labels only: Ray (Linf) and Circle (L2)."""

import numpy as np
import pytest
import torch
from torch import nn

import assay as ay
from assay.problem.donors import Donors, donors
from assay.testing import check_attack


@pytest.mark.parametrize("attack", [ay.Ray(150), ay.Circle(200)])
def test_they_keep_every_promise_of_an_attack(attack):
    check_attack(attack, at_once=40)


def test_donors_do_not_depend_on_the_order_of_the_rows():
    data = ay.Dataset(torch.rand(400, 3), torch.arange(400) % 2)
    model = ay.wrap(lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], 1))
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
    "attack,space", [(ay.Ray(400), ay.Linf(0.3)), (ay.Circle(400), ay.L2(0.3))]
)
def test_a_near_boundary_is_found_by_labels(attack, space):
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)).double()
    data = ay.Dataset(x, (torch.sin(12 * x[:, 0]) > 0).long())
    report = ay.evaluate(
        ay.wrap(Stripes(), answers="labels"), data, space=space, attack=attack, progress=False
    )
    assert report.metric("robust").value <= 0.05


@pytest.mark.parametrize(
    "attack,space", [(ay.Ray(300), ay.Linf(0.12)), (ay.Circle(400), ay.L2(0.25))]
)
def test_any_goal_and_any_eps(attack, space):
    net, data = ay.testing.toy()
    report = ay.evaluate(net, data, space=space, goal=ay.Targeted(1), attack=attack, progress=False)
    seen = ay.evaluate(
        net, data, space=space, goal=ay.Targeted(1), attack=ay.APGD(50), progress=False
    )
    lost = seen.table["success"] & ~report.table["success"]
    assert lost.mean() <= 0.13
    won = report.table["success"].to_numpy()
    x = torch.from_numpy(report.adversarial[won])
    assert (net(x.double()).argmax(1) == 1).all()


def test_an_eps_for_each_feature():
    net, data = ay.testing.toy()
    eps = [0.0] + [0.2] * 7
    report = ay.evaluate(net, data, space=ay.Linf(eps), attack=ay.Ray(200), progress=False)
    assert np.all(report.adversarial[:, 0] == data.x.numpy()[:, 0])
    assert report.metric("robust").value < 0.7


def test_one_class_alone_has_no_donors_and_is_searched_all_the_same():
    net, data = ay.testing.toy()
    data = data.where(y=0)
    report = ay.evaluate(net, data, space=ay.Linf(0.3), attack=ay.Ray(300), progress=False)
    assert report.metric("robust").value < 0.3


def test_points_outside_the_ball_do_not_count_as_blocked():
    net, data = ay.testing.toy()
    report = ay.evaluate(net, data, space=ay.Linf(0.01), attack=ay.Ray(60), progress=False)
    assert not report.table["blocked"].any()


def test_they_never_ask_more_than_they_say():
    net, data = ay.testing.toy()
    for attack, space in ((ay.Ray(50), ay.Linf(0.001)), (ay.Circle(50), ay.L2(0.001))):
        report = ay.evaluate(net, data, space=space, attack=attack, progress=False)
        assert 30 <= report.table["forwards"].max() <= 51  # the clean answer is one


def test_donors_is_what_it_holds():
    assert len(Donors(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long)).x) == 3
