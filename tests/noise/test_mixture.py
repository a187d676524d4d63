"""Mixtures of noises: against sums of scipy's own, draws, and a tree's mass in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from sklearn.tree import DecisionTreeClassifier

import durometer as du
from durometer.core.errors import DurometerError

METER = du.noise.Mixture((du.noise.normal(sd=1.0), du.noise.exponential(30.0)), (0.9, 0.1))


def cdf(t):
    return 0.9 * scipy.stats.norm.cdf(t) + 0.1 * scipy.stats.expon.cdf(t, scale=30)


def test_its_masses_are_the_weighted_sums():
    t = np.linspace(-5, 200, 60)
    assert np.allclose(METER.below(np.array([7.0]), 7 + t), cdf(t), atol=1e-15)
    sf = 0.9 * scipy.stats.norm.sf(t) + 0.1 * scipy.stats.expon.sf(t, scale=30)
    assert np.allclose(METER.above(np.array([7.0]), 7 + t), sf, rtol=1e-12)
    far = METER.above(np.zeros(1), 1500.0)  # where 1 - P has no digits left
    assert np.allclose(far, 0.1 * np.exp(-50), rtol=1e-12, atol=0)


def test_quantiles_invert_it_and_draws_follow_it():
    u = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 99), [1 - 1e-6]])
    q = METER.quantile(np.zeros(1), u)
    assert np.allclose(cdf(q), u, atol=1e-12) and (np.diff(q) > 0).all()
    noise = du.Independent([METER, du.noise.no_noise()])
    drawn = noise.sample(np.array([[3.0, 8.0]]), 40_000, np.random.default_rng(0))[0]
    assert (drawn[:, 1] == 8.0).all()
    assert scipy.stats.kstest(drawn[:, 0] - 3.0, cdf).pvalue > 1e-3


def test_atoms_of_its_parts_are_met_exactly():
    stuck = du.noise.Mixture((du.noise.normal(sd=2.0), du.noise.no_noise()), (0.5, 0.5))
    q = stuck.quantile(np.array([5.0]), np.linspace(0.01, 0.99, 99))
    assert (q == 5.0).sum() == pytest.approx(50, abs=1)  # the reading is the value half of the time
    whole = du.noise.Mixture(
        (du.noise.normal(sd=2.0, integer=True), du.noise.normal(sd=9.0, integer=True)), (0.5, 0.5)
    )
    assert (whole.quantile(np.array([5.0]), q / 10) % 1 == 0).all()


def test_a_trees_probability_under_a_mixture_is_exact():
    x = np.linspace(0, 10, 40).reshape(-1, 1)
    tree = DecisionTreeClassifier(max_depth=1).fit(x, x[:, 0] > 5)
    cut = np.float32(tree.tree_.threshold[0])  # readings are compared as single precision
    cut = cut if cut <= tree.tree_.threshold[0] else np.nextafter(cut, np.float32(-np.inf))
    cut = (float(cut) + float(np.nextafter(cut, np.float32(np.inf)))) / 2
    noise = du.Independent([METER])
    report = du.evaluate(du.Nature(tree, noise), du.Dataset(x[[4, 18]], [0, 0]), progress=False)
    truth = cdf(cut - x[[4, 18], 0])
    low = report.table["probability_low"].to_numpy()
    high = report.table["probability_high"].to_numpy()
    assert (low <= truth + 1e-12).all() and (truth - 1e-12 <= high).all()
    assert (high - low < 1e-6).all()


def test_a_copula_ties_mixtures_and_a_level_turns_them_up():
    tied = du.Copula([METER, du.noise.normal(0, 2)], rank_correlation=[[1, 0.8], [0.8, 1]])
    drawn = tied.sample(np.zeros((1, 2)), 20_000, np.random.default_rng(1))[0]
    assert scipy.stats.spearmanr(drawn).statistic == pytest.approx(0.8, abs=0.02)
    assert scipy.stats.kstest(drawn[:, 0], cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    "parts, weights, said",
    [
        ((), (), "expected marginals"),
        ((du.noise.normal(sd=1),), (0.5,), "not to 1"),
        ((du.noise.normal(sd=1),), (0.5, 0.5), "expected 1 numbers"),
        ((du.noise.normal(sd=1), du.noise.normal(sd=2)), (1.5, -0.5), "above 0"),
    ],
)
def test_what_is_no_mixture_is_refused(parts, weights, said):
    with pytest.raises(DurometerError, match=said):
        du.noise.Mixture(parts, weights)
