"""Repeated measurements: an unbiased error, an interval that holds, and noise made of it."""

import numpy as np
import pandas as pd
import pytest

import durometer as du
from durometer.core.errors import DurometerError
from durometer.noise import from_replicates


def readings(seed, sd=(3.0, 0.2), specimens=25, repeats=2, rho=0.0):
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.normal([100, 5], [20, 1], (specimens, 2)), repeats, axis=0)
    cov = np.array([[1, rho], [rho, 1]]) * np.outer(sd, sd)
    x = truth + rng.multivariate_normal([0, 0], cov, len(truth))
    return x, np.repeat(np.arange(specimens), repeats)


def test_the_variance_is_unbiased_and_the_interval_holds_as_often_as_it_says():
    found = [from_replicates(*readings(seed)).table for seed in range(250)]
    variance = np.mean([t["sd"] ** 2 for t in found], axis=0)
    np.testing.assert_allclose(variance, [9.0, 0.04], rtol=0.05)  # naive residuals give half of it
    held = np.mean([(t["low"] < [3.0, 0.2]) & (t["high"] > [3.0, 0.2]) for t in found])
    assert 0.93 < held < 0.97


def test_by_hand():
    table = pd.DataFrame({"who": [*"aabbbc"], "mg": [1.0, 3.0, 4.0, 4.0, 7.0, 9.0]})
    found = from_replicates(table, "who")
    # (1 + 1) + (1 + 1 + 4) = 8 over 1 + 2 = 3 degrees of freedom; c was read once.
    assert found.table.loc["mg", "sd"] == pytest.approx(np.sqrt(8 / 3))
    assert found.table.loc["mg", "freedom"] == 3 and found.table.loc["mg", "specimens"] == 2
    assert np.isnan(found.residuals[5, 0])
    assert found.residuals[0, 0] == pytest.approx(-np.sqrt(2))


def test_noise_of_it_is_what_nature_takes():
    x, whose = readings(0, specimens=400, rho=0.6)
    found = from_replicates(x, whose)
    np.testing.assert_allclose(found.noise().sd, [3.0, 0.2], rtol=0.1)
    assert all(h > s for h, s in zip(found.noise("high").sd, found.noise().sd, strict=True))
    cov = np.asarray(found.noise(correlated=True).cov)
    assert cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]) == pytest.approx(0.6, abs=0.08)
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, x[:, 0] > 100)
    data = du.Dataset(x[:4], (x[:4, 0] > 100).astype(int))
    mild, wide = (
        du.evaluate(du.Nature(forest, found.noise(end)), data).table["probability_low"].mean()
        for end in ("low", "high")
    )
    assert mild >= wide - 1e-3


def test_an_error_that_grows_with_the_reading_is_said():
    rng = np.random.default_rng(1)
    truth = np.repeat(rng.uniform(10, 200, 150), 3)
    grown = truth * (1 + 0.05 * rng.normal(size=450))
    flat = truth + 3 * rng.normal(size=450)
    found = from_replicates(np.stack([grown, flat], 1), np.repeat(np.arange(150), 3)).table
    assert found["grows"][0] > 0.3 and found["grows"][1] == 0


def test_missing_readings_are_left_out_and_too_few_refused():
    x, whose = readings(3)
    x[::7, 0] = np.nan
    found = from_replicates(x, whose).table
    assert found["freedom"][0] < found["freedom"][1] == 25
    with pytest.raises(DurometerError, match="0 repeats"):
        from_replicates(x[:3], [1, 2, 3])
    with pytest.raises(DurometerError, match="shape"):
        from_replicates(x, whose[:-1])
    with pytest.raises(DurometerError, match="no such column"):
        from_replicates(pd.DataFrame(x), "patient")
    with pytest.raises(DurometerError, match="end='top'"):
        from_replicates(*readings(0)).noise("top")
