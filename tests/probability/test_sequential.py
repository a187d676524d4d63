"""Confidence sequences: closed form, coverage at any stopping time, and the games that use them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import durometer as du
from durometer.core.errors import DurometerError, Unsupported
from durometer.probability.sequential import (
    Mixture,
    confidence_sequence,
    log_wealth,
    sequential,
    until_decided,
)


@pytest.mark.parametrize("threshold", [None, 0.5, 0.99])
@pytest.mark.parametrize(("hits", "draws"), [(0, 0), (0, 7), (7, 7), (30, 40), (395, 400)])
def test_evidence_is_the_integral(threshold: float | None, hits: int, draws: int) -> None:
    """Against scipy's quadrature of the mixture's density, q = sin(a)^2 to tame its ends."""
    sides = [(0.75, 0.0, 1.0)] if threshold is None else [
        (0.25, threshold, 1.0), (0.5, 0.0, threshold)
    ]  # fmt: skip
    total = 0.25 if hits == draws else 0.0
    for weight, low, high in sides:
        mass = stats.beta(0.5, 0.5).cdf(high) - stats.beta(0.5, 0.5).cdf(low)

        def density(a: float) -> float:
            return float(np.sin(a) ** (2 * hits) * np.cos(a) ** (2 * (draws - hits)) * 2 / np.pi)

        ends = np.arcsin(np.sqrt([low, high]))
        total += (
            weight / mass * integrate.quad(density, *ends, epsabs=0, epsrel=1e-11, limit=500)[0]
        )
    found = Mixture.about(threshold).log_evidence(np.array([hits]), np.array([draws]))
    assert found[0] == pytest.approx(np.log(total), abs=1e-8)


@pytest.mark.parametrize("threshold", [None, 0.5, 0.99])
def test_wealth_is_a_martingale_of_start_one(threshold: float | None) -> None:
    """At every n the mean over all outcomes is 1, if p is the truth."""
    mixture = Mixture.about(threshold)
    for p in (0.2, 0.5, 0.99):
        for n in (1, 10, 300):
            k = np.arange(n + 1)
            wealth = log_wealth(mixture, k, np.full(n + 1, n), p)
            mean = np.exp(stats.binom(n, p).logpmf(k) + wealth).sum()
            assert mean == pytest.approx(1, abs=1e-9)


def test_interval_is_where_the_wealth_is_small() -> None:
    hits, draws = np.array([0, 3, 50, 199, 600]), np.array([5, 10, 80, 200, 600])
    for threshold in (None, 0.99):
        low, high = confidence_sequence(hits, draws, 0.99, threshold)
        for end, edge in ((low, 0.0), (high, 1.0)):
            inner = (end > 0) & (end < 1)
            wealth = log_wealth(Mixture.about(threshold), hits[inner], draws[inner], end[inner])
            np.testing.assert_allclose(wealth, np.log(100), atol=1e-6)
            assert ((end == edge) | inner).all()
        assert (low <= hits / draws).all() and (hits / draws <= high).all()


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9, 0.985, 0.99, 0.999])
@pytest.mark.parametrize("threshold", [None, 0.99])
def test_coverage_at_any_stopping_time(p: float, threshold: float | None) -> None:
    """Looks after every single draw up to 2,000, 600 walks: how many ever leave the truth out?"""
    alpha, walks, n = 0.05, 600, 2000
    rng = np.random.default_rng([int(1000 * p), threshold is None])
    hits = np.cumsum(rng.random((walks, n)) < p, axis=1)
    draws = np.arange(1, n + 1)[None].repeat(walks, 0)
    wealth = log_wealth(Mixture.about(threshold), hits.ravel(), draws.ravel(), p)
    missed = (wealth.reshape(walks, n) >= -np.log(alpha)).any(axis=1)
    # more than `allowed` misses would be seen once in 10,000 times at an error of alpha
    allowed = stats.binom(walks, alpha).isf(1e-4)
    assert missed.sum() <= allowed
    # and a fixed interval at each look is not valid, so the test would see a wrong one
    fixed = np.abs(hits - p * draws) > stats.norm.isf(alpha / 2) * np.sqrt(p * (1 - p) * draws)
    if 0.1 < p < 0.95:
        assert fixed[:, 30:].any(axis=1).sum() > allowed


def _decisions(p: np.ndarray, threshold: float, confidence: float, seed: int) -> np.ndarray:
    """-1 no, 0 open, 1 yes: the sequential test on coins of probability p, as a model of one
    feature that answers 0 where a uniform reading is below p."""

    def predict(x: np.ndarray) -> np.ndarray:
        return (x[:, 1] >= x[:, 0]).astype(np.int64)

    noise = du.Independent([du.noise.no_noise(), du.noise.uniform(0, 1)])
    found = sequential(
        predict, noise, np.stack([p, np.zeros(len(p))], 1), np.array([[True, False]] * len(p)),
        np.arange(len(p)), seed=seed, threshold=threshold,
        enough=until_decided(threshold, 1e-6), most=3000, confidence=confidence,
    )  # fmt: skip
    assert (found.draws <= 3000).all()
    return np.where(found.low >= threshold, 1, np.where(found.high < threshold, -1, 0))


def test_wrong_decisions_are_rarer_than_alpha() -> None:
    """Coins next to the threshold, where a wrong decision is easiest; a threshold that is moved
    by a hundredth decides them all wrong."""
    alpha = 0.05
    said = _decisions(np.full(600, 0.8995), 0.9, 1 - alpha, seed=1)
    assert (said == 1).sum() <= stats.binom(600, alpha).isf(1e-4)
    said = _decisions(np.full(600, 0.9005), 0.9, 1 - alpha, seed=2)
    assert (said == -1).sum() <= stats.binom(600, alpha).isf(1e-4)
    far = np.array([0.5] * 20 + [1.0] * 20)
    np.testing.assert_array_equal(_decisions(far, 0.9, 0.99, seed=3), [-1] * 20 + [1] * 20)


def test_a_record_does_not_depend_on_its_company() -> None:
    def predict(x: np.ndarray) -> np.ndarray:
        return (x.sum(axis=1) > 0).astype(np.int64)

    x = np.random.default_rng(0).normal(size=(9, 3))
    allowed = np.eye(2, dtype=bool)[predict(x)]
    ids = np.array([f"r{i}" for i in range(9)])

    def ask(rows: list[int]) -> list[np.ndarray]:
        found = sequential(
            predict, du.Normal(sd=0.7), x[rows], allowed[rows], ids[rows], seed=4, threshold=0.9,
            enough=until_decided(0.9, 1e-6), most=2000,
        )  # fmt: skip
        return [found.low, found.high, found.hits, found.draws]

    every = ask(list(range(9)))
    for rows in ([3], [8, 0, 5]):
        for one, all_ in zip(ask(rows), every, strict=True):
            np.testing.assert_array_equal(one, all_[rows])


def _line(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([0 * x[:, 0], x[:, 0]], 1)


PLACES = np.array([0.1, 0.5, 1.0, 2.0, 2.6, 3.0, 4.0, -5.0])
LINE = du.Dataset(PLACES[:, None], (PLACES > 0).astype(int))
TRUTH = stats.norm.cdf(np.abs(PLACES))  # noise of sd 1: the answer stays up to the border at 0


def test_nature_stops_when_the_threshold_is_decided() -> None:
    t = du.evaluate(du.Nature(_line, du.Normal(sd=1.0), threshold=0.99), LINE, progress=False).table
    assert set(t["winner"]) == {"sequential"}
    assert ((t["probability_low"] <= TRUTH) & (t["probability_high"] >= TRUTH)).all()
    yes, no = t["probability_low"] >= 0.99, t["probability_high"] < 0.99
    assert (yes == (TRUTH >= 0.99)).all() and (no == (TRUTH < 0.99)).all()
    before = du.evaluate(du.Nature(_line, du.Normal(sd=1.0)), LINE, progress=False).table
    assert t["forwards"].mean() < before["forwards"].mean() / 12
    assert t["forwards"].iloc[0] < 100 < t["forwards"].iloc[-1]


def test_questions_with_a_probability_are_asked_in_sequence() -> None:
    asked = []

    def model(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return np.stack([0 * rows[:, 0], rows[:, 0]], 1)

    nature = du.Nature(du.wrap(model, answers="logits", inputs="array"), du.Normal(sd=1.0))
    table = nature.rank_by_stability(PLACES[:, None], 0.99).sort_index()
    assert (table["stays"] == np.where(TRUTH >= 0.99, "yes", "no")).all()
    assert sum(asked) < 8 * 64_000 / 12
    level = nature.breakdown_noise_level(PLACES[-2:, None], 0.99, levels=(0.5, 1.0, 2.0, 4.0))
    # 4 sd: stays with .99 up to a level of 4 / 2.326 = 1.72; 5 sd: 2.15
    assert level["low"].tolist() == [1.0, 2.0] and level["high"].tolist() == [2.0, 4.0]


def test_smoothed_radius_is_the_distance_to_the_border() -> None:
    nature = du.Nature(_line, du.Normal(sd=1.0), confidence=0.999, draws=20_000)
    found = nature.certified_radius(LINE)
    assert (found["L2"] <= np.abs(PLACES)).all()  # the line's smoothed radius is |x|
    assert (found["L2"].to_numpy()[1:5] > 0.85 * np.abs(PLACES[1:5])).all()
    assert found["draws"].max() <= 20_000
    assert found["label"].tolist() == LINE.y.tolist()
    decided = nature.certified_radius(LINE, at=1.5)
    assert ((decided["L2"] >= 1.5) == (np.abs(PLACES) >= 1.5)).all()
    assert decided["draws"].mean() < found["draws"].mean() / 5


def test_what_cannot_be_asked_is_refused() -> None:
    for bad in (0.0, 1.0, 99):
        with pytest.raises(DurometerError, match="threshold"):
            du.Nature(_line, du.Normal(sd=1.0), threshold=bad)
    with pytest.raises(DurometerError, match="method='sequential'"):
        du.Nature(_line, du.Normal(sd=1.0), threshold=0.9, method="monte carlo")
    nature = du.Nature(_line, du.Normal(sd=1.0), threshold=0.9)
    with pytest.raises(Unsupported, match="with a space"):
        du.evaluate(nature, LINE, space=du.L2(0.1, low=-np.inf, high=np.inf))
    with pytest.raises(DurometerError, match="at="):
        nature.certified_radius(LINE, at=-1.0)
