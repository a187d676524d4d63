"""Pass, fail or undecided: criteria decided from rows as they come, valid whenever it stops.

For each criterion two mixtures of bets run side by side (`evidence.py`): one against "the figure is
below its bound", whose success is a pass, and one against "it is above", whose success is a fail.
Each may err with probability alpha / 2, so at the bound itself a decision of either kind comes in
at most alpha of all runs, however often one looks.

Several criteria: the gate passes when all pass, which needs no correction (for a wrong pass the
one criterion that does not hold would have to pass), and fails when one fails, so that each of k
gets alpha / (2 k) for failing.

What a reader would get wrong: rows that are neither broken nor proven (`open`) count as the figure
says: not broken for `robust`, not proven for `proven`. They are counted in the outcome by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from assay.errors import AssayError, nearest
from assay.gates.criterion import Criterion
from assay.gates.evidence import Evidence
from assay.report.report import CLASSES, Report, class_name
from assay.report.stats import Estimate, bootstrap, wilson
from assay.streams import Stream, keys

LOOK = 32  # rows between two looks at a report that is finished
EXIT = {"pass": 0, "fail": 1, "undecided": 2}


@dataclass(frozen=True)
class Decision:
    """What came of one criterion: after `rows` rows, of which `open` are neither broken nor proven.

    `more` is how many further rows would probably decide it, where it is undecided.
    """

    criterion: Criterion
    outcome: str
    estimate: Estimate
    rows: int
    open: int = 0
    more: float = 0.0

    def __str__(self) -> str:
        text = f"{self.outcome:<9}  {self.criterion}    {self.estimate}"
        if self.open:
            text += f"; {self.open} open"
        if self.outcome == "undecided":
            text += f"; {_rows(self.more)} would probably decide it"
        return text


def _rows(more: float) -> str:
    if more > 1e6:
        return "more than a million further rows"
    return f"some {math.ceil(more / 10) * 10:,} further rows"


@dataclass(frozen=True)
class Outcome:
    """The decision of a gate: all criteria pass, one fails, or neither is shown."""

    decisions: tuple[Decision, ...]
    alpha: float

    @property
    def outcome(self) -> str:
        outcomes = {d.outcome for d in self.decisions}
        return "fail" if "fail" in outcomes else "pass" if outcomes == {"pass"} else "undecided"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 undecided."""
        return EXIT[self.outcome]

    def __bool__(self) -> bool:
        return self.outcome == "pass"

    def __str__(self) -> str:
        wrong = f"wrong in at most {self.alpha:.0%} of such decisions, whenever it stops"
        return "\n".join([f"gate: {self.outcome} ({wrong})", *(f"  {d}" for d in self.decisions)])


class _Watched:
    """One criterion on its way: its two bets, and what the rows gave so far."""

    def __init__(self, criterion: Criterion, baseline: pd.Series[float] | None) -> None:
        self.criterion = criterion
        self.baseline = baseline
        bound = criterion.bound if baseline is None else (1 - criterion.bound) / 2
        self.above, self.below = Evidence(bound), Evidence(1 - bound)
        self.values: list[NDArray[np.float64]] = []
        self.crossed: dict[str, int] = {}  # outcome -> the row at which its evidence sufficed
        self.open = 0

    def add(self, table: pd.DataFrame, passing: float, failing: float) -> None:
        c = self.criterion
        self.open += int((table["verdict"] == "open").sum()) if "verdict" in table else 0
        x = c.rows(table)
        if self.baseline is not None:
            known = table["id"].isin(self.baseline.index).to_numpy(bool)
            x = x[known] - self.baseline.loc[table["id"][known]].to_numpy(float)
            x = (x + 1) / 2
        high, low = ("fail", "pass") if c.at_most else ("pass", "fail")
        goals = {"pass": passing, "fail": failing}
        for outcome, evidence, side in ((high, self.above, x), (low, self.below, 1 - x)):
            evidence.add(side)
            if evidence.log_wealth >= goals[outcome]:
                self.crossed.setdefault(outcome, evidence.rows)
        self.values.append(x)

    def decision(self, passing: float, failing: float) -> Decision:
        x = np.concatenate(self.values) if self.values else np.empty(0)
        if self.baseline is not None:
            estimate = bootstrap(2 * x - 1)
        elif np.isin(x, (0, 1)).all():
            estimate = wilson(float(x.sum()), len(x))
        else:
            estimate = bootstrap(x)
        if self.crossed:
            outcome = min(self.crossed, key=lambda o: self.crossed[o])
            return Decision(self.criterion, outcome, estimate, self.crossed[outcome], self.open)
        goals = (failing, passing) if self.criterion.at_most else (passing, failing)
        more = min(self.above.rows_to(goals[0]), self.below.rows_to(goals[1]))
        return Decision(self.criterion, "undecided", estimate, len(x), self.open, more)


