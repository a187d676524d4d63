"""Intervals and paired tests against independent oracles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from durometer.report import stats
from durometer.report.stats import (
    Estimate,
    at_most,
    bootstrap,
    mcnemar,
    paired_difference,
    wilcoxon,
    wilson,
)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(case):
    k, n = case
    theirs = sps.binomtest(k, n).proportion_ci(method="wilson")
    mine = wilson(k, n)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert (mine.value, mine.n) == (k / n, n)


@pytest.mark.parametrize(
    ("k", "n", "p"), [(0, 9, 0.5), (3, 70, 0.1), (70, 70, 0.1), (400, 1000, 0.5)]
)
def test_binomial_tail_is_scipys(k, n, p):
    assert at_most(k, n, p) == pytest.approx(sps.binom.cdf(k, n, p), rel=1e-9)
    assert at_most(0, 0, p) == 1.0


def test_of_nothing_nothing_is_known():
    for e in (wilson(0, 0), bootstrap(np.array([]))):
        assert e.n == 0 and math.isnan(e.value) and "n = 0" in str(e)


def test_bootstrap_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for k in range(200):
        e = bootstrap(rng.exponential(3.0, 80), draws=400, seed=k)
        hits += e.low <= 3.0 <= e.high
    assert 0.88 <= hits / 200 <= 0.99  # 0.95 but for skewness and 200 trials


def test_bootstrap_draws_clusters_whole():
    """Five copies of each value are five times the rows, but no more knowledge."""
    values = np.random.default_rng(0).normal(size=40)
    alone = bootstrap(values)
    copies = bootstrap(np.repeat(values, 5), np.repeat(np.arange(40), 5))
    naive = bootstrap(np.repeat(values, 5))
    assert copies.value == pytest.approx(alone.value)
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=0.1)
    assert naive.high - naive.low < 0.6 * (alone.high - alone.low)


def test_bootstrap_is_the_same_each_time():
    values = np.random.default_rng(0).normal(size=40)
    assert bootstrap(values) == bootstrap(values)


def test_the_closed_form_of_many_clusters_is_the_bootstrap(monkeypatch):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 6000, 9000)  # clusters of uneven size, skewed values
    values = rng.exponential(size=9000) + rng.normal(size=6000)[ids]
    monkeypatch.setattr(stats, "MANY", 10**9)
    drawn = bootstrap(values, ids)
    monkeypatch.setattr(stats, "MANY", 100)
    closed = bootstrap(values, ids)
    assert closed.value == pytest.approx(drawn.value) and closed.n == drawn.n
    width = drawn.high - drawn.low
    assert closed.low == pytest.approx(drawn.low, abs=0.04 * width)
    assert closed.high == pytest.approx(drawn.high, abs=0.04 * width)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(a, b):
    expected = min(1.0, 2 * sps.binom.cdf(min(a, b), a + b, 0.5)) if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected, abs=1e-9)


def test_wilcoxon_is_scipys_without_ties():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=30), rng.normal(0.3, size=30)
    assert wilcoxon(a, b) == pytest.approx(sps.wilcoxon(a, b).pvalue)
    assert wilcoxon(a, a) == 1.0


def test_paired_difference():
    a, b = np.array([True, True, False, True]), np.array([True, False, False, False])
    e = paired_difference(a, b)
    assert e.value == 0.5 and e.low <= 0.5 <= e.high and e.n == 4


def test_an_estimate_equals_its_value_and_another_one_with_the_same_interval():
    e = Estimate(0.5, 0.4, 0.6, 10)
    assert e == 0.5 and e != 0.4 and e == Estimate(0.5, 0.4, 0.6, 10)
    assert e != Estimate(0.5, 0.3, 0.7, 5) and e != "0.5" and hash(e) == hash(0.5)
