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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from assay.errors import AssayError, nearest
from assay.gates.criterion import Criterion
from assay.gates.evidence import Evidence
from assay.report.checks import incomplete
from assay.report.report import CLASSES, Report, class_name
from assay.report.stats import Estimate, bootstrap, wilson
from assay.streams import Stream, keys

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

    @property
    def wanting(self) -> str:
        """How many rows more, in words."""
        if self.more > 1e6:
            return "more than a million further rows would probably decide it"
        return f"some {math.ceil(self.more / 10) * 10:,} further rows would probably decide it"

    def __str__(self) -> str:
        text = f"{self.outcome:<9}  {self.criterion}    {self.estimate}"
        if self.open:
            text += f"; {self.open} open"
        if self.outcome == "undecided":
            text += f"; {self.wanting}"
        return text


@dataclass(frozen=True)
class Outcome:
    """The decision of a gate: all criteria pass, one fails, or neither is shown.

    >>> Outcome((), 0.05).exit_code
    2
    """

    decisions: tuple[Decision, ...]
    alpha: float
    report: Report | None = field(default=None, compare=False, repr=False)  # on the rows played
    folder: Path | None = None  # where that is kept

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
        self.open += int((table["verdict"] == "open").sum())
        least, most = _by_id(c, table)
        if self.baseline is not None:
            known = self.baseline.reindex(least.index)
            if known.isna().any():
                raise AssayError(
                    f"criterion '{c}': {int(known.isna().sum())} of {len(known)} rows are not in "
                    "the baseline, or are other inputs there; play both on the same rows"
                )
            least, most = ((end - known + 1) / 2 for end in (least, most))
        high, low = ("fail", "pass") if c.at_most else ("pass", "fail")
        goals = {"pass": passing, "fail": failing}
        sides = ((high, self.above, least.to_numpy()), (low, self.below, 1 - most.to_numpy()))
        for outcome, evidence, side in sides:
            path = evidence.add(side)
            if (path >= goals[outcome]).any():
                first = int((path >= goals[outcome]).argmax()) + 1
                self.crossed.setdefault(outcome, evidence.rows - len(path) + first)
        self.values.append(np.asarray((least + most) / 2, dtype=np.float64))

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
    """Criteria that are looked at after every chunk of a run whose rows come in random order.

    >>> [str(c) for c in Watch("robust >= 0.8").criteria]
    ['robust >= 0.8']
    """

    def __init__(self, criteria: Iterable[Criterion | str] | str, alpha: float = 0.05) -> None:
        given = [criteria] if isinstance(criteria, str) else criteria
        self.criteria = tuple(Criterion.parse(c) if isinstance(c, str) else c for c in given)
        if not self.criteria:
            raise AssayError("gate: no criterion; expected e.g. ['robust >= 0.8']")
        if not 0 < alpha < 1:
            raise AssayError(f"alpha={alpha}: expected a probability between 0 and 1")
        self.alpha = alpha
        self.begin()
        self._goals = math.log(2 / alpha), math.log(2 * len(self.criteria) / alpha)

    def begin(self) -> None:
        """A run begins: evidence of an earlier one does not count."""
        self._watched = [_Watched(c, _baseline(c)) for c in self.criteria]

    def __str__(self) -> str:
        return "'" + "', '".join(map(str, self.criteria)) + "'"

    @property
    def asked(self) -> dict[str, Any]:
        """What was fixed beforehand, as plain values."""
        return {"criteria": [str(c) for c in self.criteria], "alpha": self.alpha}

    def add(self, table: pd.DataFrame, spec: dict[str, Any]) -> bool:
        """See further rows; whether the gate is decided."""
        if "quota" in spec:
            raise AssayError(
                f"gate {self}: a quota is about bands of several classes, and its rows are pairs; "
                "gate on another goal"
            )
        table = table[table["skipped"] == ""]
        for watched in self._watched:
            watched.add(_part(table, watched.criterion, spec), *self._goals)
        return self.outcome.outcome != "undecided"

    @property
    def outcome(self) -> Outcome:
        return Outcome(tuple(w.decision(*self._goals) for w in self._watched), self.alpha)


def decide(
    report: Report, criteria: Sequence[Criterion | str] | str, alpha: float = 0.05, seed: int = 0
) -> Outcome:
    """Decide the criteria on a report's rows, in random order.

    A run that was stopped early keeps the order it was played in: shuffling rows after a stop would
    be a second look at the same evidence. Of a run that broke down the first rows are there, and
    they need not be like the others: nothing is decided.
    """
    why = incomplete(report.flags)
    if why and report.spec.get("order") != "random":
        raise AssayError(
            f"gate: {why}; the rows there are do not speak for the others, for they were not "
            "played in random order: finish the run (--resume), or gate the run file"
        )
    table = report.table
    ids = table["id"].to_numpy()
    order = np.arange(len(ids))
    if report.spec.get("order") != "random":
        unique, place = np.unique(ids.astype(str), return_inverse=True)
        draws = Stream(seed, keys(unique), purpose="gate").uniform(torch.arange(len(unique)), 1)
        order = draws[:, 0].numpy()[place].argsort(kind="stable")
    watch = Watch(criteria, alpha)
    watch.add(table.iloc[order], report.spec)
    return replace(watch.outcome, report=report)


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


def _by_id(criterion: Criterion, table: pd.DataFrame) -> tuple[pd.Series[float], pd.Series[float]]:
    """The two ends of what each input gives; several runs of a random player count as their mean.

    An input is its id and the digest of its contents: another input by the same name is another.
    """
    ends = criterion.rows(table)
    key = [f"{i} {d}" for i, d in zip(table["id"], table["input"], strict=True)]
    series = [pd.Series(end, index=key) for end in ends]
    if len(set(key)) < len(key):
        series = [s.groupby(level=0, sort=False).mean() for s in series]
    return series[0].dropna(), series[1].dropna()


def _baseline(criterion: Criterion) -> pd.Series[float] | None:
    """What each row of the baseline run gives to the figure."""
    if criterion.baseline is None:
        return None
    table = Report.load(Path(criterion.baseline)).table
    least, most = _by_id(criterion, table[table["skipped"] == ""])
    return (least + most) / 2
