"""The verb: same records however the data is cut, and nothing claimed that does not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.serialization import to_dict
from durometer.problem.budget import Budget
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.run import job


def small_net(inputs: int = 12, classes: int = 4, seed: int = 0) -> torch.nn.Module:
    g = torch.Generator().manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(inputs, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes)
    )
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=g)
    return net


def blobs(net: torch.nn.Module, n: int = 120, inputs: int = 12) -> du.Dataset:
    """Rows the net gets right, but for every tenth."""
    x = torch.rand(n, inputs, generator=torch.Generator().manual_seed(1))
    y = net(x).argmax(1).detach()
    y[::10] = (y[::10] + 1) % 4
    return du.Dataset(x, y, ids=np.arange(n) * 3 + 5)


ANY = Needs()


@dataclass(frozen=True)
class Diary:
    """An attack that writes down what it drew, by example id."""

    ids: dict[float, int]
    seen: dict[int, list[bytes]] = field(default_factory=dict)
    needs: Needs = ANY

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = problem.region(rows)
        for _ in range(3):
            drawn = torch.cat(
                [
                    region.random(problem.random, rows),
                    problem.random.normal(rows, 5, torch.float32),
                    problem.random.exponential(rows, 5, torch.float32),
                    problem.random.order(rows, 5).float(),
                ],
                dim=1,
            )
            for origin, z in zip(region.origin, drawn, strict=True):
                key = self.ids[float(origin[0])]
                self.seen.setdefault(key, []).append(z.numpy().tobytes())


def draws(data: du.Dataset, batch: int) -> dict[int, list[bytes]]:
    ids = {float(x[0]): int(i) for x, i in zip(data.x, data.ids, strict=True)}
    diary = Diary(ids)
    du.evaluate(small_net(), data, space=du.L2(0.5), attack=diary, batch=batch)
    return diary.seen


def test_draws_depend_on_seed_id_and_count_alone() -> None:
    data = blobs(small_net())
    whole = draws(data, 256)
    assert len(whole) == int((small_net()(data.x).argmax(1) == data.y).sum())
    assert draws(data, 1) == whole
    assert draws(data, 7) == whole
    shuffled = data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(2)))
    assert draws(shuffled, 13) == whole
    shards = draws(data.take(range(50)), 256) | draws(data.take(range(50, 120)), 7)
    assert shards == whole


@pytest.mark.parametrize("attack", [du.PGD(20), du.APGD(20), du.Square(100), du.FAB(10)])
def test_success_agrees_for_any_batch_size(attack: object) -> None:
    data = blobs(small_net(), n=120)
    flags = [
        du.evaluate(small_net(), data, space=du.Linf(0.15), attack=attack, batch=b)
        .table.set_index("id")["success"]
        .sort_index()
        .to_numpy()
        for b in (1, 7, 256)
    ]
    for other in flags[1:]:
        assert (other == flags[0]).mean() >= 0.99


@pytest.mark.parametrize(
    ("space", "p"), [(du.Linf(0.1), np.inf), (du.L2(0.4), 2), (du.L1(0.9), 1), (du.L0(2), 0)]
)
def test_claims_survive_a_recheck_that_shares_no_code(space: object, p: float) -> None:
    net = small_net()
    data = blobs(net, n=200)
    report = du.evaluate(net, data, space=space, attack=du.Then(du.PGD(10), du.APGD(30)))
    table, x = report.table, report.adversarial
    assert x is not None
    won = table["success"].to_numpy()
    assert 0.1 < won.mean() < 1
    clean = data.x.numpy()
    weights = [q.detach().double().numpy() for q in net.parameters()]
    hidden = np.tanh(x.astype(np.float64) @ weights[0].T + weights[1])
    predicted = (hidden @ weights[2].T + weights[3]).argmax(1)
    assert (predicted[won] != data.y.numpy()[won]).all()
    assert (predicted == table["final"]).all()
    assert ((x >= 0) & (x <= 1)).all()
    change = (x.astype(np.float64) - clean).reshape(len(x), -1)
    size = (change != 0).sum(1) if p == 0 else np.linalg.norm(change, p, axis=1)
    assert (size <= space.eps * (1 + 1e-5)).all()  # type: ignore[attr-defined]
    assert (change[~won] == 0).all()


def test_wrong_from_the_start_is_a_success_of_nobody() -> None:
    data = blobs(small_net())
    report = du.evaluate(small_net(), data, space=du.Linf(1e-6), attack=du.PGD(3))
    wrong = (report.table["clean"] != report.table["y"]).to_numpy()
    assert wrong.sum() == 12
    assert (report.table["success"] == wrong).all()
    assert set(report.table.loc[wrong, "winner"]) == {"clean"}
    assert report.metric("clean").n == 120
    assert report.metric("success").n == 108
    assert report.metric("robust").value == report.metric("clean").value
    assert (report.table.loc[wrong, "forwards"] == 1).all()


def test_a_fixed_model_is_the_same_as_a_game_and_by_itself() -> None:
    net = small_net()
    data, space = blobs(net, 6), du.Linf(0.1)
    specs = [du.evaluate(t, data, space=space).spec for t in (net, du.Static(net))]
    assert specs[0].attack == specs[1].attack == to_dict(du.Standard(), whole=True)


def test_a_solved_row_costs_nothing_more() -> None:
    data = blobs(small_net())
    easy = du.evaluate(small_net(), data, space=du.Linf(0.9), attack=du.APGD(100))
    assert easy.metric("robust").value == 0
    assert easy.metric("backwards").value < 10


def test_budget_is_kept_to_the_query() -> None:
    data = blobs(small_net())
    report = du.evaluate(
        small_net(), data, space=du.Linf(0.01), attack=du.APGD(100), budget=Budget(forwards=9)
    )
    assert report.table["forwards"].max() == 9


def test_own_targets_stay_with_their_rows_when_rows_are_played_in_random_order() -> None:
    net, data = small_net(), blobs(small_net())
    shift = torch.randint(1, 4, data.y.shape, generator=torch.Generator().manual_seed(2))
    wanted = (data.y + shift) % 4
    report = du.evaluate(
        net,
        data,
        space=du.Linf(0.1),
        goal=du.Targeted(wanted.tolist()),
        attack=du.FGSM(),
        batch=20,
        run=du.Run(until=0.3),
    )
    asked = dict(zip(data.ids.tolist(), wanted.tolist(), strict=True))
    table = report.table
    assert 0 < len(table) < len(data)
    assert table["target"].tolist() == [asked[i] for i in table["id"]]


def test_goals_change_what_counts() -> None:
    net, data = small_net(), blobs(small_net())
    space, attack = du.Linf(0.2), du.APGD(30)
    results = {
        name: du.evaluate(net, data, space=space, goal=goal, attack=attack)
        for name, goal in {
            "any": du.Untargeted(),
            "one": du.Targeted(2),
            "each": du.Targeted([(int(y) + 1) % 4 for y in data.y]),
            "least": du.LeastLikely(),
            "group": du.Group({0: [1, 2], 1: [2]}),
        }.items()
    }
    won = {k: r.table["success"] for k, r in results.items()}
    for name, goal in {"one": du.Targeted(2), "group": du.Group({0: [1, 2], 1: [2]})}.items():
        mask = goal.targets(data.y, net(data.x).detach(), torch.arange(len(data)))
        final = torch.tensor(results[name].table["final"].to_numpy())
        landed = mask.gather(1, final[:, None])[:, 0].numpy()
        assert (landed == won[name].to_numpy()).all()
    assert won["any"].mean() >= won["each"].mean()
    skipped = results["group"].table["skipped"].to_numpy()
    assert ((skipped == "no target") == np.isin(data.y.numpy(), [2, 3])).all()
    assert results["group"].metric("robust").n == int(np.isin(data.y.numpy(), [0, 1]).sum())


def test_a_rejected_input_is_no_success() -> None:
    data = blobs(small_net())
    report = du.evaluate(
        small_net(), data, space=du.Linf(0.3), goal=du.Untargeted(reject=3), attack=du.APGD(30)
    )
    won = report.table[report.table["success"]]
    assert len(won) > 0
    assert (won["final"] != 3).all()


def test_two_classes_and_eight_features_run_through_everything() -> None:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(60, 8, generator=g) * 5 + 3
    net = torch.nn.Linear(8, 2)
    net.weight.data = torch.randn(2, 8, generator=g)
    y = net(x).argmax(1).detach()
    low, high = x.amin(0), x.amax(0)
    data = du.Dataset(x, y)
    for space in (du.Linf(1.0, low, high), du.L2(2.0, low, high), du.L1(4.0, low, high)):
        report = du.evaluate(net, data, space=space, seed=1)
        assert 0 < report.metric("robust").value < 1
        assert report.metric("valid").value == 1


def test_a_job_asks_once_what_game_its_target_is(monkeypatch):
    """Whatever is replaced on the way: evaluate, its further goals, and a gate play one `Job`."""
    net, data = du.testing.toy()
    asked, found = [], job.as_game
    monkeypatch.setattr(job, "as_game", lambda target: asked.append(target) or found(target))
    attack, space = du.PGD(2), du.Linf(0.1)
    du.evaluate(net, data, space=space, attack=attack, also=[du.Targeted(1)], progress=False)
    assert asked == [net]
    du.gate(du.Job(net, data, space, attack=attack), "robust >= 0.9", progress=False)
    assert asked == [net, net]
