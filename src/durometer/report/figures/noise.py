"""Figures of the game without an adversary: probabilities per record, not successes.

The interval printed is over the *records* (bootstrap), from that of their lower bounds to that of
their upper ones: bounds of [0, 1] everywhere are no robustness of "0.500 [0.500, 0.500]". How far
the per-record bounds are apart is a figure of its own. Where
changes are rare, the mean of either end of the bounds is a figure, too: the middle between 1e-6 and
1e-4 would tell of the method, not of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from durometer.report.stats import Estimate, bootstrap, wilson

if TYPE_CHECKING:
    from durometer.report.report import Report

SURE = 0.99
RARE = 0.999  # above, three digits say nothing: how rarely the answer changes is said as well


def figures(report: Report) -> dict[str, tuple[str, Estimate]]:
    """Name -> (title, estimate); empty where no record has a probability."""
    c = report.records.columns
    low, high = c["probability_low"], c["probability_high"]
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return {}
    ids = c["id"][known]
    ends = bootstrap(low[known], ids), bootstrap(high[known], ids)
    middle = float((low[known] + high[known]).mean() / 2)
    robust = Estimate(middle, ends[0].low, ends[1].high, int(known.sum()))
    sure, open_ = (wilson(int((end[known] >= SURE).sum()), int(known.sum())) for end in (low, high))
    stays, changes = describe_noise(report)
    found = {"robust": (f"probability that {stays}", robust)}
    if robust.value > RARE:
        for name, end, bound in (("least", high, "at least"), ("most", low, "at most")):
            title = f"probability that {changes}, {bound}"
            found[f"changes_{name}"] = (title, bootstrap(1 - end[known], ids))
    return found | {
        "sure": (
            f"records {'that stay' if 'stays' in stays else 'unharmed'} with probability {SURE}",
            Estimate(sure.value, sure.low, open_.high, sure.n),
        ),
        "width": ("width of the bounds per record", bootstrap(high[known] - low[known], ids)),
    }


def describe_noise(report: Report) -> tuple[str, str]:
    """What the probabilities are of, and its opposite, in words: the goal decides."""
    if report.spec.is_untargeted:
        return "the answer stays", "the answer changes"
    return "the goal is not reached", "the goal is reached"
