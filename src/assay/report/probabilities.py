"""Figures of the game without an adversary: probabilities per record, not successes.

The mean over records is reported with two different widths in mind: the interval printed is over
the *records* (bootstrap); how far the per-record bounds are apart is a figure of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assay.report.stats import Estimate, bootstrap, wilson

if TYPE_CHECKING:
    from assay.report.report import Report

SURE = 0.99


def figures(report: Report) -> dict[str, tuple[str, Estimate]]:
    """Name -> (title, estimate); empty where no record has a probability."""
    c = report.records.columns
    low, high = c["probability_low"], c["probability_high"]
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return {}
    ids = c["id"][known]
    middle = (low[known] + high[known]) / 2
    return {
        "robust": ("probability that the answer stays", bootstrap(middle, ids)),
        "sure": (
            f"records that stay with probability {SURE}",
            wilson(int((low[known] >= SURE).sum()), int(known.sum())),
        ),
        "width": ("width of the bounds per record", bootstrap(high[known] - low[known], ids)),
    }
