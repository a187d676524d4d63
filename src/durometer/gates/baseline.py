"""A baseline: an earlier run that a criterion is paired with, row by row.

Two rows are partners where the id and the contents of the input are the same. Rows without a
partner decide nothing; they are counted and named: not in the baseline (it was stopped early, or
played on other data), or there by the same id with another input.

What a reader would get wrong: a baseline that stopped early did so because of what it saw, and its
rows are a little lucky. Played in the same order (the same seed and ids) the paired bets are valid
nevertheless, since its stop is a stopping time for both; in another order that is measured, not
proven: at the bound 1.4 % of 500 simulated runs were decided (`benchmarks/gate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from durometer.core.spec import Spec
from durometer.gates.criterion import Criterion
from durometer.report.comparison import Comparison
from durometer.report.metrics import played
from durometer.report.report import Report

if TYPE_CHECKING:
    from collections.abc import Hashable

_THREAT = ("space", "goal", "attack", "noise")  # what the two should have in common


@dataclass(frozen=True)
class Baseline:
    """What each row of the baseline gives to the figure, at least and at most, by its key."""

    least: pd.Series[float]
    most: pd.Series[float]
    ids: frozenset[str]
    spec: Spec

    @classmethod
    def of(cls, criterion: Criterion) -> Baseline | None:
        """The baseline that a criterion names, read; None where it names none."""
        if criterion.baseline is None:
            return None
        report = Report.load(Path(criterion.baseline))
        table = report.table[report.table["skipped"] == ""]
        least, most = by_input(criterion, table)
        ids = frozenset(table["id"].astype(str))
        return cls(least, most, ids, report.spec)

    def other_threat(self, spec: Spec) -> tuple[str, ...]:
        """In which parts of the threat the two runs differ."""
        return tuple(k for k in _THREAT if spec.text(k) != self.spec.text(k))


def row_keys(table: pd.DataFrame) -> list[str]:
    """An input is its id and the digest of its contents: another by the same name is another."""
    return [f"{i} {d}" for i, d in zip(table["id"], table["input"], strict=True)]


def by_input(
    criterion: Criterion, table: pd.DataFrame
) -> tuple[pd.Series[float], pd.Series[float]]:
    """The two ends of what each input gives; several runs of a random player are their mean."""
    key = row_keys(table)
    series = [pd.Series(end, index=key) for end in criterion.rows(table)]
    if len(set(key)) < len(key):
        series = [s.groupby(level=0, sort=False).mean() for s in series]
    return series[0].dropna(), series[1].dropna()


def id_of(key: Hashable) -> str:
    """The id in a key."""
    return str(key).rpartition(" ")[0]


def compared(report: Report, other: Report) -> Comparison | None:
    """The two reports on the rows that are the same input in both; None where there are none."""
    mine, theirs = (
        r.table[played(r.table)].set_index(["id", "run", "input"]) for r in (report, other)
    )
    shared = mine.index.intersection(theirs.index)
    return Comparison(mine.loc[shared], theirs.loc[shared]) if len(shared) else None
