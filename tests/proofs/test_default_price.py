"""The default spends on proofs where they pay: counted in rounds and rows, never in seconds."""

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer.proofs import networks
from durometer.proofs.bounds import climb as climbing


def net(wide=40, features=30, classes=4, scale=1.0):
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Linear(features, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(),
        nn.Linear(wide, classes),
    ).double()  # fmt: skip
    with torch.no_grad():
        made[0].weight *= scale
    return made.eval()


def rows(model, n=12, features=30):
    x = torch.rand(n, features, generator=torch.Generator().manual_seed(1)).double()
    return du.Dataset(x, model(x).argmax(1))


class Counted:
    """Which rows are climbed, and how many plain bounds are found."""

    def __init__(self, patch):
        self.climbed, self.cut, self.bounded = 0, 0, 0
        climb, branches, bounded = networks.climb, networks.branches, networks.bounded

        def count_climb(network, *rest):
            self.climbed += len(network.domain.centre)
            return climb(network, *rest)

        def count_cut(program, held, *rest):
            self.cut += len(held.centre)
            return branches(program, held, *rest)

        def count_bounded(program, held):
            self.bounded += len(held.centre)
            return bounded(program, held)

        patch.setattr(networks, "climb", count_climb)
        patch.setattr(networks, "branches", count_cut)
        patch.setattr(networks, "bounded", count_bounded)


def play(model, data, eps, attack=None, **options):
    return du.evaluate(
        model, data, space=du.Linf(eps), attack=attack or du.Standard(), progress=False, **options
    )


def test_where_nothing_can_be_proven_nothing_is_climbed_or_cut(monkeypatch):
    model = net(scale=4.0)
    data, seen = rows(model), Counted(monkeypatch)
    report = play(model, data, 0.5)
    assert report.metric("proven").value == 0
    assert (seen.climbed, seen.cut) == (0, 0)
    assert seen.bounded == len(data)  # once a row, before the attack and not again after it


def test_open_rows_say_how_far_off_their_bounds_are():
    model = net(scale=4.0)
    # a budget of one question: the attack leaves rows open
    report = play(model, rows(model), 0.12, budget=du.Budget(forwards=1))
    table = report.table
    left = table[table["verdict"] == "open"]
    assert len(left) and all("clean margins away" in why for why in left["unproven"])
    assert (table.loc[table["verdict"] != "open", "unproven"] == "").all()
    (flag,) = (f for f in report.flags if f.id == "no-proof")
    assert "clean margins away" in flag.text


def test_near_rows_are_climbed_once_and_no_proof_is_lost(monkeypatch):
    model = net()
    data = rows(model, 40)
    for eps in (0.004, 0.01, 0.02):
        with monkeypatch.context() as patch:
            seen = Counted(patch)
            ours = play(model, data, eps)
            assert seen.climbed <= len(data)
        every = du.Then(du.Bounds(splits=0, seconds=0.0), du.Cascade(), du.Bounds(alpha=0))
        all_rows = play(model, data, eps, every)
        assert ours.table["verdict"].tolist() == all_rows.table["verdict"].tolist()
    assert seen.climbed > 0


def test_a_row_is_treated_alike_whoever_stands_beside_it():
    model = net(scale=2.0)
    data = rows(model, 24)
    whole = play(model, data, 0.02).table
    for k in range(0, 24, 5):
        one = play(model, data.take(slice(k, k + 1)), 0.02).table
        assert one["verdict"].tolist() == whole["verdict"].tolist()[k : k + 1]
        assert one["unproven"].tolist() == whole["unproven"].tolist()[k : k + 1]


@pytest.mark.parametrize("classes, inside", [(6, 3), (20, 10)])
def test_a_group_has_one_lead_for_each_target_when_it_is_climbed(monkeypatch, classes, inside):
    """Of 20 classes with 10 targets there are 100 pairs, and 10 leads; the verdicts hold."""
    model = net(classes=classes)
    x = rows(model, 200).x
    y = model(x).argmax(1)
    keep = (y >= inside).nonzero()[:, 0][:30]
    data = du.Dataset(x[keep], y[keep])
    goal = du.Group({c: list(range(inside)) for c in range(inside, classes)})
    sizes = []
    climb = climbing.climb
    monkeypatch.setattr(
        networks, "climb", lambda n, w, *rest: sizes.append(w.shape[1]) or climb(n, w, *rest)
    )
    report = play(model, data, 0.02, du.Bounds(splits=0), goal=goal)
    assert set(sizes) == {inside}
    proven = (report.table["verdict"] == "proven").to_numpy()
    assert proven.any()
    rng = np.random.default_rng(0)
    for row in data.x[proven]:
        near = row + torch.from_numpy(rng.choice([-0.02, 0.0, 0.02], (4000, 30)))
        assert (model(near.clamp(0, 1)).argmax(1) >= inside).all()


def test_the_distance_is_in_the_rows_own_margins(monkeypatch):
    """A linear network: the bound is exact, so the distance has a closed form."""
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).double().eval()
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.copy_(weight)
            layer.bias.zero_()
    data = du.Dataset(torch.tensor([[0.6, 0.5]], dtype=torch.float64), torch.tensor([0]))
    attack = du.Bounds(alpha=0, splits=0, few=0, seconds=0.0, within=0.5)
    monkeypatch.setattr(networks, "_SMALL", -1)
    # the lead of class 1 reaches -0.1 + 2 eps: at eps = 0.2 that is 3 margins above 0
    report = play(model, data, 0.2, attack)
    assert "3.0 clean margins" in report.table["unproven"].iloc[0]
    assert play(model, data, 0.04, attack).metric("proven").value == 1
