"""Genes, mating, SplitMix64 and reference points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pymoo.operators.mutation.pm import mut_pm
from pymoo.util.ref_dirs import get_reference_directions
from tests.oracles import variation as plain
from tests.oracles.reference_points import energy, spread_points
from tests.oracles.splitmix import SplitMix
from tests.oracles.variation import mutated
from tests.toys.search import SCHEMA, rows

import durometer as du
from durometer.attacks.evolution import survival
from durometer.attacks.evolution.survival import reference_points
from durometer.attacks.evolution.variation import vary
from durometer.spaces.genes import Genetic


def words(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2**63, n).astype(np.uint64)


def test_genes_are_the_mutable_features_in_raw_units_and_express_them_exactly() -> None:
    data = rows()
    region = SCHEMA.space(0.5, 2).around(data.x)
    assert isinstance(region, Genetic) and isinstance(du.Linf(0.1).around(data.x), Genetic)
    genes = region.genes()
    assert genes.kinds == (3, 1, 2)  # income, spent, ratio; cards; home and side
    assert torch.equal(genes.express(genes.start[:, None]), data.x)
    changed = genes.start.clone()
    changed[:, 3], changed[:, 4] = 7, 2
    changed[:, 5] = 1 - changed[:, 5]
    x = genes.express(changed[:, None])
    assert (x[:, 3] == 7).all() and (x[:, 5] == 2).all() and torch.equal(x[:, 2], data.x[:, 2])
    assert torch.equal(x[:, 6], data.x[:, 7]) and torch.equal(x[:, 7], data.x[:, 6])
    assert torch.equal(genes.take(torch.tensor([3])).start[0], genes.start[3])


def test_violation_is_that_of_the_record_as_it_is() -> None:
    data = rows()
    region = SCHEMA.space(0.5, 2).around(data.x)
    assert (region.violation(data.x) == 0).all()
    broken = data.x.clone()
    broken[:, 1] = broken[:, 0] + 5
    assert (region.violation(broken) > 0).all()


def test_polynomial_mutation_equals_pymoos() -> None:
    class Fixed:
        def __init__(self, numbers: np.ndarray) -> None:
            self.numbers = numbers

        def random(self, shape) -> np.ndarray:
            return np.zeros(shape) if len(shape) == 2 else self.numbers

    rng = np.random.default_rng(0)
    x, u = rng.uniform(-2, 5, 200), rng.random(200)
    theirs = mut_pm(x[:, None], np.array([-2.0]), np.array([5.0]), np.full(200, 20.0),
                    np.ones(200), False, random_state=Fixed(u))  # fmt: skip
    ours = [mutated(a, -2.0, 5.0, b, 20.0) for a, b in zip(x, u, strict=True)]
    np.testing.assert_allclose(ours, theirs[:, 0], rtol=1e-12)


def test_children_mutate_at_a_rate_per_kind_and_stay_whole_and_bounded() -> None:
    n, size = 40, 20 + 50 + 10
    genes = np.tile(np.full(size, 5.0), (n, 30, 1))
    low, high = np.zeros((n, size)), np.full((n, size), 10.0)
    low[:, 0] = high[:, 0] = 5.0  # a gene that cannot move
    children = vary(genes, low, high, (20, 50, 10), words(n), 24)
    assert children.shape == (n, 24, size)
    reals, whole = children[..., :20], children[..., 20:]
    assert (reals[..., 0] == 5).all() and (children >= 0).all() and (children <= 10).all()
    assert (whole == np.rint(whole)).all()
    # Real genes change whenever they mutate: one in 20, binomial with 18,240 trials.
    rate = (reals[..., 1:] != 5).mean()
    assert rate == pytest.approx(1 / 20, abs=4 * np.sqrt(0.05 * 0.95 / reals[..., 1:].size))


def test_crossover_swaps_a_stretch_within_one_kind() -> None:
    """Parents that differ in every gene: a child's genes of a kind come from two at most."""
    n, size = 50, 8
    genes = np.repeat(np.arange(20.0)[None, :, None], n, axis=0).repeat(size, axis=2) / 20
    fixed = genes[:, :1] * 0  # bounds of width 0: no mutation
    children = vary(genes, fixed[:, 0], fixed[:, 0], (size, 0, 0), words(n), 10)
    kinds = np.array([len(set(c)) for c in children.reshape(-1, size)])
    assert set(kinds) == {1, 2}
    # Two of ten pairs of cuts apart, crossover happens with probability 0.9.
    assert np.mean(kinds == 2) == pytest.approx(0.9, abs=0.05)
    cuts = (np.diff(children.reshape(-1, size), axis=1) != 0).sum(1)
    assert cuts.max() == 2


