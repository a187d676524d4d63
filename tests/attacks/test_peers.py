"""Next to foolbox on a trained network: never less is found, up to one row in a hundred."""

from functools import cache

import foolbox
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import durometer as du

ROWS = 100


@cache
def digits():
    """A small network trained on 8 x 8 digits, and rows that it classifies correctly."""
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(y)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )
        optimiser = torch.optim.Adam(net.parameters(), 5e-3)
        for _ in range(150):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x[:1200]), y[:1200]).backward()
            optimiser.step()
    net.eval()
    right = (net(x[1200:]).argmax(1) == y[1200:]).nonzero()[:ROWS, 0] + 1200
    return net, x[right], y[right]


def robust_by_foolbox(attack, eps):
    net, x, y = digits()
    model = foolbox.PyTorchModel(net, bounds=(0, 1), device="cpu")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - foolbox draws from the global state
        _, _, success = attack(model, x, y, epsilons=eps)
    return 1 - float(success.float().mean())


def robust_by_durometer(attack, space, **more):
    net, x, y = digits()
    report = du.evaluate(net, du.Dataset(x, y), space=space, attack=attack, progress=False, **more)
    return 1 - report.table["success"].mean()


@pytest.mark.parametrize("eps", [0.06, 0.1])
def test_pgd_and_apgd_find_what_foolbox_pgd_finds_in_linf(eps):
    peer = robust_by_foolbox(foolbox.attacks.LinfPGD(steps=40), eps)
    assert 0.02 < peer < 0.98  # else nothing is compared
    assert robust_by_durometer(du.PGD(40), du.Linf(eps)) <= peer + 0.01
    assert robust_by_durometer(du.APGD(40), du.Linf(eps)) <= peer + 0.01
    assert robust_by_durometer(du.FAB(20), du.Linf(eps)) <= peer + 0.01


@pytest.mark.parametrize("eps", [0.4, 0.7])
def test_l2_attacks_find_what_foolbox_finds(eps):
    pgd = robust_by_foolbox(foolbox.attacks.L2PGD(steps=40), eps)
    carlini = robust_by_foolbox(
        foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=5, steps=150, stepsize=0.05), eps
    )
    assert 0.02 < pgd < 0.98
    assert robust_by_durometer(du.APGD(40), du.L2(eps)) <= pgd + 0.01
    ours = robust_by_durometer(du.CW(steps=150, searches=5, lr=0.05), du.L2(eps))
    assert ours <= min(pgd, carlini) + 0.01
    assert robust_by_durometer(du.FAB(20), du.L2(eps)) <= min(pgd, carlini) + 0.01


def test_l1_attacks_find_what_foolbox_finds():
    peer = robust_by_foolbox(foolbox.attacks.SparseL1DescentAttack(steps=40), 2.0)
    assert robust_by_durometer(du.APGD(40), du.L1(2.0)) <= peer + 0.01
    assert robust_by_durometer(du.FAB(20), du.L1(2.0)) <= peer + 0.01


def test_square_comes_near_the_gradient_attacks():
    strong = robust_by_durometer(du.APGD(40, loss="margin"), du.Linf(0.1))
    assert robust_by_durometer(du.Square(400), du.Linf(0.1)) <= strong + 0.05


@pytest.mark.parametrize("space", [du.Linf(0.06), du.L2(0.4)], ids=str)
def test_walks_that_fab_gives_up_would_not_have_arrived(space):
    net, x, y = digits()
    whole, pruned = (
        du.evaluate(net, du.Dataset(x, y), space=space, attack=du.FAB(60, targets=3, prune=prune),
                    progress=False).table
        for prune in (False, True)
    )  # fmt: skip
    assert pruned["success"].equals(whole["success"])
    assert pruned["backwards"].sum() < 0.7 * whole["backwards"].sum()
