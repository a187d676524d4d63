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
_VALUES = 20  # of a column that are kept apart


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


@dataclass(frozen=True)
class Segment:
    """The rows of one value of a column, or of one range of a number."""

    value: str
    robust: Estimate


def segments(
    values: np.ndarray, held: np.ndarray, ids: np.ndarray, runs: np.ndarray
) -> list[Segment]:
    """The share of rows that held, by the values of a column: worst first.

    Numbers with many values are cut at their quartiles; of many texts the most frequent are kept
    apart. Intervals are widened so that all of them hold at once.

    Args:
        values: One value per row; None and NaN are a part of their own.
        held: What each row gives: 1, 0, or a probability.
        ids: The example of each row.
        runs: The run of each row.
    """
    names = _parts(values)
    known = sorted(set(names.tolist()))
    level = 1 - 0.05 / max(1, len(known))
    found = []
    for name in known:
        at = names == name
        found.append(Segment(name, _share(held[at], ids[at], runs[at], level)))
    return sorted(found, key=lambda s: (s.robust.value, s.robust.high, s.value))


def _parts(values: np.ndarray) -> np.ndarray:
    """The name of each row's part."""
    import pandas as pd

    column = pd.Series(values)
    missing = column.isna().to_numpy(bool)
    named = np.full(len(column), "missing", dtype=object)
    rest = column[~missing]
    if pd.api.types.is_numeric_dtype(rest) and rest.nunique() > _VALUES:
        edges = np.unique(np.quantile(rest.to_numpy(float), [0, 0.25, 0.5, 0.75, 1]))
        numbers, last = rest.to_numpy(float), len(edges) - 2
        place = np.clip(np.searchsorted(edges, numbers, "right") - 1, 0, last)
        ends = [f"[{edges[k]:.4g}, {edges[k + 1]:.4g}{')]'[k == last]}" for k in range(last + 1)]
        named[~missing] = np.array(ends, dtype=object)[place]
        return named
    texts = rest.astype(str)
    frequent = set(texts.value_counts().index[:_VALUES])
    named[~missing] = texts.where(texts.isin(frequent), "other values").to_numpy(object)
    return named


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
