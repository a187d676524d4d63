"""A model on an accelerator, data from numpy: nothing mixed, little moved, hardly ever waited.

The accelerator is a fake one (tests/toys/accelerator.py): it refuses mixed operations and double
precision, and counts. What an attack costs *per step* is the difference of a long and a short run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.toys.accelerator import Accelerator, MixedPlaces, Remote, placed
from torch import nn

import durometer as du
from durometer.problem.problem import Problem
from durometer.training import CraftBy, fresh

ROWS = 12


def network(double: bool = False) -> nn.Module:
    net = fresh(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)
        ),
        0,
    )
    return net.double() if double else net


def pictures(dtype: Any = np.float32) -> du.Dataset:
    x = np.random.default_rng(0).random((ROWS, 1, 6, 6)).astype(np.float32)
    x = (x * 255).round() / np.float32(255)
    with torch.no_grad():
        y = network()(torch.from_numpy(x)).argmax(1).numpy()
    return du.Dataset(x.astype(dtype), y)


def played(device: Accelerator, attack: Any, space: Any, data: Any, net: Any = None) -> Any:
    """The records, with the device's counters at what the game itself has cost."""
    model = placed(network() if net is None else net)
    game, _ = du.Static(model).prepare(data, space, du.Untargeted(), attack)
    device.reset()
    (records,) = game.play(data, space, du.Untargeted(), attack, 0)
    return records


