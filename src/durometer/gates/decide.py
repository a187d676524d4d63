"""Pass, fail or undecided: criteria decided from rows as they come, valid whenever it stops.

For each criterion two mixtures of bets run side by side (`evidence.py`): one against "the figure is
below its bound", whose success is a pass, and one against "it is above", whose success is a fail.
Each may err with probability alpha, and so may the gate: where the criterion holds only a fail is
wrong, where it does not only a pass, however often one looks. It is looked at after every chunk,
which errs less often than after every row and costs no row more: chunks are played to their end.

Several criteria: the gate passes when all pass, which needs no correction (for a wrong pass the
one criterion that does not hold would have to pass), and fails when one fails, so that each of k
gets alpha / k for failing.

What a reader would get wrong: rows that are neither broken nor proven (`open`) count as the figure
says: not broken for `robust`, not proven for `proven`. They are counted in the outcome by name.

How many further rows would probably decide a criterion: the run played on, many times over.

Shares of the values seen are drawn anew (Dirichlet: so many rows know them no better), rows are
drawn with these shares, and both sides' bets go on from where they stand. The answer is the median
of the rows until either of them suffices: half of the continuations are decided by then.

What a reader would get wrong: log wealth per row, drawn on as a line, is far off. Early rows pay
for the spreading of the bets, and a wealth that wavers reaches its goal sooner than one that climbs
steadily. Nor does the figure's mean suffice: of a paired criterion most rows give the same, and it
is decided tens of times sooner than a share with that mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from durometer.core.errors import DurometerError, nearest
from durometer.core.spec import GateSpec, Spec
from durometer.core.streams import Stream, keys
from durometer.gates.baseline import Baseline, by_input, id_of
from durometer.gates.criterion import Criterion
from durometer.gates.evidence import Evidence
from durometer.gates.properties import PropertyReport
from durometer.kernels.arrays import Floats
from durometer.report.checks import incomplete
from durometer.report.report import CLASSES, Report
from durometer.report.stats import Estimate, bootstrap, wilson

EXIT = {"pass": 0, "fail": 1, "undecided": 2}
IN_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}  # of a gate as a whole
SHOWN = 3  # ids that are named
CHUNK = 64  # inputs between two looks at a report that does not say


@dataclass(frozen=True)
class Decision:
    """The decision on one criterion.

    Args:
        criterion: The criterion.
        outcome: "pass", "fail" or "undecided".
        estimate: The figure, with its 95 % interval.
        rows: Rows after which it was decided.
        open: Rows that are neither broken nor proven.
        more: Further rows that would probably decide it, where it is undecided; infinite where
            nothing points either way.
        missing: With a baseline: ids of rows that are not in it.
        changed: With a baseline: ids of rows that are other inputs there.
        unmet: With a baseline: number of its rows that this run lacks.
        other_threat: With a baseline: what else differs, e.g. the space.
    """

    criterion: Criterion
    outcome: str
    estimate: Estimate
    rows: int
    open: int = 0
    more: float = math.inf
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unmet: int = 0
    other_threat: tuple[str, ...] = ()

    @property
    def wanting(self) -> str:
        """How many more rows would probably decide it, in words."""
        if math.isinf(self.more):
            return "nothing points either way yet"
        if self.more > 1e6:
            return "more than a million further rows would probably decide it"
        rows = f"some {math.ceil(self.more / 10) * 10:,} further rows would probably decide it"
        if self.missing:
            rows += f", once {self.criterion.baseline} is played on them too"
        return rows

    @property
    def unpaired(self) -> str:
        """What this run and its baseline do not have in common, in words; empty where all is
        paired.
        """
        where = self.criterion.baseline
        said = [
            f"{len(ids):,} rows {what} and decide nothing ({_few(ids)})"
            for ids, what in ((self.missing, f"are not in {where}"),
                              (self.changed, f"are other inputs in {where}"))
            if ids
        ]  # fmt: skip
        if self.unmet:
            said.append(f"{self.unmet:,} rows of {where} are not in this run")
        if self.other_threat:
            said.append(f"{where} was played with another {' and '.join(self.other_threat)}")
        return "; ".join(said)

    def __str__(self) -> str:
        text = f"{self.outcome:<9}  {self.criterion}    {self.estimate}"
        if self.open:
            text += f"; {self.open} open"
        if self.outcome == "undecided":
            text += f"; {self.wanting}"
        return f"{text}; {self.unpaired}" if self.unpaired else text


def _few(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")


@dataclass(frozen=True)
class Outcome:
    """The decision of a gate: "pass" if all criteria pass, "fail" if one fails, else "undecided".

    Args:
        decisions: One decision per criterion.
        alpha: Share of wrong decisions that was accepted.
        report: The report on the rows played. None where there is none.
        properties: What became of the claims about the whole model. None: there are none.
        folder: Where the report is kept. None: in memory only.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10))
    >>> made = du.gate(report, ["robust >= 0.95", "clean >= 0.1"])
    >>> made.outcome, made.exit_code, [d.outcome for d in made.decisions]
    ('fail', 1, ['fail', 'pass'])
    """

    decisions: tuple[Decision, ...]
    alpha: float
    report: Report | None = field(default=None, compare=False, repr=False)  # on the rows played
    folder: Path | None = None  # where that is kept
    properties: PropertyReport | None = None

    @property
    def outcome(self) -> str:
        """The decision: "pass", "fail" or "undecided"."""
        claims = () if self.properties is None else self.properties.outcomes
        return _together([*(d.outcome for d in self.decisions), *claims])

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0 pass, 1 fail, 2 undecided."""
        return EXIT[self.outcome]

    def __bool__(self) -> bool:
        return self.outcome == "pass"

    def __str__(self) -> str:
        lines = [f"  {d}" for d in self.decisions]
        if self.properties is not None:
            lines += [f"  {line}" for line in str(self.properties).splitlines()]
        how = "decided by proof"
        if self.decisions:
            how = f"wrong in at most {self.alpha:.0%} of such decisions, whenever it stops"
        return "\n".join([f"gate: {IN_WORDS[self.outcome]} ({how})", *lines])


