"""What answers say of the goal: compiled, in torch, and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from durometer.problem import referee as answers
from durometer.spaces.ball import LpRegion
from durometer.spaces.lp import Linf, Lp
from durometer.spaces.quantised import Quantised
from durometer.spaces.region import contains_at


def by_hand(logits, targets, slack, known):
    """Margin, hit, finite, matters of one answer."""
    inside = [v for v, t in zip(logits, targets, strict=True) if t]
    outside = [v for v, t in zip(logits, targets, strict=True) if not t]
    finite = all(np.isfinite(logits))
    margin = max(inside) - max(outside) if inside and outside else None
    if slack:
        hit = margin is not None and margin > slack * max(abs(v) for v in logits)
    else:
        hit = bool(targets[int(np.argmax(logits))])
    nearer = margin is not None and margin > known
    return margin, hit, finite, finite and (hit or nearer)


numbers = st.sampled_from([0.0, 1.0, -2.5, 3.25, 7.0, 7.0000005])


@settings(max_examples=200)
@given(
    st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=5),
    st.integers(1, 14),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from([-9.0, 0.0, 2.0]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
)
def test_answers_are_read_as_by_hand(given_logits, mask, slack, known, dtype, in_torch):
    logits = torch.tensor(given_logits, dtype=dtype)
    targets = torch.tensor([[bool(mask >> c & 1) for c in range(4)]]).expand(3, 4)
    rows = torch.arange(len(logits)) % 3
    with pytest.MonkeyPatch.context() as patch:
        if in_torch:
            patch.setattr(answers, "serves", lambda *tensors: False)
        known_margins = torch.full((3,), known, dtype=torch.float64)
        found = answers.read(logits, targets, rows, slack, known_margins)
    for i, row in enumerate(logits.numpy()):
        margin, hit, finite, matters = by_hand(
            row, targets[0].tolist(), row.dtype.type(slack), known
        )
        assert float(found.margin[i]) == pytest.approx(float(margin), abs=1e-6)
        assert (bool(found.hit[i]), bool(found.finite[i])) == (hit, finite)
        assert bool(found.matters[i]) == matters


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_an_answer_that_is_no_number_never_matters(bad, monkeypatch):
    logits = torch.tensor([[bad, 1.0, 0.0], [0.0, 1.0, bad], [0.0, 2.0, 1.0]])
    targets = torch.tensor([[False, True, True]] * 3)
    known = torch.full((3,), -9.0, dtype=torch.float64)
    compiled = answers.read(logits, targets, torch.arange(3), 1e-6, known)
    monkeypatch.setattr(answers, "serves", lambda *tensors: False)
    plain = answers.read(logits, targets, torch.arange(3), 1e-6, known)
    for found in (compiled, plain):
        assert found.finite.tolist() == [False, False, True]
        assert found.matters.tolist() == [False, False, True]


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 2.0, float("inf")]), st.booleans())
def test_who_is_inside_a_ball_is_measured_as_by_hand(seed, p, single):
    rng = np.random.default_rng(seed)
    kind = np.float32 if single else np.float64
    x = np.round(rng.random((6, 9)), 1).astype(kind)
    z = (x + rng.choice([-1, 0, 1], (6, 9)) * rng.choice([0.05, 0.1, 0.1000004], (6, 1))).astype(
        kind
    )
    eps = {1.0: 0.6, 2.0: 0.25, float("inf"): 0.1}[p]
    region = Lp(p, eps).around(torch.tensor(x))
    far = np.linalg.norm(z.astype(np.float64) - x.astype(np.float64), p, axis=1)
    boxed = ((z >= 0) & (z <= 1)).all(1)
    room = region.rounding().numpy()
    found = region.contains(torch.tensor(z)).numpy()
    assert np.array_equal(found, boxed & (far <= eps + room))
    some = torch.tensor([4, 1])
    assert np.array_equal(contains_at(region, torch.tensor(z), some).numpy(), found[[4, 1]])


def test_a_grid_is_asked_itself_and_not_the_ball_inside_it():
    x = torch.zeros(3, 4)
    region = Quantised(Linf(0.5), levels=3).around(x)
    assert isinstance(region.inner, LpRegion)
    off = torch.full((3, 4), 0.3)  # in the ball, not on the grid
    assert not bool(contains_at(region, off, torch.tensor([0, 2])).any())