@given(
    st.sampled_from([np.float32, np.float64]), st.integers(0, 3), st.integers(1, 9),
    st.tuples(*[st.integers(0, 4)] * 3), st.integers(1, 9), st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_children_equal_those_of_the_plain_twin_to_the_last_bit(
    dtype: type, n: int, size: int, kinds: tuple[int, int, int], offspring: int, seed: int,
    missing: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    low = np.floor(rng.normal(size=(n, sum(kinds))) * 3).astype(dtype)
    high = low + rng.integers(0, 6, low.shape).astype(dtype)
    parents = low[:, None] + (high - low)[:, None] * rng.random((n, size, sum(kinds)))
    if missing:
        parents[rng.random(parents.shape) < 0.1] = np.nan
    given = (parents.astype(dtype), low, high, kinds, rng.integers(0, 2**64, n, dtype=np.uint64))
    np.testing.assert_array_equal(vary(*given, offspring), plain.vary(*given, offspring))


def test_children_are_the_same_in_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    genes, ends = np.full((13, 30, 6), 5.0), np.zeros((13, 6))
    given = genes, ends, ends + 10, (2, 2, 2), words(13), 24
    alone = vary(*given)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    np.testing.assert_array_equal(vary(*given), alone)


def test_genes_in_half_precision_are_refused() -> None:
    ends = np.zeros((1, 2), np.float16)
    with pytest.raises(du.Unsupported, match="float16: .* float32 or float64"):
        vary(np.zeros((1, 4, 2), np.float16), ends, ends + 1, (2, 0, 0), words(1), 2)


def test_random_numbers_are_uniform_and_shuffles_fair() -> None:
    random = SplitMix(words(1)[0])
    draws = np.array([random.uniform() for _ in range(20_000)])
    assert draws.min() >= 0 and draws.max() < 1
    assert abs(draws.mean() - 0.5) < 4 / np.sqrt(12 * 20_000)
    first = []
    for _ in range(5000):
        order = np.arange(5)
        random.shuffle(order, 5)
        assert sorted(order) == [0, 1, 2, 3, 4]
        first.append(order[0])
    np.testing.assert_allclose(np.bincount(first) / 5000, 0.2, atol=4 * np.sqrt(0.16 / 5000))


@pytest.mark.parametrize(("count", "dimension"), [(2, 3), (9, 3), (6, 2), (5, 4)])
def test_spreading_equals_its_plain_twin(count: int, dimension: int) -> None:
    start = np.random.default_rng(0).dirichlet(np.ones(dimension), count)
    spread = np.empty_like(start)
    survival._spread_points(120, 0.005, start, spread)
    np.testing.assert_array_equal(spread, spread_points(start.copy(), 120, 0.005))


def test_reference_points_are_as_evenly_spread_as_pymoos() -> None:
    theirs, ours = get_reference_directions("energy", 3, 30, seed=1), reference_points(30)
    grad = np.zeros_like(theirs)
    assert energy(np.array(ours), grad) <= energy(theirs, grad) * 1.01
    np.testing.assert_allclose(ours.sum(1), 1.0)
    assert ours.min() >= 0 and len(np.unique(ours, axis=0)) == 30


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_reference_points_of_any_number(count: int) -> None:
    points = reference_points(count)
    assert points.shape == (count, 3)
    np.testing.assert_allclose(points.sum(1), 1.0)