def _together(outcomes: Iterable[str]) -> str:
    found = set(outcomes)
    return "fail" if "fail" in found else "pass" if found == {"pass"} else "undecided"


class _Watched:
    """One criterion on its way: its two bets, and what the rows gave so far."""

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion
        paired = criterion.baseline is not None
        bound = (1 - criterion.bound) / 2 if paired else criterion.bound
        # that it is above, that it is below
        self.sides = Evidence(bound, paired), Evidence(1 - bound, paired)
        self.rows: list[tuple[Floats, Floats]] = []  # what they gave to either side
        self.crossed: dict[str, int] = {}  # outcome -> the rows after which its evidence sufficed
        self.open = 0
        self.missing: tuple[str, ...] = ()  # rows that the baseline has not
        self.changed: tuple[str, ...] = ()  # rows that are other inputs there
        self.other_threat: tuple[str, ...] = ()

    @cached_property
    def baseline(self) -> Baseline | None:
        """Read when it is needed: a criterion can be spoken of where its baseline is not."""
        return Baseline.of(self.criterion)

    @property
    def outcome(self) -> str:
        crossed = self.crossed
        return min(crossed, key=lambda o: crossed[o]) if crossed else "undecided"

    def _ordered(self, passing: Any, failing: Any) -> tuple[Any, Any]:
        """Of what belongs to passing and to failing: of the side above, of the side below."""
        return (failing, passing) if self.criterion.at_most else (passing, failing)

    def add(self, table: pd.DataFrame, goals: tuple[float, float], spec: Spec) -> None:
        c = self.criterion
        self.open += int((table["verdict"] == "open").sum())
        least, most = by_input(c, table)
        if self.baseline is not None:
            least, most = self._paired(self.baseline, least, most, spec)
        ends: tuple[Floats, Floats] = (
            np.asarray(least, dtype=np.float64), 1 - np.asarray(most, dtype=np.float64)
        )  # fmt: skip
        words, needed = self._ordered("pass", "fail"), self._ordered(*goals)
        for outcome, goal, evidence, end in zip(words, needed, self.sides, ends, strict=True):
            path = evidence.add(end)
            if len(path) and path[-1] >= goal:
                self.crossed.setdefault(outcome, evidence.rows)
        self.rows.append(ends)

    def _paired(
        self, baseline: Baseline, least: pd.Series[float], most: pd.Series[float],
        spec: Spec,
    ) -> tuple[pd.Series[float], pd.Series[float]]:  # fmt: skip
        """Differences to the baseline, brought to [0, 1], on the rows that both have."""
        lower, upper = (end.reindex(least.index) for end in (baseline.least, baseline.most))
        shared = lower.notna().to_numpy()
        alone = [id_of(key) for key in least.index[~shared]]
        self.missing += tuple(i for i in alone if i not in baseline.ids)
        self.changed += tuple(i for i in alone if i in baseline.ids)
        self.other_threat = baseline.other_threat(spec)
        return ((least - upper + 1) / 2)[shared], ((most - lower + 1) / 2)[shared]

    def decision(self, goals: tuple[float, float], whole: bool) -> Decision:
        parts = zip(*self.rows, strict=True) if self.rows else ((np.empty(0),), (np.empty(0),))
        above, below = (np.concatenate(part) for part in parts)
        x = (above + 1 - below) / 2
        if self.baseline is not None:
            estimate = bootstrap(2 * x - 1)
        elif np.isin(x, (0, 1)).all():
            estimate = wilson(float(x.sum()), len(x))
        else:
            estimate = bootstrap(x)
        unmet = 0
        if self.baseline is not None and whole and self.criterion.column is None:
            unmet = len(self.baseline.least) - len(x) - len(self.changed)
        rows, more = self.crossed.get(self.outcome, len(x)), math.inf
        if self.outcome == "undecided":
            more = expected_rows_to_decision(self.sides, (above, below), self._ordered(*goals))
        return Decision(
            self.criterion, self.outcome, estimate, rows, self.open, more,
            self.missing, self.changed, unmet, self.other_threat,
        )  # fmt: skip


