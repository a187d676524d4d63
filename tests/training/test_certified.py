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


def image_net():
    torch.manual_seed(7)
    made = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, stride=2, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2), torch.nn.LeakyReLU(0.1),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 3),
    ).double()  # fmt: skip
    with torch.no_grad():
        made[1].weight.copy_(torch.tensor([1.0, -2.0, 0.5, 1.5]))
        made[1].running_mean.normal_()
    return made


@pytest.mark.parametrize("training", [False, True])
def test_no_point_of_a_box_of_images_gains_more_than_the_bound(training):
    """In training mode statistics are the clean rows', so points are asked with those."""
    model = image_net().train(training)
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(8, 1, 8, 8, generator=draw, dtype=torch.float64)
    y = torch.randint(3, (8,), generator=draw)
    most = lead(model, x - 0.1, x + 0.1, y, torch.zeros(8, 3).double(), x)
    if training:  # the same normalisation by its own means
        first = model[0](x).detach()
        model[1].running_mean.copy_(first.mean((0, 2, 3)))
        model[1].running_var.copy_(first.var((0, 2, 3), correction=0))
    model.eval()
    largest = torch.full_like(most, -torch.inf)
    for k in range(400):
        move = 2 * torch.rand(8, 1, 8, 8, generator=draw, dtype=torch.float64) - 1
        z = model(x + 0.1 * (move.sign() if k % 2 else move)).detach()
        largest = torch.maximum(largest, z - z.gather(1, y[:, None]))
    assert (largest <= most + 1e-9).all()


def test_attacked_rows_are_the_other_part_of_the_loss():
    data = du.datasets.mnist().train.take(slice(256))
    make = lambda: torch.nn.Sequential(  # noqa: E731
        torch.nn.Conv2d(1, 4, 4, stride=4), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(196, 10),
    )  # fmt: skip
    space = du.Linf(0.05)
    craft = du.training.CraftBy(du.PGD(2), space)
    nets = []
    for options in ({}, {"craft": craft}, {"craft": craft, "kappa": 0.0}):
        net = du.training.fresh(make)
        recipe = du.training.Certified(space, steps=4, **options)
        du.training.fit(net, data, recipe, epochs=2, batch=64)
        nets.append(net[0].weight.detach())
    assert not torch.equal(nets[0], nets[1]) and not torch.equal(nets[1], nets[2])
    plain = du.training.fresh(make)
    du.training.fit(plain, data, du.training.Adversarial(craft), epochs=2, batch=64)
    assert torch.allclose(plain[0].weight, nets[2], atol=1e-6)  # no weight on the worst case


def test_harden_tries_weights_of_the_worst_case_and_gives_back_what_is_proven_most():
    draw = torch.Generator().manual_seed(1)
    x = torch.rand(300, 3, generator=draw, dtype=torch.float64)
    data, model = du.Dataset(x, (x[:, 0] > 0.5).long()), net(3)
    du.training.fit(model, data, du.training.Standard(), epochs=5, batch=64, rate=0.01)
    hardened = du.training.harden(
        model, data, du.Linf(0.1), rounds=2, most=2, judged=12, max_loss=1.0, free=(0.25,),
        epochs=5, progress=False,
    )  # fmt: skip
    assert [step.free for step in hardened.path[:2]] == [1.0, 0.25]
    assert hardened.path[hardened.chosen].proven == max(step.proven for step in hardened.path)
    first, second = (m.state_dict() for m in hardened.models[:2])
    assert any(not torch.equal(first[k], second[k]) for k in first)
