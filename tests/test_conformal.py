"""Prediction sets: coverage at attacked points by simulation; bounds beside attacks of our own."""

import pytest
import torch
from torch import nn

import durometer as du

EPS, ALPHA = 0.05, 0.2


def blobs(n, seed):
    """Three classes in the plane that overlap; exchangeable rows."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=draw)
    centre = torch.tensor([[0.35, 0.35], [0.65, 0.35], [0.5, 0.65]])
    x = centre[y] + 0.09 * torch.randn(n, 2, generator=draw)
    return x.clamp(0, 1), y


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)
    )
    x, y = blobs(400, 0)
    steps = torch.optim.SGD(made.parameters(), lr=0.5, momentum=0.9)
    for _ in range(150):
        steps.zero_grad()
        nn.functional.cross_entropy(made(x), y).backward()
        steps.step()
    return made.eval().requires_grad_(False)


def attacked(net, x, y):
    """Where the best other class leads most, by signs of gradients: nothing of the package."""
    best, most = x.clone(), torch.full((len(x),), -torch.inf)
    for k in range(12):
        z = best.clone().requires_grad_()
        if k % 4 == 0:
            move = 2 * torch.rand(x.shape, generator=torch.Generator().manual_seed(k)) - 1
            z = (x + EPS * move).clamp(0, 1).requires_grad_()
        lead = net(z)
        lead = (lead - lead.gather(1, y[:, None])).scatter(1, y[:, None], -torch.inf).amax(1)
        (slope,) = torch.autograd.grad(lead.sum(), z)
        z = (x + (z.detach() + EPS * slope.sign() - x).clamp(-EPS, EPS)).clamp(0, 1)
        lead = net(z)
        lead = (lead - lead.gather(1, y[:, None])).scatter(1, y[:, None], -torch.inf).amax(1)
        better = lead > most
        best, most = torch.where(better[:, None], z, best), torch.where(better, lead, most)
    return best


@pytest.mark.parametrize("robust", ["calibration", "inference"])
def test_sets_hold_the_true_class_of_attacked_rows_at_the_rate_asked_for(net, robust):
    """Over 40 draws of calibration and test rows; sets without bounds fall short."""
    hits, plain, rows = 0.0, 0.0, 0
    model = du.wrap(net)  # read once
    for seed in range(1, 41):
        x, y = blobs(60, seed)
        data = du.Dataset(x[:40], y[:40])
        bad = attacked(net, x[40:], y[40:])
        space = du.Linf(EPS)
        sets = du.conformal_sets(model, data, space, ALPHA, robust)
        hits += float(sets(bad).gather(1, y[40:, None]).sum())
        simple = du.conformal_sets(model, data, space, ALPHA, "no")
        plain += float(simple(bad).gather(1, y[40:, None]).sum())
        rows += 20
    assert hits / rows >= 1 - ALPHA
    assert plain / rows < 1 - ALPHA - 0.05


def test_calibration_bounds_lie_above_every_attack(net):
    x, y = blobs(50, 99)
    data = du.Dataset(x, y)
    high = du.conformal_sets(net, data, du.Linf(EPS), 0.02, "calibration")
    bad = net(attacked(net, x, y)).double()
    lead = (bad - bad.gather(1, y[:, None])).scatter(1, y[:, None], -torch.inf).amax(1)
    assert high.threshold >= lead.max()  # alpha so small that the largest of 50 is taken


def test_sets_at_inference_hold_the_sets_of_every_point_near(net):
    """A class that a clean set near by would hold is held."""
    x, y = blobs(40, 5)
    data = du.Dataset(x, y)
    wide = du.conformal_sets(net, data, du.Linf(EPS), ALPHA, "inference")
    plain = du.conformal_sets(net, data, du.Linf(EPS), ALPHA, "no")
    assert wide.threshold == plain.threshold
    held = wide(x)
    for k in range(50):
        move = 2 * torch.rand(x.shape, generator=torch.Generator().manual_seed(k)) - 1
        assert not (plain((x + EPS * move).clamp(0, 1)) & ~held).any()


def test_too_few_calibration_rows_give_full_sets(net):
    x, y = blobs(5, 1)
    sets = du.conformal_sets(net, du.Dataset(x, y), du.Linf(EPS), 0.1)
    assert sets(x).all()
    assert sets.summary(du.Dataset(x, y)).coverage.value == 1


def test_what_has_no_bounds_or_no_ball_is_refused(net):
    x, y = blobs(30, 1)
    data = du.Dataset(x, y)
    with pytest.raises(du.Unsupported, match="softmax"):
        du.conformal_sets(nn.Sequential(net, nn.Softmax(1)), data, du.Linf(EPS))
    with pytest.raises(du.DurometerError, match="alpha"):
        du.conformal_sets(net, data, du.Linf(EPS), 1.5)
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "ab"])
    table = du.Dataset(x.double(), y, schema=schema)
    with pytest.raises(du.Unsupported, match="ball"):
        du.conformal_sets(net, table, schema.space(eps=0.1), robust="inference")
