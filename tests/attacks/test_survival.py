"""Survival: the plain numpy steps against pymoo 0.6, and the kernel against those steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymoo.algorithms.moo.nsga3 import associate_to_niches, calc_niche_count
from pymoo.algorithms.moo.nsga3 import niching as pymoo_niching
from pymoo.algorithms.moo.rnsga3 import AspirationPointSurvival, get_ref_dirs_from_points
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
from pymoo.util.reference_direction import UniformReferenceDirectionFactory
from tests.oracles import survival as plain
from tests.oracles.survival import associate, directions, niching

import durometer as du
from durometer.attacks.evolution import survival as nsga
from durometer.attacks.evolution.survival import fronts, reference_points


class Identity:
    """A random state that never changes an order, so that both sides break ties alike."""

    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)

    def shuffle(self, _: np.ndarray) -> None:
        return None


def population(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "copies":
        return np.repeat(rng.random((n // 20 + 1, 3)), 20, axis=0)[:n]
    if kind == "steps":  # a forest's probabilities, whole-number distances: full of ties
        return np.stack([rng.integers(0, 5, n) / 4, rng.integers(0, 8, n) / 7,
                         rng.integers(0, 3, n) / 2], axis=1)  # fmt: skip
    f = rng.random((n, 3)) * [1.0, 1.5, 0.1]
    f[rng.random(n) < 0.7, 2] = 0.0  # most individuals satisfy their relations
    return f


KINDS = ("copies", "steps", "real")


@pytest.mark.parametrize("kind", KINDS)
def test_fronts_equal_pymoo(kind: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        f = population(kind, int(rng.integers(20, 320)), rng)
        enough = int(rng.integers(1, len(f) + 1))
        _, rank = NonDominatedSorting().do(f, return_rank=True, n_stop_if_ranked=enough)
        theirs = np.where(rank > len(f), -1, rank)
        np.testing.assert_array_equal(fronts(f, enough), theirs)


class Watched(AspirationPointSurvival):
    """pymoo's survival; its own state is what we compare."""


def fresh(points: np.ndarray) -> Watched:
    return Watched(points, UniformReferenceDirectionFactory(n_dim=3, n_points=1).do(), mu=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_of_survivals_equals_pymoo(kind: str) -> None:
    """State (ideal, worst, extremes, nadir) and survivors over generations, ties broken alike."""
    rng = np.random.default_rng(1)
    points = np.array(reference_points(57))
    wanted = len(points) + 3
    theirs, ours = fresh(points), nsga.Survival.of(points, 1)
    f = population(kind, wanted, rng)
    for _ in range(12):
        f = np.concatenate([f, population(kind, 30, rng) * rng.uniform(0.6, 1.0)])
        pop = Population.new("X", np.arange(len(f))[:, None], "F", f)
        kept = theirs._do(Problem(n_var=1, n_obj=3), pop, wanted, random_state=Identity())
        mine = survive_identically(ours, f, wanted)
        np.testing.assert_allclose(ours.ideal[0], theirs.ideal_point)
        np.testing.assert_allclose(ours.worst[0], theirs.worst_point)
        np.testing.assert_allclose(ours.extreme[0], theirs.extreme_points)
        # Individuals with equal objectives are interchangeable: compare what survives, sorted.
        np.testing.assert_allclose(_sorted(f[mine]), _sorted(kept.get("F")))
        f = f[mine]


def survive_identically(state: nsga.Survival, f: np.ndarray, wanted: int) -> np.ndarray:
    """The steps of `Survival` with the order of the population in place of random orders."""
    ideal, worst = np.minimum(state.ideal[0], f.min(0)), np.maximum(state.worst[0], f.max(0))
    state.ideal[0], state.worst[0] = ideal, worst
    rank = plain.fronts(f, wanted)
    plain.extremes(f, rank, state.reference, ideal, state.extreme[0])
    nadir = plain.nadir_point(f, rank, state.extreme[0], ideal, worst)
    rays = directions(state.reference, ideal, nadir)
    niche, away = associate(f, rank, rays, ideal, nadir)
    bottom = rank.max()
    first, last = np.nonzero((rank >= 0) & (rank < bottom))[0], np.nonzero(rank == bottom)[0]
    count = np.bincount(niche[first], minlength=len(rays))
    order, turns = np.arange(len(last)), np.arange(len(rays))
    more = niching(wanted - len(first), count, niche, away, last, order, turns)
    return np.concatenate([first, more])


def _sorted(f: np.ndarray) -> np.ndarray:
    return f[np.lexsort(f.T[::-1])]


def test_directions_and_association_equal_pymoo() -> None:
    rng = np.random.default_rng(2)
    points = np.array(reference_points(57))
    for _ in range(40):
        f, ideal = rng.random((90, 3)) * 2, np.zeros(3)
        nadir = rng.uniform(0.2, 2.0, 3)
        unit = (points - ideal) / (nadir - ideal)
        centre = UniformReferenceDirectionFactory(n_dim=3, n_points=1).do()
        theirs = get_ref_dirs_from_points(unit, centre, mu=0.05)
        rays = directions(points, ideal, nadir)
        np.testing.assert_allclose(rays, theirs, atol=1e-12)
        niche, away, _ = associate_to_niches(f, theirs, ideal, nadir)
        mine, near = associate(f, np.zeros(90, np.int64), rays, ideal, nadir)
        np.testing.assert_array_equal(mine, niche)
        np.testing.assert_allclose(near, away, atol=1e-12)


def test_niching_in_closed_form_equals_pymoos_rounds() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 20))
        niche, away = rng.integers(0, k, n), rng.integers(0, 6, n) / 5
        before = rng.integers(0, k, int(rng.integers(0, 40)))
        wanted = int(rng.integers(1, n + 1))
        count = calc_niche_count(k, before)
        theirs = pymoo_niching(np.arange(n), wanted, count.copy(), niche, away,
                               random_state=Identity())  # fmt: skip
        mine = niching(wanted, count, niche, away, np.arange(n), np.arange(n), np.arange(k))
        assert sorted(mine) == sorted(theirs)


