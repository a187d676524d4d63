"""One loop for every recipe: deterministic, resumable to the last bit, and quiet about the RNG."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

import durometer as du
from durometer.core.errors import DurometerError
from durometer.training import (
    Adversarial,
    CraftBy,
    DOATraining,
    Free,
    Group,
    Standard,
    accuracy,
    fit,
    fresh,
    search_kappa,
)


def images(n=48, classes=3, side=8):
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n) % classes
    x = torch.rand(n, 1, side, side, generator=g) * 0.5
    for c in range(classes):
        x[y == c, :, 2 * c : 2 * c + 2] += 0.4
    return du.Dataset(x, y, classes=tuple("abc")[:classes])


def make():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.1),
        torch.nn.Flatten(), torch.nn.Linear(144, 3),
    )  # fmt: skip


GOAL = du.Group({"a": ["b"]})
RECIPES = [
    Standard(),
    Free(eps=0.1, replays=2),
    Adversarial(CraftBy(du.PGD(2), du.Linf(0.1)), clean=0.5),
    DOATraining(0.4, du.DOA(2, step=0.2, stride=2, candidates=2)),
    Group(GOAL, du.Linf(0.1), replays=2),
    Group(GOAL, du.Patch("eyeglasses"), replays=2, step=0.2),
    Group(GOAL, du.Patch("eyeglasses"), attack=du.APGD(3)),
]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.values(), b.values(), strict=True))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: type(r).__name__)
def test_an_interrupted_run_continues_exactly(recipe, tmp_path):
    data, file = images(), tmp_path / "run.pt"
    whole = fresh(make, 1)
    history = fit(whole, data, recipe, epochs=3, batch=20, seed=5)
    part = fresh(make, 1)
    fit(part, data, recipe, epochs=2, batch=20, seed=5, checkpoint=file)
    again = fresh(make, 9)  # other weights: everything must come from the file
    resumed = fit(again, data, recipe, epochs=3, batch=20, seed=5, checkpoint=file)
    assert same(whole.state_dict(), again.state_dict())
    assert [e.loss for e in resumed] == [e.loss for e in history]
    other = fresh(make, 1)
    fit(other, data, recipe, epochs=3, batch=20, seed=6)
    assert not same(whole.state_dict(), other.state_dict())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: type(r).__name__)
def test_training_leaves_the_callers_random_state_alone(recipe):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    fit(fresh(make, 0), images(), recipe, epochs=1, batch=20)
    assert torch.equal(before, torch.random.get_rng_state())


def test_standard_training_learns():
    net = fresh(make, 0)
    history = fit(net, images(), Standard(), epochs=20, batch=16, rate=0.01)
    assert history[-1].loss < history[0].loss / 3
    assert accuracy(net, images()) > 0.95
    assert not net.training


def test_free_training_is_the_published_loop():
    """Against a plain rewrite: one backward pass gives the weights' step and the input's."""
    data = images(40)
    eps, replays = 0.1, 3
    ours = fresh(lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)), 2)
    plain = copy.deepcopy(ours)
    fit(ours, data, Free(eps, replays), epochs=2, batch=20, rate=0.01, seed=4)
    steps = torch.optim.Adam(plain.parameters(), lr=0.01)
    delta = torch.zeros(20, 1, 8, 8)
    for epoch in range(2):
        order = torch.randperm(40, generator=torch.Generator().manual_seed(4 * 1_000_003 + epoch))
        for rows in order.split(20):
            for _ in range(replays):
                x = (data.x[rows] + delta).clamp(0, 1).requires_grad_()
                loss = cross_entropy(plain(x), data.y[rows])
                steps.zero_grad()
                loss.backward()
                steps.step()
                delta = (delta + eps * x.grad.sign()).clamp(-eps, eps)
    assert same(ours.state_dict(), plain.state_dict())


def test_adversarial_training_helps_where_it_trains():
    data = images(90)
    nets = []
    for recipe in (Standard(), Adversarial(CraftBy(du.PGD(5), du.Linf(0.15)))):
        net = fresh(make, 0)
        fit(net, data, recipe, epochs=15, batch=30, rate=0.01)
        nets.append(net)
    robust = [
        du.evaluate(n, data, space=du.Linf(0.15), attack=du.PGD(20)).metric("robust").value
        for n in nets
    ]
    assert robust[1] > robust[0] + 0.1


def test_the_group_defence_keeps_attackers_off_the_targets():
    data, goal = images(90), du.Group({"a": ["b"]})
    space = du.Linf(0.2)
    plain, guarded = fresh(make, 0), fresh(make, 0)
    fit(plain, data, Standard(), epochs=15, batch=30, rate=0.01)
    recipe = Group(goal, space, replays=3, kappa=2.0)
    fit(guarded, data, recipe, epochs=15, batch=30, rate=0.01)
    rob = [
        du.evaluate(n, data, space=space, goal=goal, attack=du.PGD(20)).metric("robust").value
        for n in (plain, guarded)
    ]
    assert rob[1] > rob[0] + 0.2
    assert accuracy(guarded, data) > 0.9


def test_a_whole_attack_guards_a_patch_where_single_steps_do_not():
    """Any colour in a patch is far from the clean image: a few small steps never get there."""
    data, goal = images(90), du.Group({"a": ["b"]})
    space = du.Patch(torch.arange(8).lt(4)[:, None].expand(8, 8))
    rob = {}
    for name, recipe in (
        ("steps", Group(goal, space, replays=2, step=0.05, kappa=2.0)),
        ("attack", Group(goal, space, kappa=2.0, attack=du.PGD(10, loss="odds"))),
    ):
        net = fresh(make, 0)
        fit(net, data, recipe, epochs=15, batch=30, rate=0.01)
        report = du.evaluate(net, data, space=space, goal=goal, attack=du.PGD(20))
        rob[name] = report.metric("robust").value
    assert rob["attack"] > rob["steps"] + 0.2


def test_kappa_is_the_best_that_keeps_the_floor():
    robust = {0.5: (0.2, 0.9), 1.0: (0.6, 0.9), 2.0: (0.9, 0.5)}
    recipe = Group(GOAL, du.Linf(0.1))
    best, net = search_kappa(
        recipe, lambda r: r.kappa, lambda kappa: robust[kappa], [0.8], list(robust)
    )
    assert best == net == 1.0


def test_the_best_epoch_is_kept():
    net = fresh(make, 0)
    scores = iter([0.1, 0.9, 0.3])
    states = []

    def select(network):
        states.append(copy.deepcopy(network.state_dict()))
        return next(scores)

    fit(net, images(), Standard(), epochs=3, batch=16, select=select)
    assert same(net.state_dict(), states[1])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    fit(fresh(make), images(), Standard(), epochs=1, batch=16, checkpoint=tmp_path / "a.pt")
    with pytest.raises(DurometerError, match="another run"):
        fit(fresh(make), images(), Standard(), epochs=1, batch=8, checkpoint=tmp_path / "a.pt")
    with pytest.raises(DurometerError, match="no row"):
        fit(fresh(make), images(classes=3).where(y=["b", "c"]), Group(GOAL, du.Linf(0.1)), epochs=1)
