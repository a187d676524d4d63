"""Rows whose gradients mislead are recognised by themselves, and get what they need."""

import math

import pytest
import torch

import durometer as du

SIDE = 12


def small(seed=0):
    """A network on images of 12 x 12 pixels, and images that it labels itself."""
    g = torch.Generator().manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(SIDE**2, 24), torch.nn.ReLU(), torch.nn.Linear(24, 5)
    )
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=g) * (0.3 if p.ndim > 1 else 0.1)
    return net.eval(), torch.rand(40, 1, SIDE, SIDE, generator=g)


def rippled(net):
    return lambda x: net((8 * x).round() / 8 + 2e-3 * torch.sin(60 * x))


def steps(net):
    """The same values as `rippled`, nearly; gradients are exactly 0."""
    return lambda x: net((8 * x).round() / 8 + 0 * x)


def scaled(factor):
    """Two linear scores whose gradient is said to be `factor` times what it is."""
    g = torch.Generator().manual_seed(3)
    w = torch.randn(SIDE**2, generator=g)

    def model(x):
        x = x.flatten(1)
        seen = factor * x + (1 - factor) * x.detach()
        score = (seen - 0.5) @ w.to(x.dtype) + 40.0
        return torch.stack([score, -score], 1)

    return model


def ask(model, x, space=None, attack=None, seed=0):
    with torch.no_grad():
        data = du.Dataset(x, model(x).argmax(1))
    return du.evaluate(
        model, data, space=space or du.Linf(0.1), attack=attack or du.Standard(proofs=False),
        progress=False, seed=seed,
    )  # fmt: skip


def flagged(report):
    return [f.text for f in report.flags if f.id == "misleading-gradients"]


@pytest.mark.parametrize("space", [du.Linf(0.06), du.L2(0.5)], ids=str)
def test_behind_a_ripple_the_default_leaves_what_the_published_search_leaves(space):
    net, x = small()
    found = ask(rippled(net), x, space)
    alone = ask(rippled(net), x, space, du.Square(5000))
    assert 2 < (~alone.table["success"]).sum() < 38
    assert (~found.table["success"]).sum() <= (~alone.table["success"]).sum() + 1
    assert flagged(found)


@pytest.mark.parametrize("space", [du.Linf(0.03), du.L2(0.3), du.L1(2.0)], ids=str)
def test_on_an_ordinary_network_no_row_is_flagged(space):
    net, x = small()
    report = ask(net, x, space)
    assert (~report.table["success"]).sum() > 5
    assert not flagged(report)
    assert not any("misled" in name for name in report.stages["stage"])


@pytest.mark.parametrize(("factor", "seen"), [(1 / 1.4, False), (1 / 1.6, True), (1.6, False)])
@pytest.mark.parametrize("space", [du.Linf(0.05), du.L2(0.2), du.L1(0.5)], ids=str)
def test_the_ratio_is_how_much_too_small_the_gradient_is(factor, seen, space):
    _, x = small()
    report = ask(scaled(factor), x[:6].double(), space, du.Cascade(3, queries=20))
    assert not report.table["success"].any()
    assert bool(flagged(report)) == seen
    if seen:
        assert "6 of the 6 rows" in flagged(report)[0] and "(100%)" in flagged(report)[0]


def test_gradients_that_are_exactly_0_are_recognised_and_their_rows_searched():
    net, x = small()
    found = ask(steps(net), x, du.Linf(0.06))
    alone = ask(steps(net), x, du.Linf(0.06), du.Square(5000))
    assert flagged(found)
    assert (~found.table["success"]).sum() <= (~alone.table["success"]).sum() + 1
    assert "Square, misled" in set(found.stages["stage"])


def test_a_row_is_judged_by_itself_alone():
    net, x = small()

    def model(z):  # ordinary rows and rippled ones in one batch, told apart by a corner pixel
        dark = (z[:, :, :1, :1] < 0.5).to(z.dtype)
        return torch.where(dark[:, :, 0, 0] > 0, net(z), rippled(net)(z))

    x = x[:12].clone()
    x[:, 0, 0, 0] = torch.tensor([0.1, 0.9]).repeat(6)
    y = model(x).argmax(1)
    how = {"space": du.Linf(0.02), "attack": du.Cascade(5, queries=40), "progress": False}
    together = du.evaluate(model, du.Dataset(x, y), **how)
    left = (~together.table["success"]).to_numpy()
    assert left[::2].any() and left[1::2].any()
    misled = 0
    for i in range(len(x)):
        one = du.Dataset(x[i : i + 1], y[i : i + 1], ids=[i])
        alone = du.evaluate(model, one, **how)
        assert not flagged(alone) or i % 2 == 1
        misled += bool(flagged(alone))
        for name in ("forwards", "backwards", "margin", "winner"):
            assert together.table[name][i] == alone.table[name][0] or name == "margin"
        assert together.table["margin"][i] == pytest.approx(alone.table["margin"][0], rel=1e-4)
    assert misled >= left[1::2].sum() > 0
    assert f"gradients mislead on {misled} of the" in flagged(together)[0]


def test_the_top_of_a_hill_does_not_mislead():
    """Two features: the best point is the top of a concave margin, where the gradient is 0."""

    def model(x):
        height = -1 - 4 * (x - 0.5).square().sum(1)
        return torch.stack([-height, height], 1)

    x = torch.full((5, 2), 0.48, dtype=torch.float64)
    report = ask(model, x, du.Linf(0.1), du.Cascade(20, queries=50))
    assert not report.table["success"].any() and not flagged(report)


def test_smoothed_gradients_follow_the_surface_under_a_ripple():
    """The mean gradient of a linear score under a strong sine wave tends to the linear one."""
    g = torch.Generator().manual_seed(1)
    w = torch.randn(SIDE**2, generator=g, dtype=torch.float64)

    def model(x):
        x = x.flatten(1)
        score = 100 + (x + 0.02 * torch.sin(300 * x)) @ w
        return torch.stack([-score, score], 1)

    x = torch.full((8, 1, SIDE, SIDE), 0.5, dtype=torch.float64)
    x = x + 0.01 * torch.rand(x.shape, generator=g, dtype=torch.float64)
    data = du.Dataset(x, [1] * 8)
    best = []
    for noise in (0.0, 0.5):
        attack = du.APGD(10, eot=8, noise=noise, loss="margin")
        report = du.evaluate(model, data, space=du.Linf(0.1), attack=attack, progress=False)
        best.append(report.table["margin"].mean())
    assert best[1] > best[0]


def test_noise_is_for_balls():
    _, x = small()
    with pytest.raises(du.Unsupported, match="noise"):
        ask(small()[0], x[:2], du.L0(3), du.APGD(3, noise=1.0))
    assert math.inf in du.APGD(noise=1.0).needs.norms


def test_a_budget_is_kept():
    net, x = small()
    with torch.no_grad():
        data = du.Dataset(x[:8], rippled(net)(x[:8]).argmax(1))
    budget = du.Budget(forwards=120)
    report = du.evaluate(
        rippled(net), data, space=du.Linf(0.01), attack=du.Cascade(5, queries=40),
        budget=budget, progress=False,
    )  # fmt: skip
    assert report.table["forwards"].max() <= 120
