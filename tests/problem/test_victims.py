"""Several models attacked at once: values and gradients of the formula, however computed."""

import pytest
import torch
from torch import nn

from durometer import losses
from durometer.core.errors import DurometerError
from durometer.core.streams import derive
from durometer.model.classifier import Classifier, wrap
from durometer.problem.victims import Victims


def dense():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 2),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def models(build, count):
    torch.manual_seed(0)
    return tuple(wrap(build().eval().requires_grad_(False)) for _ in range(count))


def brute(victims, x, targets):
    """The definition, by plain autograd over all models at once."""
    x = x.clone().requires_grad_()
    values = torch.stack([losses.ce(m.logits(x), targets) for m in victims.models])
    value = values.mean(0) if victims.combine == "mean" else values.amin(0)
    return value.detach(), torch.autograd.grad(value.sum(), x)[0]


@pytest.mark.parametrize("combine", ["mean", "min"])
@pytest.mark.parametrize("build", [dense, convolutional])
@pytest.mark.parametrize("count, n", [(1, 5), (2, 5), (4, 5), (4, 20)])
def test_values_and_gradients_are_those_of_the_formula(combine, build, count, n):
    victims = Victims(models(build, count), combine)
    x = torch.rand(n, 6, generator=torch.Generator().manual_seed(1))
    targets = torch.ones(n, 3, dtype=torch.bool).scatter_(1, torch.arange(n)[:, None] % 3, False)
    value, grad = brute(victims, x, targets)
    point = x.clone().requires_grad_()
    logits, got = victims.look(point, torch.arange(n), losses.ce, targets)
    (slope,) = torch.autograd.grad(got.sum(), point)
    torch.testing.assert_close(got.detach(), value)
    torch.testing.assert_close(slope, grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        again, forward = victims.look(x, torch.arange(n), losses.ce, targets)
        each = torch.stack([losses.margin(m.logits(x), targets) for m in victims.models])
    torch.testing.assert_close(forward, value)
    torch.testing.assert_close(losses.margin(logits, targets), each.amin(0))
    torch.testing.assert_close(again, logits)


def test_vectorised_and_sequential_agree():
    victims = Victims(models(dense, 5))
    x = torch.rand(7, 6)
    assert victims._vectorised(7)
    alone = torch.stack([m.logits(x) for m in victims.models])
    torch.testing.assert_close(victims.logits(x, torch.arange(7)), alone)


def test_models_that_are_not_alike_are_asked_one_by_one():
    victims = Victims((*models(dense, 2), *models(convolutional, 2)))
    assert victims._stacked is None
    assert victims.logits(torch.rand(4, 6), torch.arange(4)).shape == (4, 4, 3)


def test_a_bound_classifier_gets_the_places_of_its_rows():
    offset = torch.tensor([[0.0, 1.0], [5.0, -5.0], [2.0, 2.0]])
    bound = Classifier(lambda x, rows: x + offset[rows], "bound", True, bound=True)
    x = torch.zeros(2, 2)
    assert bound.logits(x, torch.tensor([2, 0])).tolist() == [[2.0, 2.0], [0.0, 1.0]]
    assert bound.logits(x).tolist() == offset[:2].tolist()  # no places given: the first rows
    targets = torch.tensor([[False, True]] * 2)
    point = x.clone().requires_grad_()
    _, value = Victims((bound, bound), "min").look(
        point, torch.tensor([1, 0]), losses.margin, targets
    )
    assert value.tolist() == [-10.0, 1.0]


def test_refusals():
    with pytest.raises(DurometerError, match="combine='max'"):
        Victims(models(dense, 1), "max")
    with pytest.raises(DurometerError, match="no model"):
        Victims(())


def test_seeds_for_different_purposes_differ():
    seeds = {
        derive(s, who, k) for s in range(3) for who in ("referee", "attacker") for k in range(9)
    }
    assert len(seeds) == 54
    assert derive(1, "a") == derive(1, "a")
    assert max(seeds) * 1_000_003 < 2**63
