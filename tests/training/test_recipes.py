"""Class weights, early stopping, rows held out, TRADES."""

import pytest
import torch
from torch.nn.functional import cross_entropy, kl_div

import durometer as du
from durometer.core.errors import DurometerError
from durometer.training import (
    TRADES,
    Adversarial,
    Batch,
    CraftBy,
    Free,
    Standard,
    accuracy,
    balanced,
    fit,
    fresh,
    holdout,
    recall,
)


def blobs(n=120, share=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = (torch.arange(n) < share * n).long()
    x = torch.randn(n, 4, generator=g, dtype=torch.float64) + y[:, None] * 1.2
    return du.Dataset(x.float() / 10 + 0.5, y)


def net(seed=0):
    parts = torch.nn.Linear, torch.nn.Tanh
    return fresh(lambda: torch.nn.Sequential(parts[0](4, 8), parts[1](), parts[0](8, 2)), seed)


def test_balanced_weights_find_the_rare_class():
    data = blobs(300, share=0.05)
    rare = data.where(y=1)
    recall = []
    for weights in (None, "balanced"):
        model = net()
        fit(model, data, Standard(weights), epochs=30, batch=50, rate=0.05)
        recall.append(accuracy(model, rare))
    assert recall[1] > recall[0] + 0.2


def test_balanced_is_one_minus_share_for_two_classes():
    a, b = balanced(torch.tensor([0] * 8 + [1] * 2), 2)
    assert b / a == pytest.approx(0.8 / 0.2)
    assert balanced(torch.tensor([0, 0]), 3) == (1 / 3, 0.0, 0.0)


@pytest.mark.parametrize("weights", ["balance", (1.0, 2.0, 3.0)])
def test_wrong_weights_are_named(weights):
    with pytest.raises(DurometerError, match="weights="):
        fit(net(), blobs(), Standard(weights), epochs=1)


def test_early_stopping_keeps_the_best_epoch_and_stops():
    scores = iter([0.1, 0.5, 0.3, 0.4, 0.2, 0.9])
    weights = []

    def select(model):
        weights.append(model[0].weight.detach().clone())
        return next(scores)

    model = net()
    history = fit(model, blobs(), Standard(), epochs=6, select=select, patience=3)
    assert [e.score for e in history] == [0.1, 0.5, 0.3, 0.4, 0.2]
    assert torch.equal(model[0].weight, weights[1])


def test_early_stopping_survives_an_interruption(tmp_path):
    table = [0.1, 0.5, 0.3, 0.4, 0.2, 0.9]

    def run(model, epochs, at):
        found = iter(table[at:])
        return fit(
            model, blobs(), Standard(), epochs=epochs, select=lambda _: next(found), patience=3,
            checkpoint=tmp_path / "c.pt",
        )  # fmt: skip

    run(net(), 4, 0)
    model = net(5)
    assert len(run(model, 6, 4)) == 5
    whole = net()
    scores = iter(table)
    fit(whole, blobs(), Standard(), epochs=6, select=lambda _: next(scores), patience=3)
    assert torch.equal(whole[0].weight, model[0].weight)


def test_patience_needs_a_score():
    with pytest.raises(DurometerError, match="patience=2"):
        fit(net(), blobs(), Standard(), epochs=1, patience=2)


def test_holdout_is_stratified_and_depends_on_ids_only():
    data = blobs(100, share=0.2)
    rest, held = holdout(data, 0.25, seed=3)
    assert len(rest) == 75
    assert int(held.y.sum()) == 5
    assert not set(rest.ids) & set(held.ids)
    mixed = data.take(torch.randperm(100, generator=torch.Generator().manual_seed(1)))
    assert set(holdout(mixed, 0.25, seed=3)[1].ids) == set(held.ids)
    with pytest.raises(DurometerError, match="share=2"):
        holdout(data, 2)
    with pytest.raises(DurometerError, match="empty"):
        holdout(data, 0.001)


def test_trades_is_the_published_sum():
    data, model = blobs(20), net()
    moved = []

    def craft(network, x, y, draw):
        assert not network.training
        assert torch.equal(y, network(x).argmax(1))  # the prediction, not the label
        moved.append(x + 0.05)
        return moved[-1]

    batch = Batch(data.x, data.y, torch.arange(20), data, torch.Generator().manual_seed(0))
    (loss,) = TRADES(craft, beta=2.0).losses(model, batch)
    clean, near = model(data.x), model(moved[0])
    expected = cross_entropy(clean, data.y) + 2.0 * kl_div(
        near.log_softmax(1), clean.softmax(1), reduction="batchmean"
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_trades_and_madry_are_more_robust_than_standard():
    data, space = blobs(400), du.Linf(0.06)
    craft = CraftBy(du.PGD(5), space)
    apart = []
    for recipe in (Standard(), Adversarial(craft), TRADES(craft, beta=6.0)):
        model = net()
        fit(model, data, recipe, epochs=15, batch=100, rate=0.05)
        report = du.evaluate(model, data, space=space, attack=du.PGD(20), progress=False)
        apart.append(report.metric("clean").value - report.metric("robust").value)
    assert apart[1] < apart[0] + 0.02
    assert apart[2] < apart[0]


def test_crafting_in_a_box_the_rows_lie_outside_of_is_refused():
    rows = 20_000 * torch.ones(4, 3)
    craft = CraftBy(du.PGD(2), du.Linf(0.1))
    with pytest.raises(du.DurometerError, match="outside the box"):
        craft(torch.nn.Linear(3, 2), rows, torch.zeros(4, dtype=torch.int64), 0)


def test_free_training_outside_its_box_is_refused():
    grey = du.Dataset(torch.rand(20, 3) * 255, torch.zeros(20, dtype=torch.int64))
    with pytest.raises(du.DurometerError, match="outside the box"):
        fit(torch.nn.Linear(3, 2), grey, Free(0.1), epochs=1, progress=False)


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (r"attack=PGD.*PGD\(\)", lambda: (du.PGD, du.Linf(0.1))),
        (r"PGD\(steps=0\)", lambda: (du.PGD(0), du.Linf(0.1))),
        (r"Graft\(population=0\).*at least 1", lambda: (du.Graft(population=0), du.Linf(0.1))),
        ("attack=|space=", lambda: (du.Linf(0.1), du.PGD(2))),
    ],
)
def test_what_crafts_is_checked_where_it_is_made(said, parts):
    with pytest.raises(du.DurometerError, match=said):
        CraftBy(*parts())


def test_recall_counts_a_rare_class_as_much_as_any():
    x = torch.tensor([[1.0, 0.0]] * 9 + [[0.0, 1.0]])
    data = du.Dataset(x, torch.tensor([0] * 9 + [1]))
    assert recall(torch.nn.Identity(), data) == accuracy(torch.nn.Identity(), data) == 1.0
    always = torch.nn.Linear(2, 2)
    with torch.no_grad():
        always.weight.zero_()
        always.bias.copy_(torch.tensor([1.0, 0.0]))
    assert accuracy(always, data) == pytest.approx(0.9)
    assert recall(always, data) == 0.5
