"""Correlations of one, and mass that lies no lattice point saw: intervals hold the truth."""

import resource
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats
from sklearn.tree import DecisionTreeClassifier

import durometer as du
from durometer.noise.normal_boxes import QUANTILE, SHIFTS, estimates, normal_boxes
from durometer.probability.methods import probability
from durometer.trees.readers import read


@pytest.fixture
def little_memory():
    """A mistake of this kind asks for 30 GiB: it must fail here and not stop the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def two_units(sign):
    """A tree on degrees Celsius and Fahrenheit that splits on both."""
    c = np.linspace(0, 10, 41)
    f = sign * 1.8 * c + 32
    x = np.stack([c, f], 1)
    grid = np.stack(np.meshgrid(c, f), -1).reshape(-1, 2)
    y = (grid[:, 0] > 5.05) & (sign * (grid[:, 1] - 32) / 1.8 < 7.05)
    return x, read(DecisionTreeClassifier(random_state=0).fit(grid, y))


@pytest.mark.parametrize("sign", [1, -1])
def test_perfect_rank_correlation_is_exact_and_cheap(sign, little_memory):
    x, tree = two_units(sign)
    noise = du.noise.from_data(x, ratio=10)
    sd = noise.marginals(2)[0].params[1]
    rows = x[[3, 18, 22, 30]]
    found = probability(tree, noise, rows, np.ones(4, dtype=int))
    # class 1 is 5.05.. < celsius < 7.05..; the tree's cuts are halfway between values of the grid
    low, high = 5.125, 7.125
    truth = stats.norm.cdf((high - rows[:, 0]) / sd) - stats.norm.cdf((low - rows[:, 0]) / sd)
    assert (found.low <= truth + 1e-6).all()  # cuts of scikit-learn are of float32 columns
    assert (truth - 1e-6 <= found.high).all()
    assert found.width.max() < 1e-9


@pytest.mark.parametrize("rho", [1 - 1e-16, 1 - 1e-13, 1 - 1e-10, 1 - 1e-7, 0.999, -1 + 1e-13, -1])
def test_rectangles_under_correlations_near_one(rho, little_memory):
    a = np.array([[-0.3, -0.2], [0.0, 0.0], [-1.0, -8.0], [2.0, 2.0]])
    b = np.array([[0.7, 0.1], [9.0, 9.0], [1.0, 0.0], [3.0, 2.5]])
    got, _ = normal_boxes(a, b, np.array([[1.0, rho], [rho, 1.0]]))
    t = np.linspace(-9, 9, 2_000_001)
    s = np.sqrt((1 - rho) * (1 + rho))
    for k in range(len(a)):
        if s == 0:
            lo, hi = sorted((np.sign(rho) * a[k, 1], np.sign(rho) * b[k, 1]))
            lo, hi = max(lo, a[k, 0]), min(hi, b[k, 0])
            truth = max(stats.norm.cdf(hi) - stats.norm.cdf(lo), 0)
        else:
            inner = stats.norm.cdf((b[k, 1] - rho * t) / s) - stats.norm.cdf(
                (a[k, 1] - rho * t) / s
            )
            inside = (t >= a[k, 0]) & (t <= b[k, 0])
            truth = np.trapezoid(np.where(inside, stats.norm.pdf(t) * inner, 0.0), t)
        assert got[k] == pytest.approx(truth, abs=1e-5)


def test_copula_of_perfect_ranks_is_one_and_not_nearly_one():
    for sign in (1.0, -1.0):
        rho = np.array([[1.0, sign], [sign, 1.0]])
        noise = du.Copula([du.noise.normal(0, 1), du.noise.normal(0, 2)], rank_correlation=rho)
        assert noise.correlation(2)[0, 1] == sign
        assert noise.moved < 1e-15


def test_three_features_of_which_two_are_one(little_memory):
    r = np.array([[1.0, 1.0, 0.4], [1.0, 1.0, 0.4], [0.4, 0.4, 1.0]])
    a, b = np.array([[-0.5, 0.1, -1.0]]), np.array([[0.8, 2.0, 0.5]])
    got, _ = normal_boxes(a, b, r)
    same, _ = normal_boxes(
        np.array([[0.1, -1.0]]), np.array([[0.8, 0.5]]), np.array([[1.0, 0.4], [0.4, 1.0]])
    )
    assert got[0] == pytest.approx(same[0], abs=1e-12)


def test_rank_one_covariance_holds_rare_mass():
    """One number behind three features: leaves are intervals of it, far out as well."""
    load = np.array([1.0, 0.5, -2.0])
    noise = du.Normal(cov=np.outer(load, load))
    t = np.linspace(-8, 8, 400)
    x = t[:, None] * load
    y = (t > 5.5) & (t < 6.5)
    grown = DecisionTreeClassifier(random_state=0).fit(x, y)
    tree = read(grown)
    found = probability(tree, noise, np.zeros((1, 3)), np.ones(1, dtype=int))
    fine = np.linspace(-9, 9, 1_800_001)
    truth = np.trapezoid(
        stats.norm.pdf(fine) * grown.predict((fine[:, None] * load).astype(np.float32)), fine
    )
    assert 1e-9 < truth < 1e-7
    assert found.low[0] <= truth <= found.high[0] + 1e-13
    assert found.width[0] < 1e-6


def test_unseen_mass_is_bounded():
    """A thin slab of three dimensions that a coarse lattice passes by."""
    r = np.full((3, 3), 0.9999) + 0.0001 * np.eye(3)
    a = np.array([[2.0, -np.inf, -9.0]])
    b = np.array([[9.0, 1.96, 1.97]])
    value, more = estimates(a, b, r, points=64)
    draws = np.random.default_rng(0).standard_normal((1_000_000, 4))
    z = np.sqrt(0.9999) * draws[:, :1] + np.sqrt(0.0001) * draws[:, 1:]
    truth = ((z > a) & (z <= b)).all(1).mean()
    half = QUANTILE * value.std(0, ddof=1) + more
    assert value.mean(0)[0] - half[0] <= truth <= value.mean(0)[0] + half[0]
    seen, more = estimates(np.full((1, 3), -1.0), np.full((1, 3), 1.0), r, points=1024)
    assert more[0] == 0.0
    assert seen.std() < 0.01


def test_unseen_mass_is_part_of_the_interval(monkeypatch):
    from durometer.probability import methods

    def blind(*given):
        value, more = estimates(*given)
        return 0 * value, more + 1e-3

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    tree = read(DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, x.sum(1) > 0))
    r = np.array([[1.0, 0.7, -0.3], [0.7, 1.0, 0.35], [-0.3, 0.35, 1.0]])
    monkeypatch.setattr(methods, "estimates", blind)
    monkeypatch.setattr(methods, "factors", lambda tied: None)
    _, high, kind = methods.distribution(tree, du.Normal(cov=0.2 * r), x[:2])
    assert kind == "numerical"
    assert (high >= 1e-3).all()


def test_the_quantile_of_the_spread_is_students():
    t_quantile = float(special.stdtrit(SHIFTS - 1, 0.9995))
    assert pytest.approx(t_quantile / np.sqrt(SHIFTS), rel=1e-14) == QUANTILE
