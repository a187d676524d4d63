"""Rows and runs both random: the interval covers both kinds of luck (Owen's pigeonhole
bootstrap)."""

import numpy as np

from durometer.report.stats import bootstrap


def drawn(rng, rows=40, runs=8):
    """Values of a table whose runs differ much and whose rows differ little; the mean is 0."""
    i, j = (v.ravel() for v in np.meshgrid(np.arange(rows), np.arange(runs), indexing="ij"))
    luck = rng.normal(0, 1, runs)[j] + rng.normal(0, 0.3, rows)[i]
    return luck + rng.normal(0, 0.1, len(i)), i, j


def test_runs_that_differ_widen_the_interval():
    values, rows, runs = drawn(np.random.default_rng(0))
    both = bootstrap(values, rows, second=runs)
    by_rows = bootstrap(values, rows)
    assert both.high - both.low > 3 * (by_rows.high - by_rows.low)
    swapped = bootstrap(values, runs, second=rows)  # neither kind is the other's servant
    assert abs((swapped.high - swapped.low) / (both.high - both.low) - 1) < 0.1


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(150):
        values, rows, runs = drawn(rng, rows=20, runs=12)
        found = bootstrap(values, rows, draws=200, second=runs)
        covered += found.low <= 0 <= found.high
    assert covered >= 0.85 * 150  # 95 % in the limit; rows alone cover about a fifth


def test_a_table_of_rows_alone_is_the_ordinary_bootstrap():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, 60)
    one = bootstrap(values, np.arange(60), second=np.zeros(60, int))
    plain = bootstrap(values, np.arange(60))
    assert abs((one.high - one.low) / (plain.high - plain.low) - 1) < 0.1
