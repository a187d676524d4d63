"""The compiled loops of a table region against their plain twins."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.rounding import keep_sums, round_records

from durometer.tables.rounding import Coordinates, rounded, tangent


def numbers(rng: np.random.Generator, *shape: int, odd: bool = False) -> torch.Tensor:
    out = rng.normal(size=shape) * 3
    if odd:
        out[rng.random(shape) < 0.1] = np.nan
    return torch.from_numpy(out)


@given(st.integers(0, 40), st.integers(0, 6), st.integers(0, 3), st.booleans(), st.integers(0, 99))
def test_records_equal_those_of_the_plain_twin(
    n: int, d: int, other: int, odd: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    places = torch.from_numpy(np.flatnonzero(rng.random(d) < 0.7))
    whole = torch.from_numpy(rng.random(d) < 0.5)
    x0 = torch.where(whole, numbers(rng, n, d).round(), numbers(rng, n, d, odd=odd))
    z0, z = (numbers(rng, n, len(places) + other, odd=odd) for _ in range(2))
    low, high = x0 - 2, x0 + 3
    width = numbers(rng, len(places)).abs()
    for lift in (0.5, 1e-6):
        theirs = x0.numpy().copy()
        arrays = (a.numpy() for a in (z0, z, low, high, places, width, whole))
        round_records(theirs, *arrays, lift)
        mine = rounded(x0, z0, z, low, high, Coordinates(places, width, whole), lift)
        np.testing.assert_array_equal(mine.numpy(), theirs)


def test_arrays_that_are_not_contiguous_are_read_as_they_are_meant() -> None:
    rng = np.random.default_rng(0)
    x0, z0, z = (numbers(rng, 4, 5).t() for _ in range(3))  # (5, 4), in columns
    low, high = ((x0[:1] * 0 + end).expand(5, 4) for end in (-9.0, 9.0))
    every = Coordinates(torch.arange(4), torch.ones(4).double(), torch.zeros(4, dtype=torch.bool))
    mine = rounded(x0, z0, z, low, high, every, 0.5)
    torch.testing.assert_close(mine, (x0 + (z - z0)).clamp(-9, 9), rtol=0, atol=0)


@given(st.integers(0, 40), st.integers(1, 8), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_directions_equal_those_of_the_plain_twin_and_keep_their_sums(
    n: int, d: int, count: int, odd: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    z, grad = numbers(rng, n, d), numbers(rng, n, d, odd=odd)
    below, above = (torch.from_numpy((rng.random((n, d)) < 0.7) * 1.0) for _ in range(2))
    low, high = z - below, z + above  # on its bound where it is 0
    sums = []
    for _ in range(count):
        at = np.flatnonzero(rng.random(d) < 0.6)
        sums.append((torch.from_numpy(at), numbers(rng, len(at))))
    mine = tangent(grad, z, low, high, sums)
    theirs = torch.where(torch.where(grad > 0, z < high, z > low), grad, 0.0).numpy()
    starts = np.cumsum([0, *(len(at) for at, _ in sums)])
    places, weights = (torch.cat(parts).numpy() for parts in zip(*sums, strict=True))
    keep_sums(theirs, z.numpy(), low.numpy(), high.numpy(), starts, places, weights)
    np.testing.assert_array_equal(mine.numpy(), theirs)
    assert not bool(((mine > 0) & (z >= high) | (mine < 0) & (z <= low)).any())


def test_one_box_for_all_rows_is_that_of_each() -> None:
    rng = np.random.default_rng(1)
    z, grad, low = numbers(rng, 20, 3), numbers(rng, 20, 3), torch.full((1, 3), -1.0).double()
    sums = [(torch.arange(3), torch.ones(3).double())]
    one = tangent(grad, z, low, -low, sums)
    assert torch.equal(one, tangent(grad, z, low.repeat(20, 1), -low.repeat(20, 1), sums))
