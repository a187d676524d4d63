"""The published losses against plain formulas; finite also where ln(0) was published."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import durometer as du
from durometer.attacks.orders import minimal_differences
from durometer.training.group import mdtrain


def relu(v):
    return max(0.0, v)


@st.composite
def rows(draw):
    count = draw(st.integers(2, 6))
    z = [draw(st.integers(-20, 20)) / 4 for _ in range(count)]
    inside = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    if not any(inside) or all(inside):
        inside = [True] + [False] * (count - 1)
    return z, inside


@given(rows())
def test_losses_are_the_published_ones(case):
    z, inside = case
    logits = torch.tensor([z], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([inside])
    T = [t for t, m in enumerate(inside) if m]
    rest = [i for i, m in enumerate(inside) if not m]
    best = max(z[t] for t in T)
    assert du.losses.mdmax(logits, mask).item() == pytest.approx(
        -sum(relu(z[i] - best) for i in rest)
    )
    sums = [sum(relu(z[i] - z[t]) for i in rest) for t in T]
    value = du.losses.mdmul(logits, mask)
    if min(sums) > 0:
        assert value.item() == pytest.approx(-sum(math.log(s) for s in sums))
    else:
        assert value.isfinite().all()
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert grad.isfinite().all()
    for t in T:
        single = torch.zeros_like(mask)
        single[0, t] = True
        plain = sum(relu(v - z[t]) for v in z)
        assert du.losses.md(logits, single).item() == pytest.approx(-plain)
        assert minimal_differences(logits.detach())[0, t].item() == pytest.approx(plain)
    top = max(z[i] for i in rest)
    assert mdtrain(logits, mask).item() == pytest.approx(sum(relu(z[t] - top) for t in T))


@given(rows())
def test_losses_vanish_exactly_at_success(case):
    z, inside = case
    logits, mask = torch.tensor([z], dtype=torch.float64), torch.tensor([inside])
    best_in = max(v for v, m in zip(z, inside, strict=True) if m)
    best_out = max(v for v, m in zip(z, inside, strict=True) if not m)
    if best_in != best_out:  # at a tie the arg-max decides, the losses cannot
        assert (du.losses.mdmax(logits, mask).item() == 0) == (best_in > best_out)
        assert (mdtrain(logits, mask).item() == 0) == (best_in < best_out)


def test_mdmax_follows_one_target_odds_follow_all():
    logits = torch.tensor([[5.0, 1.0, 0.9, 0.0]], requires_grad=True)
    mask = torch.tensor([[False, True, True, False]])
    (one,) = torch.autograd.grad(du.losses.mdmax(logits, mask).sum(), logits)
    (all_of_them,) = torch.autograd.grad(du.losses.odds(logits, mask).sum(), logits)
    assert one[0, 2] == 0 and one[0, 1] > 0
    assert (all_of_them[0, 1:3] > 0).all()
    assert np.isclose(float(all_of_them[0, 1:3].sum()), 1.0)
