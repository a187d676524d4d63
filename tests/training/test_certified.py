"""Interval bounds: they hold at every point, and training by them proves more than before."""

import pytest
import torch

import durometer as du
from durometer.training.certified import lead


def net(seed=0):
    return du.training.fresh(
        lambda: torch.nn.Sequential(
            torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.Tanh(),
            torch.nn.Linear(8, 3),
        ).double(), seed,
    )  # fmt: skip


def test_no_point_of_the_box_gains_more_than_the_bound():
    model = net()
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(40, 3, generator=draw, dtype=torch.float64)
    y = torch.randint(3, (40,), generator=draw)
    clean = model(x)
    most = lead(model, x - 0.2, x + 0.2, y, clean) + clean - clean.gather(1, y[:, None])
    largest = torch.full_like(most, -torch.inf)
    for _ in range(300):
        z = model(x + 0.4 * (torch.rand(40, 3, generator=draw, dtype=torch.float64) - 0.5))
        largest = torch.maximum(largest, z - z.gather(1, y[:, None]))
    assert (largest <= most + 1e-12).all()
    assert (most - largest).median() < 1.0  # and it says something


def test_a_box_of_no_size_gives_the_clean_logits():
    model = net()
    x, y = torch.rand(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    assert torch.allclose(lead(model, x, x, y, model(x)), torch.zeros(5, 3, dtype=torch.float64))


def test_training_by_bounds_proves_more_rows():
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(400, 3, generator=draw, dtype=torch.float64)
    y = (x[:, 0] > 0.5).long() + (x[:, 1] > 0.9).long()
    data = du.Dataset(x, y)
    shares = []
    for recipe in (du.training.Standard(), du.training.Certified(du.Linf(0.05), steps=20)):
        model = net(3)
        du.training.fit(model, data, recipe, epochs=30, batch=64, rate=0.01)
        report = du.evaluate(
            model, data.head(150), space=du.Linf(0.05), attack=du.Bounds(), progress=False
        )
        shares.append(report.metric("proven").value)
    assert shares[1] > shares[0] + 0.03


def test_a_layer_without_bounds_is_named():
    with pytest.raises(du.Unsupported, match="Dropout"):
        x = torch.rand(2, 3, dtype=torch.float64)
        model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(3, 2).double())
        lead(model, x, x, torch.tensor([0, 1]), torch.zeros(2, 2))
