"""The worst slices of a run: where robustness is lowest, with intervals that hold for all at once.

Whoever picks the worst of k parts after looking at all of them has looked k times. So each interval
is made at level 1 - 0.05 / k (Bonferroni): all of them together hold in 95 % of runs.

What a reader would get wrong: under noise a row gives a probability, not a 0 or 1. Wilson's
interval of their mean is then too wide, never too narrow. And an example that was played in several
runs is one example: its rows are not counted as independent ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from durometer.report.stats import Estimate, bootstrap, quantile, wilson

if TYPE_CHECKING:
    from durometer.report.report import Report

COLUMNS = {"y": "true class", "target": "class to be reached"}
LEAST = 5  # rows: of fewer nothing can be said


@dataclass(frozen=True)
class Slice:
    """The rows where `column` is `value`."""

    column: str
    value: str
    robust: Estimate
    of: int  # how many slices were looked at

    @property
    def title(self) -> str:
        return f"{COLUMNS[self.column]} {self.value}"


def worst_slices(report: Report, most: int = 5) -> list[Slice]:
    """The slices with the lowest robustness, worst first; none of a quota, whose rows are pairs."""

    if report.spec.quota is not None:
        return []
    table = report.table[report.table["skipped"] == ""]
    middle = (table["probability_low"] + table["probability_high"]).to_numpy(float) / 2
    held = np.where(np.isfinite(middle), middle, ~table["success"].to_numpy(bool)).astype(float)
    ids, runs = (table[column].to_numpy() for column in ("id", "run"))
    name = report.spec.class_name
    parts = []
    for column in COLUMNS:
        values = table[column].to_numpy()
        known = np.unique(values[values >= 0])
        if len(known) > 1:
            parts += [(column, v, values == v) for v in known]
    parts = [p for p in parts if len(np.unique(ids[p[2]])) >= LEAST]
    level = 1 - 0.05 / max(1, len(parts))
    found = [
        Slice(column, str(name(v)), _share(held[at], ids[at], runs[at], level), len(parts))
        for column, v, at in parts
    ]
    return sorted(found, key=lambda s: (s.robust.value, s.robust.high))[:most]


def _share(held: np.ndarray, ids: np.ndarray, runs: np.ndarray, level: float) -> Estimate:
    """The share that held; an example that was played in several runs counts once."""
    _, place = np.unique(ids, return_inverse=True)
    each = np.bincount(place, held) / np.bincount(place)
    once = wilson(float(each.sum()), len(each), quantile(level))
    if len(np.unique(runs)) < 2:
        return once
    both = bootstrap(held, ids, second=runs, level=level)
    value = float(held.mean())
    return Estimate(value, min(once.low, both.low), max(once.high, both.high), len(held))