ODD = (np.inf, -np.inf, np.nan, 1e300, -0.0)


@given(st.integers(0, 60), st.integers(0, 70), st.sampled_from((*KINDS, "odd")), st.integers(0, 99))
def test_fronts_equal_their_definition(n: int, enough: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = population("steps" if kind == "odd" else kind, n, rng)
    if kind == "odd":
        f[rng.random(f.shape) < 0.2] = ODD[seed % len(ODD)]
    wanted = plain.fronts(np.nan_to_num(f, nan=1e300, posinf=1e300), enough)
    np.testing.assert_array_equal(fronts(f, enough), wanted)


@given(
    st.integers(0, 3), st.sampled_from([1, 4, 13]), st.integers(0, 30),
    st.sampled_from((*KINDS, "odd")), st.integers(0, 99),
)  # fmt: skip
def test_the_kernel_equals_its_plain_twin_to_the_last_bit(
    rows: int, points: int, more: int, kind: str, seed: int
) -> None:
    """Survivors and what is remembered, over generations."""
    rng = np.random.default_rng(seed)
    wanted = points + 3
    ours = nsga.Survival.of(reference_points(points), rows)
    state = [a.copy() for a in (ours.ideal, ours.worst, ours.extreme)]
    for _ in range(3):
        f = np.empty((rows, wanted + more, 3))
        for r in range(rows):
            f[r] = population("real" if kind == "odd" else kind, wanted + more, rng)
        if kind == "odd":
            f[rng.random(f.shape) < 0.1] = ODD[seed % len(ODD)]
        words = rng.integers(0, 2**64, rows, dtype=np.uint64)
        with np.errstate(all="ignore"):
            theirs = plain.survive(f, ours.reference, *state, words, wanted)
        np.testing.assert_array_equal(ours(f, words, wanted), theirs)
        for mine, other in zip((ours.ideal, ours.worst, ours.extreme), state, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_more_survivors_than_individuals_are_refused() -> None:
    state = nsga.Survival.of(reference_points(4), 1)
    with pytest.raises(du.DurometerError, match="survive"):
        state(np.zeros((1, 5, 3)), np.zeros(1, np.uint64), 6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_replacement_equals_its_plain_twin(dtype: type) -> None:
    rng = np.random.default_rng(6)
    for _ in range(30):
        rows, size, offspring = rng.integers([0, 1, 0], [4, 12, 12])
        kept = rng.random((rows, size + offspring)).argsort(axis=1)[:, :size].copy()
        old, new = (rng.random((rows, k, 5)).astype(dtype) for k in (size, offspring))
        was, found = rng.random((rows, size, 3)), rng.random((rows, offspring, 3))
        mine, theirs = (old.copy(), was.copy()), (old.copy(), was.copy())
        nsga.replace(kept, *mine, new, found)
        plain.replace(kept, *theirs, new, found)
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_survivors_are_the_same_in_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    f = np.stack([population("real", 90, rng) for _ in range(13)])
    words = rng.integers(0, 2**64, 13, dtype=np.uint64)
    alone = nsga.Survival.of(reference_points(57), 13)(f, words, 60)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    np.testing.assert_array_equal(nsga.Survival.of(reference_points(57), 13)(f, words, 60), alone)


def test_survivors_depend_on_the_row_alone() -> None:
    rng = np.random.default_rng(4)
    points = reference_points(57)
    f = np.stack([population("steps", 90, rng) for _ in range(7)])
    words = rng.integers(0, 2**63, 7).astype(np.uint64)
    together = nsga.Survival.of(points, 7)(f, words, 60)
    alone = nsga.Survival.of(points, 1)(f[3:4], words[3:4], 60)
    np.testing.assert_array_equal(together[3], alone[0])
    assert all(len(set(row)) == 60 for row in together)


def test_survivors_take_the_places_of_the_dead() -> None:
    rng = np.random.default_rng(5)
    old, new = rng.random((2, 6, 4)), rng.random((2, 3, 4))
    f_old, f_new = rng.random((2, 6, 3)), rng.random((2, 3, 3))
    kept = np.array([[0, 2, 3, 5, 6, 8], [0, 1, 2, 3, 4, 5]])
    wanted = np.concatenate([old, new], 1)[0][kept[0]]
    population_, values = old.copy(), f_old.copy()
    nsga.replace(kept, population_, values, new, f_new)
    np.testing.assert_array_equal(_sorted(population_[0][:, :3]), _sorted(wanted[:, :3]))
    np.testing.assert_array_equal(values[0][[0, 2, 3, 5]], f_old[0][[0, 2, 3, 5]])
    np.testing.assert_array_equal(population_[1], old[1])