LINF, L2, L1 = du.Linf(0.05), du.L2(0.3), du.L1(1.0)
HALF = du.Patch(np.triu(np.ones((6, 6))))
CASES = {
    "PGD Linf": (du.PGD(4), LINF),
    "PGD L2": (du.PGD(4), L2),
    "PGD L1": (du.PGD(4), L1),
    "PGD L0": (du.PGD(4), du.L0(3)),
    "FGSM": (du.FGSM(), LINF),
    "APGD Linf": (du.APGD(4, loss="dlr"), LINF),
    "APGD L2": (du.APGD(4), L2),
    "APGD L1": (du.APGD(4), L1),
    "FAB Linf": (du.FAB(4, targets=2), LINF),
    "FAB L2, all classes": (du.FAB(3, targets=None, restarts=2), L2),
    "FAB L1": (du.FAB(4, targets=1), L1),
    "Square Linf": (du.Square(20, prune=True), LINF),
    "Square L2": (du.Square(20), L2),
    "Square L1": (du.Square(20), L1),
    "CW": (du.CW(6, searches=2), L2),
    "Patch": (du.PGD(3, step=0.02), HALF),
    "Eyeglasses": (du.Eyeglasses(3), HALF),
    "Rectangle": (du.PGD(3), du.Rectangle(2, 2)),
    "DOA": (du.DOA(3, stride=2, candidates=3), du.Rectangle(2, 2)),
    "Quantised": (du.APGD(4), du.Quantised(LINF)),
    "Quantised L2": (du.APGD(4), du.Quantised(L2)),
    "Guess": (du.Guess(du.APGD(3), mode="worst", most=2), LINF),
    "MALT": (du.Guess(du.APGD(3), most=2, order=du.orders.ByDistance()), LINF),
    "by chance": (du.Guess(du.PGD(3), most=2, order=du.orders.ByChance()), LINF),
    "Escalation": (du.Escalation(3), LINF),
    "Cascade": (du.Cascade(3, queries=12), LINF),
    "AutoAttack": (du.AutoAttack(2, queries=5), L2),
    "Worst": (du.Worst(du.FGSM(), du.PGD(3)), LINF),
    "Restarts": (du.Restarts(du.PGD(3), 2), LINF),
    "Confident": (du.Confident(du.PGD(3), restarts=1, targets=1), LINF),
    "CPGD": (du.CPGD(3, step=0.4), LINF),
    "CAPGD": (du.CAPGD(3), LINF),
    "LowProFool": (du.LowProFool(5, step=0.1), LINF),
    "MOEVA": (du.MOEVA(generations=2, population=6, offspring=4), LINF),
    "Graft": (du.Graft(40), LINF),
    "BFS": (du.BFS(2), LINF),
    "Bounds": (du.Bounds(splits=1), du.Linf(0.002)),
    "Standard": (du.Standard(), du.Linf(0.005)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_attack_in_every_space_stays_on_one_device_and_agrees_with_the_host(
    name: str,
) -> None:
    attack, space = CASES[name]
    data = pictures()
    host, _ = du.Static(network()).prepare(data, space, du.Untargeted(), attack)
    (expected,) = host.play(data, space, du.Untargeted(), attack, 0)
    with Accelerator() as device:
        got = played(device, attack, space, data)
    assert device.operations
    assert got.columns["valid"].all()  # measured on the host, in double precision
    broken, proven = (
        [(r.columns["verdict"] == kind).sum() for r in (got, expected)]
        for kind in ("broken", "proven")
    )
    assert abs(broken[0] - broken[1]) <= 1  # random starts have fewer digits there
    assert proven[0] == proven[1]


def per_step(short: tuple[Any, int], long: tuple[Any, int], space: Any) -> list[float]:
    """Transfers up, transfers down and waits that one more step costs."""
    costs = []
    for attack, _ in (short, long):
        with Accelerator() as device:
            played(device, attack, space, pictures())
        costs.append(np.array([device.up, device.down, device.syncs]))
    return list((costs[1] - costs[0]) / (long[1] - short[1]))


@pytest.mark.parametrize(
    ("make", "space", "calls"),
    [
        (lambda k: du.PGD(k), du.Linf(0.001), 1),
        (lambda k: du.PGD(k), du.L1(0.01), 1),
        (lambda k: du.APGD(k), du.Linf(0.001), 1),
        (lambda k: du.APGD(k), du.L2(0.005), 1),
        (lambda k: du.APGD(k), du.L1(0.01), 1),
        (lambda k: du.APGD(k), du.Quantised(du.Linf(0.004)), 1),
        (lambda k: du.FAB(k, targets=1, prune=False), du.Linf(0.001), 2),
        (lambda k: du.Square(k), du.Linf(0.001), 1),
        (lambda k: du.Square(k), du.L2(0.005), 1),
        (lambda k: du.CW(k, searches=1, early_abort=False), du.L2(0.005), 1),
    ],
)
def test_a_step_moves_nothing_and_waits_once_for_each_call_of_the_model(
    make: Any, space: Any, calls: int
) -> None:
    up, down, syncs = per_step((make(4), 4), (make(8), 8), space)
    assert (up, down) == (0, 0)
    assert 0 < syncs <= calls + 0.2


def test_all_in_all_a_gradient_costs_less_than_one_transfer_each_way() -> None:
    with Accelerator() as device:
        records = played(device, du.PGD(20), du.Linf(0.001), pictures())
    queries = records.columns["backwards"].max()
    assert queries == 20
    assert device.up <= queries and device.down <= queries
    assert device.syncs <= 2 * queries


@pytest.mark.parametrize("make", [lambda k: du.PGD(k), lambda k: du.Square(k)])
def test_double_precision_stays_on_the_host_and_crosses_once_each_way_per_query(make: Any) -> None:
    data, costs = pictures(np.float64), []
    for steps in (5, 10):
        with Accelerator() as device:
            played(device, make(steps), du.Linf(0.001), data)
        costs.append(np.array([device.up, device.down]))
    assert ((costs[1] - costs[0]) / 5 == 1).all()


def table() -> tuple[nn.Module, du.Dataset, Any]:
    schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(4)], ["f0 + f1 <= 2"])
    x = np.random.default_rng(0).random((ROWS, 4))
    net = fresh(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), 0)
    with torch.no_grad():
        y = net(torch.from_numpy(x).float()).argmax(1).numpy()
    return net, du.Dataset(x, y, schema=schema), schema.space(eps=0.05)


