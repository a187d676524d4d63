"""The cascade finds what AutoAttack finds, for less; stages go on from the nearest valid point."""

from dataclasses import dataclass

import pytest
import torch

import durometer as du
from durometer.problem.needs import Needs


def three_bumps(x):
    """A model whose gradient shows nothing: it sees its input in steps of 0.2."""
    seen = x + ((x / 0.2).floor() * 0.2 - x).detach() * 1.0
    blind = seen.detach() + 0.0 * x
    return torch.stack([blind.flatten(1).mean(1), 0.5 + 0 * blind.flatten(1).mean(1)], 1) * 20


def digits_net(seed=0):
    g = torch.Generator().manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(36, 24), torch.nn.ReLU(), torch.nn.Linear(24, 6)
    )
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=g) * (0.5 if p.ndim > 1 else 0.1)
    x = torch.rand(80, 1, 6, 6, generator=g)
    with torch.no_grad():
        return net, du.Dataset(x, net(x).argmax(1))


@pytest.mark.parametrize("space", [du.Linf(0.04), du.L2(0.25)], ids=str)
def test_it_breaks_what_autoattack_breaks_at_a_third_of_its_passes(space):
    net, data = digits_net()
    data = data.take(slice(40))
    ask = {"space": space, "progress": False}
    full = du.evaluate(net, data, attack=du.AutoAttack(), **ask).table
    cheap = du.evaluate(net, data, attack=du.Cascade(), **ask).table
    assert 5 < full["success"].sum() < 35
    assert cheap["success"].sum() >= full["success"].sum()
    cost = [(t["forwards"] + 2 * t["backwards"]).sum() for t in (cheap, full)]
    assert cost[0] < cost[1] / 3


@dataclass(frozen=True)
class Look:
    """Asks about three points of a row and looks at what is remembered."""

    remember: bool
    seen: dict

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem):
        if self.remember:
            problem.remember()
        rows = problem.open
        origin = problem.region(rows).origin
        for shift in (0.02, 0.5, 0.03, -0.01):  # the second is out of bounds
            problem.submit(rows, origin + shift)
        self.seen["nearest"] = problem.nearest(rows) - origin
        self.seen["kept"] = problem.kept(rows) - origin


@pytest.mark.parametrize("remember", [True, False])
def test_the_nearest_valid_point_is_remembered_where_it_is_wanted(remember):
    seen = {}
    net = torch.nn.Linear(1, 2, bias=False).double()
    net.weight.data = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    data = du.Dataset(torch.full((3, 1), -0.3, dtype=torch.float64), [0, 0, 0])
    space = du.Linf(0.05, low=-1, high=1)
    report = du.evaluate(net, data, space=space, attack=Look(remember, seen), progress=False)
    assert not report.table["success"].any()
    wanted = 0.03 if remember else 0.0
    assert seen["nearest"].flatten().tolist() == pytest.approx([wanted] * 3)
    assert (seen["kept"] == 0).all()  # what is handed in is still the first success, or nothing
    assert (report.adversarial == data.x.numpy()).all()


def test_a_search_from_the_best_point_needs_fewer_queries_than_one_from_anywhere():
    net, data = digits_net(1)
    space = du.Linf(0.03)
    warm = du.Then(du.PGD(4), du.Square(60, p=0.1, start="best"))
    cold = du.Then(du.PGD(4), du.Square(60))
    found = [
        int(du.evaluate(net, data, space=space, attack=a, progress=False).table["success"].sum())
        for a in (warm, cold)
    ]
    assert found[0] > found[1]


def test_a_pruned_search_gives_up_what_cannot_arrive_and_keeps_what_can():
    net, data = digits_net(1)
    ask = {"space": du.Linf(0.02), "progress": False}
    full = du.evaluate(net, data, attack=du.Square(400), **ask).table
    pruned = du.evaluate(net, data, attack=du.Square(400, prune=True), **ask).table
    assert pruned["success"].sum() >= full["success"].sum() - 1
    assert pruned["forwards"].sum() < 0.7 * full["forwards"].sum()


def test_where_gradients_show_nothing_the_search_breaks_the_row():
    x = torch.full((6, 1, 4, 4), 0.62, dtype=torch.float64)
    data = du.Dataset(x, [0] * 6)
    report = du.evaluate(
        three_bumps, data, space=du.Linf(0.25), attack=du.Cascade(5, queries=200), progress=False
    )
    assert report.table["success"].all()


def test_a_group_is_first_attacked_by_the_loss_it_implies():
    net, data = digits_net()
    goal = du.Group({c: [(c + 1) % 6, (c + 2) % 6] for c in range(6)})
    ask = {"space": du.Linf(0.05), "goal": goal, "progress": False}
    table = du.evaluate(net, data, attack=du.Cascade(), **ask).table
    alone = du.evaluate(net, data, attack=du.APGD(30), **ask).table
    assert (table["winner"] == "APGD").sum() == (alone["winner"] == "APGD").sum() > 0
    best = du.evaluate(net, data, attack=du.Guess(du.APGD(60, loss="md")), **ask).table
    assert table["success"].sum() >= best["success"].sum()


def test_the_report_says_what_each_stage_broke_and_cost():
    net, data = digits_net()
    report = du.evaluate(net, data, space=du.Linf(0.04), attack=du.Cascade(), progress=False)
    lines = report.stages.set_index("stage")
    assert lines.loc["APGD-pm", "broken"] > 0 and lines.loc["APGD-pm", "seconds"] > 0
    assert lines["broken"].sum() == (report.table["winner"] != "clean")[report.table.success].sum()
    assert lines.loc["APGD-dlr-T", "rows"] < lines.loc["APGD-pm", "rows"]


def test_data_in_double_precision_and_a_network_in_single():
    net, data = digits_net()
    double = du.Dataset(data.x.double().numpy()[:8], data.y[:8])
    report = du.evaluate(net, double, space=du.Linf(0.02), attack=du.Cascade(3), progress=False)
    assert len(report.table) == 8