class Watch:
    """Criteria that are looked at after every chunk of a run whose rows come in random order."""

    def __init__(
        self, criteria: Iterable[Criterion | str], alpha: float = 0.05, spec: Any = None
    ) -> None:
        given = [criteria] if isinstance(criteria, str) else criteria
        self.criteria = tuple(Criterion.parse(c) if isinstance(c, str) else c for c in given)
        if not self.criteria:
            raise AssayError("gate: no criterion; expected e.g. ['robust >= 0.8']")
        if not 0 < alpha < 1:
            raise AssayError(f"alpha={alpha}: expected a probability between 0 and 1")
        self.alpha = alpha
        self._watched = [_Watched(c, _baseline(c, spec)) for c in self.criteria]
        self._goals = math.log(2 / alpha), math.log(2 * len(self.criteria) / alpha)

    def add(self, table: pd.DataFrame, spec: dict[str, Any]) -> bool:
        """See further rows; whether the gate is decided."""
        table = table[table["skipped"] == ""]
        for watched in self._watched:
            watched.add(_part(table, watched.criterion, spec), *self._goals)
        return self.outcome.outcome != "undecided"

    @property
    def outcome(self) -> Outcome:
        return Outcome(tuple(w.decision(*self._goals) for w in self._watched), self.alpha)


def gate(
    report: Report, criteria: Sequence[Criterion | str] | str, alpha: float = 0.05, seed: int = 0
) -> Outcome:
    """Decide the criteria on a report's rows, in random order.

    >>> outcome = gate(report, ["robust >= 0.8", "proven >= 0.5"])      # doctest: +SKIP
    """
    table = report.table
    ids = table["id"].to_numpy()
    draws = Stream(seed, keys(ids), purpose="gate").uniform(torch.arange(len(ids)), 1)
    order = draws[:, 0].argsort().numpy()
    watch = Watch(criteria, alpha, report.spec)
    for start in range(0, len(order), LOOK):
        watch.add(table.iloc[order[start : start + LOOK]], report.spec)
    return watch.outcome


def _part(table: pd.DataFrame, criterion: Criterion, spec: dict[str, Any]) -> pd.DataFrame:
    """The rows the criterion speaks of."""
    column = criterion.column
    if column is None:
        return table
    if column not in table:
        raise AssayError(
            f"criterion '{criterion}': no column '{column}'{nearest(column, table.columns)}"
        )
    named = class_name(spec) if column in CLASSES else lambda value: value
    return table[[str(named(v)) == criterion.value for v in table[column]]]


def _baseline(criterion: Criterion, spec: Any) -> pd.Series[float] | None:
    """What each row of the baseline run gives to the figure, by id."""
    if criterion.baseline is None:
        return None
    other = Report.load(Path(criterion.baseline))
    mine, theirs = (dict(s or {}).get("data_hash") for s in (spec, other.spec))
    if mine is not None and theirs is not None and mine != theirs:
        raise AssayError(
            f"criterion '{criterion}': the baseline was played on other data (hash {theirs}, here "
            f"{mine}); play both on the same rows"
        )
    table = other.table[other.table["skipped"] == ""]
    return pd.Series(criterion.rows(table), index=table["id"])
