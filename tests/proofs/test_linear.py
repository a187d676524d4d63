"""Linear models in balls: closed forms against general solvers, and against attacks."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import durometer as du
from durometer.proofs.search.interval_max import interval_max

RNG = np.random.default_rng(1)


def solved(w, x, p, eps):
    """The highest w (z - x) for z in the ball and in [0, 1], by scipy."""
    d = len(w)
    if p == math.inf or p == 1:
        weights = np.eye(d) if p == math.inf else np.ones((1, d))
        most = np.full(len(weights), eps)
        both = np.hstack([weights, weights])
        ends = [*((0, 1 - v) for v in x), *((0, v) for v in x)]
        return -linprog(-np.concatenate([w, -w]), both, most, bounds=ends).fun
    inside = {"type": "ineq", "fun": lambda c: eps**2 - (c**2).sum(), "jac": lambda c: -2 * c}
    ends = [(-v, 1 - v) for v in x]
    return -minimize(lambda c: -w @ c, np.zeros(d), jac=lambda c: -w, bounds=ends,
                     constraints=[inside], options={"ftol": 1e-12, "maxiter": 300}).fun  # fmt: skip


@pytest.mark.parametrize(("p", "eps"), [(math.inf, 0.2), (2.0, 0.4), (1.0, 0.7)])
def test_the_highest_change_is_a_solver_s(p, eps):
    x, w = RNG.random((20, 6)), RNG.normal(size=(20, 6))
    x[::3, 0] = 1.0
    change = interval_max(*map(torch.from_numpy, (w, x)), torch.zeros(1, 6).double(),
                     torch.ones(1, 6).double(), p, torch.full((20, 1), eps).double())  # fmt: skip
    for k in range(20):
        assert w[k] @ change[k].numpy() == pytest.approx(solved(w[k], x[k], p, eps), abs=2e-6)


@pytest.mark.parametrize("space", [du.Linf(0.1), du.L2(0.15), du.L1(0.2), du.L0(1)], ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_every_row_is_decided_and_no_attack_finds_more(space, classes):
    x = RNG.random((300, 5))
    y = x[:, :classes].argmax(1)
    data = du.Dataset(torch.from_numpy(x[:60]), y[:60])
    for model in (LogisticRegression(C=50), RidgeClassifier()):
        model.fit(x, y)
        exact = du.evaluate(model, data, space=space, attack=du.Linear(), progress=False)
        assert exact.metric("open").value == 0
        assert (exact.table["verdict"] == "broken").any()
        assert space.p == 0 or (exact.table["verdict"] == "proven").any()
    net = torch.nn.Linear(5, classes)
    weight, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if classes == 2:
        weight, bias = np.concatenate([-weight, weight]), np.concatenate([-bias, bias])
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(weight))
        net.bias.copy_(torch.from_numpy(bias))
    both = du.evaluate(net, data, space=space, attack=du.Linear(), progress=False)
    attack = du.PGD(60, restarts=3) if space.p else du.Graft()
    alone = du.evaluate(net, data, space=space, attack=attack, progress=False)
    assert not (alone.table["success"] & (both.table["verdict"] == "proven")).any()
    assert both.table["success"].sum() >= alone.table["success"].sum()


def test_targets_are_never_proven_wrongly():
    x = RNG.random((80, 4))
    net = torch.nn.Linear(4, 5).double()
    y = net(torch.from_numpy(x)).argmax(1)
    data = du.Dataset(torch.from_numpy(x), y)
    report = du.evaluate(net, data, space=du.L2(0.4), goal=du.Targeted(2), attack=du.Linear())
    found = du.evaluate(net, data, space=du.L2(0.4), goal=du.Targeted(2), attack=du.PGD(80))
    assert not (found.table["success"] & (report.table["verdict"] == "proven")).any()
    assert (report.table["verdict"] == "proven").any()


def test_what_is_not_linear_is_refused():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    data = du.Dataset(torch.rand(4, 4), [0, 1, 0, 1])
    with pytest.raises(du.Unsupported, match="not a linear model"):
        du.evaluate(net, data, space=du.Linf(0.1), attack=du.Linear())