class SequentialTest:
    """Criteria that are tested while a run goes on; the run stops when they are decided.

    Args:
        criteria: One criterion or several, as text or as `Criterion`.
        alpha: Share of wrong decisions to accept, between 0 and 1.

    Raises:
        DurometerError: There is no criterion, or `alpha` is no probability.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> test = du.SequentialTest("robust >= 0.95")
    >>> run = du.Run(until=test)
    >>> _ = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10), run=run)
    >>> print(test.outcome)
    gate: failed (wrong in at most 5% of such decisions, whenever it stops)
      fail       robust >= 0.95    0.312 [0.142, 0.556] (n = 16); 5 open
    """

    def __init__(self, criteria: Iterable[Criterion | str] | str, alpha: float = 0.05) -> None:
        given = [criteria] if isinstance(criteria, str) else criteria
        self.criteria = tuple(Criterion.parse(c) if isinstance(c, str) else c for c in given)
        if not self.criteria:
            raise DurometerError("gate: no criterion; expected e.g. ['robust >= 0.8']")
        if not 0 < alpha < 1:
            raise DurometerError(f"alpha={alpha}: expected a probability between 0 and 1")
        self.alpha = alpha
        self._start()
        self._goals = math.log(1 / alpha), math.log(len(self.criteria) / alpha)

    def begin(self) -> None:
        """Starts anew: forgets the rows of an earlier run, and reads the baselines."""
        self._start()
        for watched in self._watched:
            _ = watched.baseline

    def _start(self) -> None:
        self._watched = [_Watched(c) for c in self.criteria]
        self._seen: set[Any] = set()  # ids
        self._asked = math.inf  # rows that the run has

    def __str__(self) -> str:
        return "'" + "', '".join(map(str, self.criteria)) + "'"

    @property
    def asked(self) -> GateSpec:
        """The criteria and alpha, for a report's spec."""
        return GateSpec(tuple(str(c) for c in self.criteria), float(self.alpha))

    def add(self, table: pd.DataFrame, spec: Spec) -> bool:
        """Takes in the records of further rows.

        Args:
            table: Their records.
            spec: The spec of the run.

        Returns:
            Whether the criteria are decided, so that the run may stop.

        Raises:
            DurometerError: The goal is a quota, whose rows are pairs, or a criterion names no
                column.
        """
        if spec.quota is not None:
            raise DurometerError(
                f"gate {self}: a quota is about bands of several classes, and its rows are pairs; "
                "gate on another goal"
            )
        self._seen.update(table["id"])
        self._asked = spec.rows
        table = table[table["skipped"] == ""]
        for watched in self._watched:
            watched.add(_part(table, watched.criterion, spec), self._goals, spec)
        return _together(w.outcome for w in self._watched) != "undecided"

    @property
    def outcome(self) -> Outcome:
        """The decision so far, as an `Outcome`."""
        whole = len(self._seen) >= self._asked
        return Outcome(tuple(w.decision(self._goals, whole) for w in self._watched), self.alpha)


