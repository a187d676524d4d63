"""On a linear model the smallest successful change is known; attacks reach it, and nobody beats it.

Each row is moved along a line until its smallest flip is exactly eps / 1.02 (to be found) or
eps / 0.98 (not to be found). The smallest flip inside a box is worked out here, in numpy: for Linf
and L2 by bisection on the common size, for L1 greedily.
"""

import math
from functools import cache

import numpy as np
import pytest
import torch

import durometer as du

LOW, HIGH, ROWS = -1.0, 2.0, 30
EPS = {math.inf: 0.4, 2.0: 0.9, 1.0: 1.6}
SPACES = {math.inf: du.Linf, 2.0: du.L2, 1.0: du.L1}


def smallest_flip(x, w, b, p):
    """(n,): the p norm of the smallest change inside the box that brings w x + b to 0."""
    need = np.abs(x @ w + b)
    down = np.sign(x @ w + b)[:, None] * w > 0  # the feature has to fall
    room, a = np.where(down, x - LOW, HIGH - x), np.abs(w)
    if p == 1.0:
        order = np.argsort(-a)
        gain = (a * room)[:, order]
        before = np.cumsum(gain, axis=1) - gain
        part = np.clip(need[:, None] - before, 0, gain) / a[order]
        return np.where(gain.sum(1) >= need, part.sum(1), np.inf)
    lo, hi = np.zeros(len(x)), np.full(len(x), 100.0)
    rate = np.ones_like(a) if p == math.inf else a
    for _ in range(60):
        t = (lo + hi) / 2
        enough = (a * np.minimum(t[:, None] * rate, room)).sum(1) >= need
        lo, hi = np.where(enough, lo, t), np.where(enough, t, hi)
    size = np.linalg.norm(np.minimum(hi[:, None] * rate, room), p, axis=1)
    return np.where((a * room).sum(1) >= need, size, np.inf)


@cache
def linear_problem(features, p, ratio, seed=0):
    """A model and rows whose smallest flip is eps * ratio."""
    rng = np.random.default_rng(seed)
    w, b = rng.standard_normal(features) + 0.1, rng.standard_normal() * 0.3
    wanted = EPS[p] * ratio
    far = rng.uniform(LOW, HIGH, (40 * ROWS, features))
    corner = rng.random(far.shape) < 0.3
    far[corner] = rng.choice([LOW, HIGH], corner.sum())
    far = far[(smallest_flip(far, w, b, p) > wanted) & (np.abs(far @ w + b) > 0.1)]
    side = np.sign(far @ w + b)[:, None]
    other = np.where(side * w > 0, LOW, HIGH)  # the corner on the other side
    crosses = (side[:, 0] * (other @ w + b)) < 0
    far, other = far[crosses][:ROWS], other[crosses][:ROWS]
    assert len(far) == ROWS
    lo = np.zeros(ROWS)
    hi = (far @ w + b) / ((far - other) @ w)  # where the line crosses the boundary
    for _ in range(60):
        s = (lo + hi) / 2
        near = smallest_flip(far + s[:, None] * (other - far), w, b, p) < wanted
        lo, hi = np.where(near, lo, s), np.where(near, s, hi)
    x = far + lo[:, None] * (other - far)
    assert np.allclose(smallest_flip(x, w, b, p), wanted, rtol=1e-6)
    model = torch.nn.Linear(features, 2).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor(np.stack([-w, w]) / 2))
        model.bias.copy_(torch.tensor([-b, b]) / 2)
    y = (x @ w + b > 0).astype(int)
    return model, du.Dataset(x, y)


EVERYWHERE = [du.PGD(200, step=0.1), du.APGD(100), du.APGD(100, loss="margin"), du.FAB(30)]
CASES = [(a, p) for p in SPACES for a in (*EVERYWHERE, du.FAB(30, targets=None))]
CASES += [(du.Square(600), math.inf), (du.CW(steps=1000, searches=6, c=0.3), 2.0)]


@pytest.mark.parametrize(("attack", "p"), CASES, ids=str)
def test_reaches_the_optimum_and_claims_nothing_below_it(attack, p):
    for ratio, expected in ((1 / 1.02, 1.0), (1 / 0.98, 0.0)):
        model, data = linear_problem(8, p, ratio)
        space = SPACES[p](EPS[p], LOW, HIGH)
        report = du.evaluate(model, data, space=space, attack=attack, progress=False)
        assert report.table["success"].mean() == expected


@pytest.mark.parametrize(("p", "slack"), [(2.0, 1.15), (1.0, 1.4)])
def test_square_comes_near_the_optimum_in_l2_and_l1(p, slack):
    """A random search on the sphere is no gradient method, but it must not be far off either."""
    model, data = linear_problem(8, p, 1 / slack)
    report = du.evaluate(model, data, space=SPACES[p](EPS[p], LOW, HIGH), attack=du.Square(1500),
                         progress=False)  # fmt: skip
    assert report.table["success"].mean() >= 0.9


def test_minimal_attacks_find_the_minimal_change():
    """Distance of what FAB and CW hand in, in a region far larger than needed."""
    model, data = linear_problem(8, 2.0, 1.0)
    x = data.x.numpy()
    w = (model.weight[1] - model.weight[0]).detach().numpy()
    best = smallest_flip(x, w, float(model.bias[1] - model.bias[0]), 2.0)
    report = du.evaluate(model, data, space=du.L2(1.03 * best.max(), LOW, HIGH),
                         attack=du.FAB(50), progress=False)  # fmt: skip
    assert report.table["success"].all()
    assert (report.table["distance"].to_numpy() >= best * (1 - 1e-6)).all()


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("shape", [(8,), (1, 4, 4), (5, 3)], ids=str)
@pytest.mark.parametrize("p", list(SPACES), ids=str)
def test_the_standard_ensemble_runs_for_any_class_count_and_shape(classes, shape, p):
    generator = torch.Generator().manual_seed(classes)
    features = math.prod(shape)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(features, classes))
    with torch.no_grad():
        net[1].weight.copy_(torch.randn(classes, features, generator=generator))
        net[1].bias.zero_()
    x = torch.rand(12, *shape, generator=generator)
    data = du.Dataset(x, net(x).argmax(1))
    space = SPACES[p]({1.0: 6.0, 2.0: 2.0, math.inf: 1.0}[p])
    for ensemble in (du.Cascade(5, 3, 20), du.AutoAttack(5, 3, 20)):
        report = du.evaluate(net, data, space=space, attack=ensemble, progress=False)
        assert report.table["success"].mean() > 0.5
        assert report.table["valid"].all()
