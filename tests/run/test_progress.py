"""The progress bar: what it shows of attacks and of noise."""

from __future__ import annotations

import numpy as np
import pytest

from durometer.core.records import Records
from durometer.report.stats import wilson
from durometer.run.progress import Progress


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