def decide(
    report: Report, criteria: Sequence[Criterion | str] | str, alpha: float = 0.05, seed: int = 0
) -> Outcome:
    """Decides criteria on the rows of a report, taken in random order.

    A run that was stopped early keeps the order in which it was played.

    Args:
        report: The report.
        criteria: One criterion or several, as text or as `Criterion`.
        alpha: Share of wrong decisions to accept, between 0 and 1.
        seed: Seed of the order.

    Returns:
        The `Outcome`.

    Raises:
        DurometerError: The run broke down half-way and was not in random order, or a criterion does
            not fit.
    """
    why = incomplete(report.flags)
    if why and report.spec.order != "random":
        raise DurometerError(
            f"gate: {why}; the rows there are do not speak for the others, for they were not "
            "played in random order: finish the run (--resume), or gate the run file"
        )
    table = report.table
    ids = table["id"].to_numpy()
    order = np.arange(len(ids))
    if report.spec.order != "random":
        unique, place = np.unique(ids.astype(str), return_inverse=True)
        draws = Stream(seed, keys(unique), purpose="gate").uniform(torch.arange(len(unique)), 1)
        order = draws[:, 0].numpy()[place].argsort(kind="stable")
    watch, table = SequentialTest(criteria, alpha), table.iloc[order]
    chunk = pd.factorize(table["id"])[0] // (report.spec.batch or CHUNK)
    for _, part in table.groupby(chunk, sort=True):
        watch.add(part, report.spec)
    return replace(watch.outcome, report=report)


def _part(table: pd.DataFrame, criterion: Criterion, spec: Spec) -> pd.DataFrame:
    """The rows the criterion speaks of."""
    column = criterion.column
    if column is None:
        return table
    if column not in table:
        raise DurometerError(
            f"criterion '{criterion}': no column '{column}'{nearest(column, table.columns)}"
        )
    named = spec.class_name if column in CLASSES else lambda value: value
    return table[[str(named(v)) == criterion.value for v in table[column]]]


FUTURES = 64
AT_MOST = 200  # times the rows seen: beyond that nothing is said
VALUES = 64  # kinds of rows that are told apart
STEPS = 25  # a step is this part of the rows seen and played on


def expected_rows_to_decision(
    sides: tuple[Evidence, Evidence], rows: tuple[Floats, Floats], goals: tuple[float, float]
) -> float:
    """Rows until one of two sides probably reaches its goal; `rows`: what each gave to either.

    Infinite where no bet of either side has gained so far: nothing points either way.

    >>> seen = np.tile([1.0, 1.0, 1.0, 1.0, 0.0], 20)
    >>> sides = Evidence(0.7), Evidence(0.3)
    >>> _ = sides[0].add(seen), sides[1].add(1 - seen)
    >>> 20 < expected_rows_to_decision(sides, (seen, 1 - seen), (math.log(40), math.log(40))) < 200
    True
    """
    n = len(rows[0])
    if not n or not any(side.gained for side in sides):
        return math.inf
    rng = np.random.default_rng(0)
    kinds, counts = _kinds(np.stack(rows, 1))
    shares = rng.dirichlet(counts + 1 / len(kinds), FUTURES)
    gains = [side.gains(kinds[:, k]) for k, side in enumerate(sides)]
    bets = [np.tile(side.bets, (FUTURES, 1)) for side in sides]
    played, decided = 0, np.full(FUTURES, math.inf)
    while played < AT_MOST * n and np.isfinite(decided).sum() < FUTURES / 2:
        step = max(1, (n + played) // STEPS)
        played += step
        drawn = rng.multinomial(step, shares)
        for k, side in enumerate(sides):
            bets[k] += drawn @ gains[k]
            reached = (side.wealth(bets[k]) >= goals[k]) & np.isinf(decided)
            decided[reached] = played
    return float(np.sort(decided)[FUTURES // 2 - 1])


def _kinds(rows: Floats) -> tuple[Floats, Floats]:
    """The different rows and how often each came; of very many, rows at even distances."""
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    if len(kinds) <= VALUES:
        return kinds, counts.astype(float)
    order = rows[np.argsort(rows.sum(1), kind="stable")]
    places = (np.arange(VALUES) + 0.5) * len(rows) / VALUES
    return order[places.astype(int)], np.full(VALUES, len(rows) / VALUES)
