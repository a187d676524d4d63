"""Report: what was asked (spec), what happened (records), what it means (metrics, flags).

Metrics are views: each is a function from the table of records to an `Estimate`, so a metric added
later works on runs saved earlier, and shards merge by concatenating rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from durometer.core.errors import DurometerError, nearest
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.report import changes
from durometer.report import folder as files
from durometer.report.checks import Flag
from durometer.report.comparison import Comparison
from durometer.report.examples import Examples
from durometer.report.figures import groups
from durometer.report.figures import noise as probabilities
from durometer.report.figures import transductive as rounds
from durometer.report.metrics import METRICS, played
from durometer.report.plausibility import plausibility
from durometer.report.radii import curve
from durometer.report.stats import Estimate
from durometer.report.totals import Totals
from durometer.report.wording import Setting
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.data.dataset import Dataset
    from durometer.report.plot import Plots

    By = str | Sequence[Hashable] | np.ndarray  # a column, or one value per row


CLASSES = ("y", "clean", "target", "final", "answer")  # columns that hold a class
_SHOWN = (
    "clean", "clean_played", "proven", "robust", "open", "success", "valid", "forwards", "backwards"
)  # fmt: skip


def _plain(value: Any) -> Hashable:
    """A cell as the key of a part: one that is missing is None, which can be looked up."""
    import pandas as pd

    if np.ndim(value) == 0 and pd.isna(value):
        return None
    key: Hashable = value.item() if isinstance(value, np.generic) else value
    return key


@dataclass(frozen=True, eq=False)
class Report:
    """The outcome of an evaluation: what was asked, what happened to each row, and what it means.

    Args:
        spec: What was asked: model, data, space, goal, attack, seed, versions, hashes.
        records: One row per example; as a data frame: `report.table`.
        flags: Warnings and notes about pitfalls, each with `id`, `text` and `level`.
        also: Reports on further goals on the same rows, by name.
        examples: A few successful attacks before and after, for the page. None where there are
            none.
        rows: The table of the data, indexed by id, for slices; None without a table.
        data: The data set. Not saved: None in a report that was loaded.
        totals: Counts over all rows of a run on `Parquet`, whose `records` are a sample. None
            otherwise.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10))
    >>> report.metric("robust").value
    0.3125
    >>> {int(k): e.value for k, e in report.metric("robust", by="y").items()}
    {0: 0.25, 1: 0.3, 2: 0.5}
    """

    spec: Spec
    records: Records
    flags: tuple[Flag, ...] = ()
    also: Mapping[str, Report] = field(default_factory=dict)  # other goals on the same rows
    examples: Examples | None = None  # a few successes before and after, to show
    rows: pd.DataFrame | None = field(
        default=None, repr=False
    )  # the table of the data, by id, for slices
    data: Dataset | None = field(default=None, repr=False)  # the data themselves; not saved
    totals: Totals | None = field(default=None, repr=False)  # of all rows; `records` are a sample

    @cached_property
    def table(self) -> pd.DataFrame:
        """The records as a data frame, one row per example; of a run on `Parquet` a sample of
        them.
        """
        import pandas as pd

        return pd.DataFrame(self.records.columns, copy=False)  # a million rows are not had twice

    @cached_property
    def _of_groups(self) -> dict[str, tuple[str, Estimate]]:
        return groups.figures(self) | rounds.figures(self) | probabilities.figures(self)

    @cached_property
    def adversarial(self) -> np.ndarray | None:
        """The adversarial inputs, in the order of `table`; clean where no attack succeeded. Of
        texts, the sentences as strings.
        """
        x = self.records.adversarial
        if x is None or not (
            token_ids.is_token_ids(x[:1]) and token_ids.is_token_ids(x)
        ):  # the first row is quick to ask
            return x
        return np.array(token_ids.sentences(torch.from_numpy(np.asarray(x))), dtype=object)

    def adversarial_frame(self) -> pd.DataFrame:
        """The rows that an attack changed, as a data frame in the types of the original table.

        Returns:
            A data frame indexed by id, with two more columns: `changed` (the names of the changed
                columns) and `distance`. Of texts: `text` and `adversarial` (the sentence before and
                after), `changed` (the words) and `distance`.

        Raises:
            DurometerError: The data have no columns, or the report was loaded without its data.
        """
        data, inputs = self.data, self.records.adversarial
        if data is not None and inputs is not None and token_ids.is_token_ids(data.x):
            return changes.text_frame(self.table, data, inputs)
        if data is None or inputs is None or data.columns is None:
            raise DurometerError(
                "there is no table to write the rows as: load the data and use "
                "data.frame(report.adversarial), or schema.frame(report.adversarial)"
            )
        places = {i: k for k, i in enumerate(data.ids.tolist())}
        at = np.nonzero(self.table["success"].to_numpy() & (self.table["winner"] != "clean"))[0]
        ids = self.table["id"].to_numpy()[at]
        clean = data.x[[places[i] for i in ids]].numpy()
        now = inputs[at]
        other = (clean != now) & ~(np.isnan(clean) & np.isnan(now))
        frame: pd.DataFrame = data.columns.frame(now)
        frame.index = ids
        names = np.array(data.columns.names)
        frame["changed"] = [", ".join(names[row]) for row in other]
        frame["distance"] = self.table["distance"].to_numpy()[at]
        return frame

    @overload
    def metric(self, name: str, by: None = None, over: str | int | None = None) -> Estimate: ...

    @overload
    def metric(
        self, name: str, by: By, over: str | int | None = None
    ) -> dict[Hashable, Estimate]: ...

    def metric(
        self, name: str, by: By | None = None, over: str | int | None = None
    ) -> Estimate | dict[Hashable, Estimate]:
        """Computes a metric, with its 95 % interval.

        Args:
            name: "clean", "clean_played" (of the rows played), "robust" (not broken), "proven",
                "broken", "open", "success", "valid", "blocked", "distance", "forwards",
                "backwards", "seconds", or a metric of the game or goal (see `shown`).
            by: Splits the rows: a column of the records, a column of the data's own table, or a
                list with one value per row.
            over: How several runs of a game with random players become one: "worst" (a row counts
                as broken if any run broke it), "majority", or a number k: "robust" where the
                attacker may hand in each input k times, from at least k runs. None: the mean over
                the runs.

        Returns:
            An `Estimate`; with `by` a dictionary of them, one per value. Classes go by their names.

        Raises:
            DurometerError: There is no such metric or column, or the metric cannot be split.
        """
        each = isinstance(by, list | tuple | np.ndarray) and len(by) == len(self.records)
        if not isinstance(name, str) or not (by is None or isinstance(by, str) or each):
            raise DurometerError(f"metric({name!r}, by={by!r}): expected names, e.g. 'robust'")
        if isinstance(over, int):
            return self._resubmitted(name, by, over)
        if over is not None:
            return Report(self.spec, rounds.over_runs(self.records, over)).metric(name, by)
        if by is not None:
            return self._split(name, by)
        if name in self._of_groups:
            return self._of_groups[name][1]
        if name not in METRICS:
            raise DurometerError(f"no metric '{name}'{nearest(name, {*METRICS, *self._of_groups})}")
        return METRICS[name][1](self.table if self.totals is None else self.totals.table)

    def _resubmitted(
        self, name: str, by: By | None, tries: int
    ) -> Estimate | dict[Hashable, Estimate]:
        """Robust accuracy where an input may be handed in so many times."""
        if name != "robust":
            raise DurometerError(f"metric({name!r}, over={tries}): tries are of 'robust'")
        if by is None:
            return rounds.resubmitted(self.records, tries)
        shown = self._class_name if isinstance(by, str) and by in CLASSES else _plain
        groups = self.table.groupby(self._values(by), observed=True, dropna=False).indices
        return {
            shown(value): rounds.resubmitted(self.records.take(np.asarray(rows)), tries)
            for value, rows in groups.items()
        }

    def _values(self, by: By) -> pd.Series:
        """One value per record to split by."""
        import pandas as pd

        if not isinstance(by, str):
            each = np.asarray(by)
            if each.shape != (len(self.table),):
                n = len(self.table)
                raise DurometerError(f"by= has shape {each.shape} for {n} records: expected ({n},)")
            return pd.Series(each)
        if by in self.table:
            return self.table[by]
        known = [*self.table.columns, *(() if self.rows is None else self.rows.columns)]
        if self.rows is None or by not in self.rows:
            raise DurometerError(f"no column '{by}' in the records or the data{nearest(by, known)}")
        values = pd.Series(self.rows[by].reindex(self.table["id"]).array)
        if values.nunique() > 100:
            raise DurometerError(
                f"column '{by}' has {values.nunique()} different values; give by= a list of groups,"
                " e.g. pandas.qcut(...), one per record"
            )
        return values

    def _split(self, name: str, by: By) -> dict[Hashable, Estimate]:
        """Each part is a report of its own, so that a figure means in parts what it means whole."""
        if isinstance(by, str) and self._counted(name, by):
            return self._split_totals(name, by)
        values = self._values(by)
        if self.spec.quota is not None and name in self._of_groups:
            raise DurometerError(
                f"'{name}' of a quota is about bands of several classes, and cannot be split by "
                f"'{by}'; report.table has the pairs"
            )
        names = self.spec.classes or ()
        clear = isinstance(by, str) and by in CLASSES and len(set(names)) == len(names)
        named: Callable[[Hashable], Hashable] = self._class_name if clear else _plain
        parts = {
            value: Report(self.spec, self.records.take(np.asarray(rows)))
            for value, rows in self.table.groupby(
                values, observed=True, dropna=False
            ).indices.items()
        }
        return {named(value): part.metric(name) for value, part in parts.items()}

    def _class_name(self, c: Hashable) -> Hashable:
        return self.spec.class_name(int(float(str(c))))

    def counts(
        self, column: str, among: Callable[[pd.DataFrame], pd.Series[bool]] | None = None
    ) -> dict[str, int]:
        """How many rows have each value of a column, most frequent first.

        Args:
            column: A column of the records, e.g. "verdict" or "winner".
            among: A function from the table to a mask; only these rows are counted. None: all rows.

        Returns:
            Value, as text -> number of rows.
        """
        t = self.table if self.totals is None else self.totals.table
        if among is not None:
            t = t.loc[among(t), [column, *(["rows"] if self.totals else [])]]
        found = t[column].value_counts()
        if self.totals is not None:
            found = t.groupby(column)["rows"].sum().sort_values(ascending=False, kind="stable")
        return {str(k): int(v) for k, v in found.items()}

    def _counted(self, name: str, by: str) -> bool:
        """Whether it can be read off the counts of all rows; else it is of the sample."""
        known = self.totals is not None and by in self.totals.table
        return known and name in METRICS and name not in self._of_groups

    def _split_totals(self, name: str, by: str) -> dict[Hashable, Estimate]:
        assert self.totals is not None
        table = self.totals.table
        if by == "y" and "target" not in table:
            raise DurometerError(f"by='{by}': there are too many classes for counts of each")
        named = self._class_name if by in CLASSES else _plain
        return {named(v): METRICS[name][1](part) for v, part in table.groupby(by)}

    def compare(self, other: Report) -> Comparison:
        """Compares robustness with another report on the same examples, row by row.

        Args:
            other: The other report. Rows are paired by id, and their inputs must be the same.

        Returns:
            A `Comparison`: the difference with its interval, and a paired test.

        Raises:
            DurometerError: There is no row in common, or rows with the same id are different
                inputs.
        """
        mine, theirs = (r.table[played(r.table)].set_index(["id", "run"]) for r in (self, other))
        shared = mine.index.intersection(theirs.index)
        if not len(shared):
            raise DurometerError(
                "the two reports have no example in common: nothing can be compared"
            )
        mine, theirs = mine.loc[shared], theirs.loc[shared]
        known = bool((mine["input"] != 0).all() and (theirs["input"] != 0).all())
        hashes = [r.spec.data_hash for r in (self, other)]
        same = np.full(len(shared), hashes[0] == hashes[1])
        if known:
            same = (mine["input"] == theirs["input"]).to_numpy()
        if not same.all():
            names = " and ".join(r.spec.data for r in (self, other))
            rows = f"{int((~same).sum())} of {len(same)} rows with the same id are other inputs"
            if not known:
                rows = "the data differ, and these runs do not say row by row"
            raise DurometerError(
                f"the two reports are on different data ({names}): {rows}; compare runs on the "
                "same rows, or give rows that differ ids of their own"
            )
        return Comparison(mine, theirs, Setting.of(self.spec, other.spec))

    def __str__(self) -> str:
        from durometer.report.text import render

        return render(self)

    def __repr__(self) -> str:
        rows = len(self.records if self.totals is None else self.totals)
        return f"Report({rows} rows, robust {self.metric('robust')})"

    def _repr_html_(self) -> str:
        from durometer.report.notebook_repr import report

        return report(self)

    @property
    def shown(self) -> dict[str, tuple[str, Estimate]]:
        """The figures that a summary prints: name -> (title, estimate)."""
        further = self._of_groups
        shown = {name: (METRICS[name][0], self.metric(name)) for name in _SHOWN}
        if not self.two_sided:
            shown = {k: v for k, v in shown.items() if k not in ("proven", "open")}
        if shown["clean_played"][1].n == shown["clean"][1].n or self.spec.game_type != "Static":
            del shown["clean_played"]  # the same rows: said once
        if self.spec.quota is not None:  # a row is a pair there, and a rate of rows says nothing
            shown = {name: shown[name] for name in ("valid", "forwards", "backwards")}
        if self.spec.is_unattacked:
            shown = {"clean": shown["clean"]}
        return further | {k: v for k, v in shown.items() if k not in further}

    @property
    def two_sided(self) -> bool:
        """Whether the run also tried to prove rows robust; if not, every row that is not broken is
        open.
        """
        return "proven" in self.counts("verdict") or self.spec.proves

    @property
    def stages(self) -> pd.DataFrame:
        """What each stage of the attack was given, settled and cost: a data frame, one line per
        stage.
        """
        from durometer.report.stages import stages

        return stages(self.table)

    @property
    def plot(self) -> Plots:
        """The plots of this report: `verdicts`, `curve`, `confusion`, `features`, `distances` and
        `examples`; each takes and returns matplotlib axes.
        """
        from durometer.report.plot import Plots  # late: most runs are not drawn

        return Plots(self)

    def minimal_changes(self, by: str = "row") -> pd.DataFrame:
        """The changes that broke each row, as a data frame.

        After `Exact(minimise="distance")` (or "cost") they are the smallest possible: nothing
        within `distance_low` breaks the row.

        Args:
            by: "row": one line per row and changed feature, nearest rows first. "feature": one line
                per feature, with how often and how far it was changed.

        Returns:
            By row: `id`, `feature`, `was`, `now`, `change`, `share` (of the feature's range in the
                schema), `distance`, `distance_low`. By feature: `rows`, `of_flips`,
                `median_change`, `smallest`.

        Raises:
            DurometerError: The report was loaded without its data.
        """
        return changes.minimal_changes(self, by)

    def plausibility(self, records: Dataset, least: float = 0.0) -> pd.DataFrame:
        """How like the records of the class it reached each broken row is, as a data frame.

        Distances are Gower's: the mean over features of |difference| / range, and of 0 or 1 for
        categories and gaps. A row is as isolated as the fifth nearest record of the class is far.

        Args:
            records: Labelled records to compare with, with the columns and classes of the run's
                data; best those that the model was trained on.
            least: Only rows of at least this rank. 0: all.

        Returns:
            `id`, `final` (the class reached), `rank` (share of the records of that class that are
                at least as isolated: its conformal p-value), `nearest` (distance to the nearest
                record of that class), `usual` (the median of that among the records themselves) and
                `distance`; missing where the class has fewer than six records. Most plausible rows
                come first.

        Raises:
            DurometerError: The run is not about a table, or the records have other columns.

        >>> import durometer as du
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x = np.linspace(0, 1, 41).reshape(-1, 1)
        >>> data = du.Dataset(x, (x[:, 0] > 0.5).astype(int))
        >>> tree = DecisionTreeClassifier().fit(x, data.y)
        >>> report = du.evaluate(tree, data, space=du.Linf(0.1), attack=du.Exact())
        >>> bool(report.plausibility(data)["rank"].min() > 0.05)
        True
        """
        return plausibility(self, records, least)

    def radii(self, eps: Sequence[float] | None = None) -> pd.DataFrame:
        """Robust accuracy at each radius up to the run's own, as a data frame.

        One run of `Exact(minimise="distance")` gives the whole curve. After other attacks it is
        valid but loose: a point found at eps says nothing about smaller radii.

        Args:
            eps: The radii, from 0 to the size of the run's space. None chooses about two dozen.

        Returns:
            One line per radius with `at_least` (proven) and `at_most` (not broken), as estimates.

        Raises:
            DurometerError: A radius lies outside the run's own, or the space has no size.

        >>> import durometer as du
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x = np.linspace(0, 1, 41).reshape(-1, 1)
        >>> tree = DecisionTreeClassifier().fit(x, x[:, 0] > 0.5)
        >>> data = du.Dataset(x, (x[:, 0] > 0.5).astype(int))
        >>> nearest = du.Exact(minimise="distance")
        >>> report = du.evaluate(tree, data, space=du.Linf(0.4), attack=nearest)
        >>> [round(e.value, 2) for e in report.radii([0, 0.1, 0.4])["at_least"]]
        [1.0, 0.8, 0.22]
        """
        return curve(self, eps)

    def html(self) -> str:
        """The report as one self-contained HTML page."""
        from durometer.report.evidence import light, reproduce_command
        from durometer.report.page.report import page  # late: most runs are read as text

        return page(self, reproduce_command(self, {}, Path()), light(self))

    def save(self, folder: str | Path, evidence: Mapping[str, str] | None = None) -> Path:
        """Writes report.html, spec.json, the records, the adversarial inputs and the evidence.

        Args:
            folder: Where to write; made where it does not exist.
            evidence: What only people know, for the evidence document: "purpose", "model",
                "version", "owner", "evaluator", "data", "period", "notes", and "tags" (by commas)
                for `durometer view`. None: nothing is added to what the run file says.

        Returns:
            The folder.

        Raises:
            DurometerError: `evidence` has another field, or the folder cannot be written.
        """
        from durometer.report.evidence import told

        files.save(self if evidence is None else told(self, evidence), Path(folder))
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Report:
        """Reads a report that `save` wrote.

        Args:
            folder: Its folder.

        Returns:
            The report, without its data.

        Raises:
            DurometerError: The folder holds no saved report, or a file is damaged.
        """
        if not isinstance(folder, str | Path):
            raise DurometerError(f"load({folder!r}): expected the folder of a saved report")
        read = files.load(Path(folder))
        also = {name: cls.load(Path(folder) / "also" / name) for name in read.also}
        return cls(
            read.spec, read.records, read.flags, also, read.examples, read.rows, totals=read.totals
        )
