"""Square's moves: compiled and in torch they are what plain numpy makes of the paper."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import square

import durometer as du
from durometer.attacks import square as moves
from durometer.core.streams import Stream
from durometer.spaces.lp import Lp

N = 5


def case(shape, p, eps, seed, where, dtype):
    """A region, its moves, points in it (random, clean or moved before) and numbers to move by."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(N, *shape, generator=g).to(dtype)
    x[0] = x[0].round()  # a corner of the box
    region = Lp(p, eps).around(x)
    made = (moves.Corners if p == math.inf else moves.Bumps)(moves.Canvas.of(region))
    rows, stream = torch.arange(N), Stream(seed, torch.arange(N))
    z = {
        "clean": lambda: region.origin.clone(),
        "random": lambda: region.random(stream, rows),
        "start": lambda: made.start(region, stream, rows),
    }[where]()
    return region, made, z, torch.rand(N, made.numbers, generator=g, dtype=torch.float64)


def by_hand(region, made, z, share, u):
    shape, flat = made.canvas.shape, made.canvas.flat
    side = made.canvas.side(share)
    h, w = shape[1:]
    found = []
    for i in range(N):
        row, numbers = z[i].numpy(), u[i].numpy()
        if region.p == math.inf:
            ends = [end[i].numpy() for end in region.corners]
            found.append(square.corners(shape, flat, side, row, *ends, numbers))
            continue
        size = (
            max(side, min(2, w))
            if flat
            else min(max(side, 3) // 2 * 2 + 1, (min(h, w) - 1) // 2 * 2 + 1)
        )
        bump = None if flat else moves._bump(size, z.device, torch.float64).numpy()
        box = [end[0].numpy() for end in (region.low, region.high)]
        found.append(square.bumps(shape, flat, size, row, region.origin[i].numpy(), *box,
                                  region.eps, region.p, bump, numbers))  # fmt: skip
    return np.stack(found)


@settings(max_examples=120)
@given(
    st.sampled_from([(1, 6, 7), (3, 5, 5), (8, 9), (12,), (3,), (2,), (1,), (2, 3)]),
    st.sampled_from([(math.inf, 0.1), (2.0, 0.4), (1.0, 1.5), (2.0, 5.0)]),
    st.integers(0, 10_000),
    st.sampled_from([0.8, 0.4, 0.1, 0.01]),
    st.sampled_from(["clean", "random", "start"]),
    st.booleans(),
)
def test_moves_are_what_the_paper_says(shape, ball, seed, share, where, in_torch):
    region, made, z, u = case(shape, *ball, seed, where, torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        if in_torch:
            patch.setattr(moves, "serves", lambda *tensors: False)
        found = made.propose(region, z, share, u)
    wanted = by_hand(region, made, z, share, u)
    exact = 0.0 if ball[0] == math.inf else 1e-9
    assert np.abs(found.numpy() - wanted).max() <= exact
    assert bool(region.contains(found.reshape(N, *shape)).all())


@pytest.mark.parametrize("ball", [(math.inf, 0.1), (2.0, 0.4), (1.0, 1.5)])
def test_single_precision_is_compiled_to_the_same(ball, monkeypatch):
    region, made, z, u = case((3, 9, 9), *ball, 1, "start", torch.float32)
    found = made.propose(region, z, 0.2, u)
    monkeypatch.setattr(moves, "serves", lambda *tensors: False)
    wanted = made.propose(region, z, 0.2, u)
    assert found.dtype == torch.float32
    assert float((found - wanted).abs().max()) <= (0.0 if ball[0] == math.inf else 1e-6)


def test_more_threads_move_the_same(monkeypatch):
    region, made, z, u = case((3, 9, 9), 2.0, 0.4, 1, "start", torch.float32)
    alone = made.propose(region, z, 0.2, u)
    monkeypatch.setattr("durometer.kernels.threads._FEW_NUMBERS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(made.propose(region, z, 0.2, u), alone)


@pytest.mark.parametrize("space", [du.Linf(0.1), du.L2(0.1)], ids=str)
def test_a_share_is_at_most_all_features(space):
    net, data = du.testing.toy()
    with pytest.raises(du.DurometerError, match=r"Square\(p=80\): expected a number .*at most 1"):
        du.evaluate(net, data, space=space, attack=du.Square(5, p=80))
    assert moves.Canvas((1, 1, 5), True).side(1.5) == 5