def test_a_table_is_searched_on_the_host_and_its_gradients_cross_once_each_way() -> None:
    costs, found = [], []
    for steps in (10, 20):
        net, data, space = table()
        (expected,) = (
            du.Static(net)
            .prepare(data, space, du.Untargeted(), du.CAPGD(steps))[0]
            .play(data, space, du.Untargeted(), du.CAPGD(steps), 0)
        )
        with Accelerator() as device:
            got = played(device, du.CAPGD(steps, random=False), space, data, net)
        costs.append(np.array([device.up, device.down]))
        found.append((got.columns["success"], expected.columns["success"]))
    assert ((costs[1] - costs[0]) / 10 <= 1).all()
    assert all((a <= b).all() for a, b in found)  # one start of its two


def test_the_standard_of_a_table_runs_with_its_model_on_an_accelerator() -> None:
    net, data, space = table()
    with Accelerator() as device:
        records = played(device, du.Standard(0.1), space, data, net)
    assert set(records.columns["verdict"]) <= {"broken", "proven", "open"}


def test_the_whole_verb_runs_and_reports_as_on_the_host() -> None:
    goal = du.Group({c: [(c + 1) % 5] for c in range(5)})
    kinds = {"space": LINF, "attack": du.Escalation(5), "goal": goal, "progress": False}
    expected = du.evaluate(network(), pictures(), **kinds)
    with Accelerator():
        report = du.evaluate(placed(network()), pictures(), **kinds)
    assert report.metric("robust").value == expected.metric("robust").value
    assert list(report.table["winner"]) == list(expected.table["winner"])


@pytest.mark.parametrize("attack", [du.PGD(2), du.GMSA(du.PGD(2), iterations=1)])
def test_a_defender_adapts_where_its_network_is(attack: Any) -> None:
    def normalised() -> nn.Module:
        parts = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*parts, nn.Linear(4 * 36, 5)).eval()

    def robust(net: nn.Module) -> float:
        game = du.Transductive(du.defenses.DENT(net, steps=1), batch=6)
        report = du.evaluate(game, pictures(), space=LINF, attack=attack, progress=False)
        return float(report.metric("robust").value)

    expected = robust(fresh(normalised, 0))
    with Accelerator():
        assert abs(robust(placed(fresh(normalised, 0))) - expected) <= 1.01 / ROWS


def test_adversarial_training_works_where_the_network_is() -> None:
    with Accelerator():
        net = placed(network())
        x = torch.from_numpy(pictures().x.numpy()).to(Accelerator.place)
        y = torch.from_numpy(pictures().y.numpy()).to(Accelerator.place)
        crafted = CraftBy(du.PGD(2), du.Linf(0.1))(net, x, y, 0)
        assert isinstance(crafted, Remote)
        assert float((crafted - x).abs().max()) <= 0.1 + 1e-6


def test_a_problem_lent_to_the_host_comes_back_with_what_was_found() -> None:
    found: list[Any] = []

    class Lent:
        """Breaks nothing, proves the first row, draws once; then says where it was."""

        cpu_only = True
        needs = du.extend.Needs(is_proof=True)

        def __call__(self, problem: Problem) -> None:
            problem.random.uniform(problem.open, 1)
            problem.prove(problem.open[:1])
            found.append(problem.y.device.type)

    with Accelerator() as device:
        records = played(device, du.Then(Lent(), du.PGD(2)), du.Linf(0.001), pictures())
    assert found == ["cpu"]
    assert list(records.columns["verdict"]) == ["proven"] + ["open"] * (ROWS - 1)
    assert list(records.columns["backwards"]) == [0] + [2] * (ROWS - 1)


def test_the_fake_refuses_what_an_accelerator_refuses_and_counts_what_it_waits_for() -> None:
    with Accelerator() as device:
        there = torch.arange(4.0).to(device.place)
        with pytest.raises(MixedPlaces, match="host"):
            there + torch.arange(4.0)
        with pytest.raises(TypeError, match="no float64"):
            there.double()
        device.reset()
        assert bool((there > 1).any()) and there[there > 1].tolist() == [2.0, 3.0]
        assert (device.up, device.down, device.syncs) == (0, 1, 3)
        there[there > 1] = 0.0  # a fill needs no answer
        assert device.syncs == 3
        assert there.cpu().tolist() == [0.0, 1.0, 0.0, 0.0]
