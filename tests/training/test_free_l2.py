"""Free adversarial training in L2, against the same loop by hand."""

import pytest
import torch

import durometer as du
from durometer.training import Free, fit, fresh


def test_the_perturbation_is_that_of_a_loop_by_hand():
    g = torch.Generator().manual_seed(0)
    x, y = torch.rand(12, 1, 3, 3, generator=g), torch.arange(12) % 2
    make = lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 2))  # noqa: E731
    ours, theirs = fresh(make, 1), fresh(make, 1)
    fit(ours, du.Dataset(x, y), Free(0.5, replays=3, p=2), epochs=1, batch=12, rate=0.01, seed=4)
    steps = torch.optim.Adam(theirs.parameters(), 0.01)
    delta = torch.zeros_like(x)
    for _ in range(3):
        point = (x + delta).clamp(0, 1).requires_grad_()
        steps.zero_grad()
        torch.nn.functional.cross_entropy(theirs(point), y).backward()
        steps.step()
        for i in range(12):
            moved = delta[i] + 0.5 * point.grad[i] / point.grad[i].norm()
            delta[i] = moved * min(1.0, 0.5 / float(moved.norm()))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    with pytest.raises(du.DurometerError, match="p=1"):
        Free(p=1)
