"""Losses against their formulas, written row by row in numpy from the papers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from durometer import losses
from durometer.core.errors import DurometerError, Unsupported


def outside_of(row, mask):
    return [v for v, inside in zip(row, mask, strict=True) if not inside]


def inside_of(row, mask):
    return [v for v, inside in zip(row, mask, strict=True) if inside]


def by_hand(name, row, mask):
    out, ins = outside_of(row, mask), inside_of(row, mask)
    if name == "ce":
        p = np.exp(row) / np.exp(row).sum()
        return -np.log(sum(outside_of(p, mask)))
    if name == "odds":
        return np.log(np.exp(ins).sum()) - np.log(np.exp(out).sum())
    if name == "lse":
        return np.log(np.exp(ins).sum()) - max(out)
    if name == "margin":
        return max(ins) - max(out)
    if name == "dlr":
        z = sorted(row, reverse=True)
        third = (z[2] + z[3]) / 2 if len(ins) == 1 else z[2]
        return (max(ins) - max(out)) / (z[0] - third + 1e-12)
    if name == "md":
        return -sum(max(v - ins[0], 0) for v in row)
    if name == "mdmax":
        return -sum(max(v - max(ins), 0) for v in out)
    if name == "pm":
        p = np.exp(row) / np.exp(row).sum()
        return np.log(1 + max(inside_of(p, mask)) - max(outside_of(p, mask)))
    if name == "mdmul":
        return -sum(np.log(max(sum(max(v - t, 0) for v in out), 1e-12)) for t in ins)
    raise ValueError(name)


@st.composite
def rows_and_masks(draw, single=False):
    classes = draw(st.integers(4, 7))
    row = draw(st.lists(st.floats(-8, 8), min_size=classes, max_size=classes, unique=True))
    count = 1 if single else draw(st.integers(1, classes - 1))
    chosen = draw(st.permutations(range(classes)))[:count]
    return np.array(row), np.isin(np.arange(classes), chosen)


# A new loss comes here by itself, and wants its formula in `by_hand`. md has one target and its own
# test; confidence ranks candidates.
EVERY = [name for name in losses.LOSSES if name not in ("md", "confidence")]


@pytest.mark.parametrize("name", EVERY)
@given(problem=rows_and_masks())
def test_loss_is_its_formula(name, problem):
    row, mask = problem
    got = losses.find(name)(torch.tensor(row)[None], torch.tensor(mask)[None])
    assert got.shape == (1,)
    assert float(got) == pytest.approx(by_hand(name, row, mask), rel=1e-6, abs=1e-8)


@given(problem=rows_and_masks(single=True))
def test_md_is_its_formula_for_one_target(problem):
    row, mask = problem
    got = losses.md(torch.tensor(row)[None], torch.tensor(mask)[None])
    assert float(got) == pytest.approx(by_hand("md", row, mask))
    assert (float(got) == 0) == (row.argmax() == mask.argmax())


@given(problem=rows_and_masks())
def test_margin_is_positive_exactly_where_the_goal_is_reached(problem):
    row, mask = problem
    value = float(losses.margin(torch.tensor(row)[None], torch.tensor(mask)[None]))
    assert (value > 0) == mask[row.argmax()]


def test_untargeted_ce_and_dlr_are_the_published_ones():
    logits = torch.randn(50, 10, generator=torch.Generator().manual_seed(0)).double()
    y = logits.argmax(1)
    mask = torch.ones_like(logits, dtype=torch.bool).scatter_(1, y[:, None], False)
    wanted = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    assert torch.allclose(losses.ce(logits, mask), wanted)
    z = logits.sort(1).values
    assert torch.allclose(losses.dlr(logits, mask), -(z[:, -1] - z[:, -2]) / (z[:, -1] - z[:, -3]))


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_finite_and_do_not_vanish_where_the_model_is_sure(name):
    """p = 1 in float32: -log(1 - p) and the usual cross entropy have nothing left to give there."""
    logits = torch.tensor([[60.0, 0.0, -5.0, 3.0, 1.0]], requires_grad=True)
    mask = torch.tensor([[False, True, True, True, True]])
    (grad,) = torch.autograd.grad(losses.find(name)(logits, mask).sum(), logits)
    assert bool(grad.isfinite().all())
    if name != "ce":  # tiny but not 0 for ce
        assert float(grad.abs().max()) > 1e-3
    assert float(grad[0, 0]) < 0


@pytest.mark.parametrize("name", ["md", "mdmax", "mdmul"])
def test_gradients_are_finite_where_the_goal_is_reached(name):
    """log 0 in MDMUL: the paper's formula is -inf there and its gradient NaN."""
    logits = torch.tensor([[0.0, 5.0, 1.0], [1.0, 1.0, 1.0]], requires_grad=True)
    mask = torch.tensor([[False, True, False]] * 2)
    value = losses.find(name)(logits, mask)
    (grad,) = torch.autograd.grad(value.sum(), logits)
    assert bool(value.isfinite().all())
    assert bool(grad.isfinite().all())


@pytest.mark.parametrize("classes", [2, 3])
def test_dlr_refuses_fewer_than_four_classes(classes):
    logits = torch.zeros(1, classes)
    mask = torch.ones(1, classes, dtype=torch.bool)
    mask[0, 0] = False
    with pytest.raises(Unsupported, match=f"dlr.* with {classes} classes"):
        losses.dlr(logits, mask)


def test_md_refuses_groups_and_unknown_names_are_answered():
    with pytest.raises(Unsupported, match="one target per row"):
        losses.md(torch.zeros(1, 4), torch.tensor([[False, True, True, False]]))
    with pytest.raises(DurometerError, match="did you mean 'margin'"):
        losses.find("margins")
