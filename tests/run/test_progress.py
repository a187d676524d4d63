"""The progress bar: what it says while inner loops compile."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from assay.records import Records
from assay.report.stats import wilson
from assay.run.progress import Progress


def test_the_bar_says_that_a_first_use_compiles() -> None:
    fresh = numba.njit(lambda x: 2 * x)
    with Progress(3, show=True) as bar:
        said: list[str] = []
        bar._live.update = lambda table: said.append(table.caption or "")
        fresh(np.ones(2))
        assert said == ["compiling inner loops (first use only)", ""]
        fresh(np.ones(2))  # compiled already
        assert len(said) == 2
    told = len(said)  # the last state is shown once more at the end
    fresh(np.ones((2, 2)))  # the bar is gone: nobody is told
    assert len(said) == told


def test_under_noise_the_bar_shows_probabilities() -> None:
    low = np.array([0.9, 0.4, 0.7, np.nan])
    part = Records.of(
        4, id=range(4), probability_low=low, probability_high=low + 0.1,
        success=[False, True, False, False], skipped=["", "", "", "no target"],
    )  # fmt: skip
    bar = Progress(4, show=False)
    bar.advance(part)
    assert bar.robust.n == 3 and bar.robust.value == pytest.approx((0.95 + 0.45 + 0.75) / 3)
    attacked = Progress(4, show=False)
    attacked.advance(Records.of(4, id=range(4), success=[True, False, False, False]))
    assert attacked.robust == wilson(3, 4)
