"""Report: what was asked (spec), what happened (records), what it means (metrics, flags).

Metrics are views: each is a function from the table of records to an `Estimate`, so a metric added
later works on runs saved earlier, and shards merge by concatenating rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import AssayError, nearest
from assay.records import FIELDS, Records
from assay.report import groups, probabilities, rounds
from assay.report.checks import Flag
from assay.report.examples import Examples
from assay.report.stats import Estimate, bootstrap, mcnemar, paired_difference, wilcoxon, wilson

if TYPE_CHECKING:
    import pandas as pd


def _rate(rows: pd.DataFrame, hits: Any) -> Estimate:
    return wilson(int(np.asarray(hits).sum()), len(rows))


def _played(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["skipped"] == ""]


def _attacked(rows: pd.DataFrame) -> pd.DataFrame:
    rows = _played(rows)
    return rows[rows["winner"] != "clean"]


def middle(rows: pd.DataFrame) -> np.ndarray:
    """The middle of each record's bounds, NaN where it has none."""
    return (rows["probability_low"] + rows["probability_high"]).to_numpy(float) / 2


def _mean(rows: pd.DataFrame, column: str) -> Estimate:
    values = rows[column].dropna()
    return bootstrap(values.to_numpy(), rows.loc[values.index, "id"].to_numpy())


METRICS: dict[str, tuple[str, Callable[[Any], Estimate]]] = {
    "clean": (
        "clean accuracy",
        lambda t: _rate(t, t["clean"] == t["y"]),
    ),
    "robust": (
        "robust accuracy",
        lambda t: _rate(_played(t), ~_played(t)["success"]),
    ),
    "success": (
        "attack success (of rows attacked)",
        lambda t: _rate(_attacked(t), _attacked(t)["success"]),
    ),
    "valid": ("valid share", lambda t: _rate(t, t["valid"])),
    "blocked": (
        "flipped, but only by invalid inputs",
        lambda t: _rate(_attacked(t), _attacked(t)["blocked"]),
    ),
    "distance": (
        "distance of successes",
        lambda t: _mean(_attacked(t)[_attacked(t)["success"]], "distance"),
    ),
    "forwards": ("forward passes per row attacked", lambda t: _mean(_attacked(t), "forwards")),
    "backwards": ("backward passes per row attacked", lambda t: _mean(_attacked(t), "backwards")),
    "seconds": ("seconds per row attacked", lambda t: _mean(_attacked(t), "seconds")),
}
CLASSES = ("y", "clean", "target", "final", "answer")  # columns that hold a class
FILES = ("report.html", "records.parquet", "adversarial.npz", "examples.npz")  # besides the spec
_SHOWN = ("clean", "robust", "success", "valid", "forwards", "backwards")


def class_name(spec: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The name of a class by its index; where there is none, the index itself."""
    names = spec.get("classes") or []

    def name(c: Any) -> Any:
        return str(names[int(c)]) if 0 <= int(c) < len(names) else int(c)

    return name


@dataclass(frozen=True, eq=False)
class Report:
    """The outcome of one evaluation.

    >>> print(report)                          # doctest: +SKIP
    >>> report.metric("robust").low            # doctest: +SKIP
    >>> report.metric("robust", by="y")        # doctest: +SKIP
    """

    spec: dict[str, Any]
    records: Records
    flags: tuple[Flag, ...] = ()
    also: Mapping[str, Report] = field(default_factory=dict)  # other goals on the same rows
    examples: Examples | None = None  # a few successes before and after, to show

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per example."""
        import pandas as pd

        return pd.DataFrame(self.records.columns)

    @cached_property
    def _of_groups(self) -> dict[str, tuple[str, Estimate]]:
        return groups.figures(self) | rounds.figures(self) | probabilities.figures(self)

    @property
    def adversarial(self) -> np.ndarray | None:
        """The inputs handed in, aligned with the table (clean where no attack succeeded)."""
        return self.records.adversarial

    def metric(self, name: str, by: str | None = None) -> Any:
        """An `Estimate`; with `by`, a dict of them, one per value of that column.

        Columns that hold classes are split by the classes' names, where the data have names.
        """
        if by is not None:
            return self._split(name, by)
        if name in self._of_groups:
            return self._of_groups[name][1]
        if name not in METRICS:
            raise AssayError(f"no metric '{name}'{nearest(name, {*METRICS, *self._of_groups})}")
        return METRICS[name][1](self.table)

    def _split(self, name: str, by: str) -> dict[Any, Estimate]:
        """Each part is a report of its own, so that a figure means in parts what it means whole."""
        if by not in self.table:
            raise AssayError(f"no column '{by}' in the records{nearest(by, self.table.columns)}")
        if "quota" in self.spec and name in self._of_groups:
            raise AssayError(
                f"'{name}' of a quota is about bands of several classes, and cannot be split by "
                f"'{by}'; report.table has the pairs"
            )
        names = self.spec.get("classes") or []
        clear = by in CLASSES and len(set(names)) == len(names)
        named = class_name(self.spec) if clear else lambda value: value
        parts = {
            value: Report(self.spec, self.records.take(np.asarray(rows)))
            for value, rows in self.table.groupby(by).indices.items()
        }
        return {named(value): part.metric(name) for value, part in parts.items()}

    def compare(self, other: Report) -> Comparison:
        """Paired comparison with a report on the same examples: on the rows played in both."""
        mine, theirs = (_played(r.table).set_index(["id", "run"]) for r in (self, other))
        shared = mine.index.intersection(theirs.index)
        if not len(shared):
            raise AssayError("the two reports have no example in common: nothing can be compared")
        return Comparison(mine.loc[shared], theirs.loc[shared])

    def __str__(self) -> str:
        from assay.report.text import render

        return render(self)

    def __repr__(self) -> str:
        return f"Report({len(self.records)} rows, robust {self.metric('robust')})"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    @property
    def shown(self) -> dict[str, tuple[str, Estimate]]:
        """The figures a summary prints: name -> (title, estimate)."""
        further = self._of_groups
        shown = {name: (METRICS[name][0], self.metric(name)) for name in _SHOWN}
        if "quota" in self.spec:  # a row is a pair there: a rate of rows would not be what it says
            shown = {name: shown[name] for name in ("valid", "forwards", "backwards")}
        if self.spec.get("attack") == "":  # nobody attacks
            shown = {"clean": shown["clean"]}
        return further | {k: v for k, v in shown.items() if k not in further}

    def html(self) -> str:
        """The report as one self-contained page."""
        from assay.report.html import page

        return page(self)

    def save(self, folder: str | Path) -> Path:
        """Write report.html, spec.json, records.parquet, adversarial.npz and examples.npz."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            spec = {**self.spec, "flags": [vars(f) for f in self.flags], "also": list(self.also)}
            (folder / "spec.json").write_text(json.dumps(spec, indent=2, default=str))
            table = self.table.astype({"id": str})
            table.attrs.clear()
            table.to_parquet(folder / "records.parquet")
            if self.adversarial is not None:
                np.savez(
                    folder / "adversarial.npz", x=self.adversarial, ids=table["id"].to_numpy(str)
                )
            if self.examples is not None:
                self.examples.save(folder / "examples.npz")
            (folder / "report.html").write_text(self.html(), encoding="utf-8")
            for name, other in self.also.items():
                other.save(folder / "also" / name)
        except OSError as error:
            raise AssayError(f"cannot write the report to '{folder}': {error}") from None
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Report:
        """Read what `save` wrote."""
        import pandas as pd

        folder = Path(folder)
        if (folder / "sweep.json").exists():
            runs = ", ".join(sorted(p.parent.name for p in folder.glob("*/spec.json"))[:3])
            raise AssayError(f"'{folder}' holds a sweep; name one of its runs: {runs} ...")
        if not (folder / "spec.json").exists():
            raise AssayError(f"no saved report in '{folder}': it has no spec.json")
        if not (folder / "records.parquet").exists():
            raise AssayError(f"the run in '{folder}' is not finished; assay run --resume goes on")
        spec = json.loads((folder / "spec.json").read_text())
        flags = tuple(Flag(**f) for f in spec.pop("flags", []))
        other = spec.pop("also", None)
        if other is None:  # a run of an older version
            other = sorted(p.parent.name for p in folder.glob("also/*/spec.json"))
        table = pd.read_parquet(folder / "records.parquet")
        if spec.get("id_type", "int") == "int":
            table["id"] = table["id"].astype("int64")
        columns = {k: table[k].to_numpy() for k in FIELDS if k in table}  # older runs have fewer
        inputs = folder / "adversarial.npz"
        adversarial = np.load(inputs)["x"] if inputs.exists() else None
        also = {name: cls.load(folder / "also" / name) for name in other}
        shown = folder / "examples.npz"
        examples = Examples.load(shown) if shown.exists() else None
        records = Records.of(len(table), adversarial, **columns)
        return cls(spec, records, flags, also, examples)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two reports on the same rows: difference with interval, and the test that pairs them.

    Where nobody attacked, what is compared is the probability that the answer stays.
    """

    first: pd.DataFrame
    second: pd.DataFrame

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """What each side gives a row: its probability under noise, else whether it held."""
        a, b = (middle(t) for t in (self.first, self.second))
        if np.isfinite(a).all() and np.isfinite(b).all():
            return a, b
        return tuple(~t["success"].to_numpy(bool) for t in (self.first, self.second))  # type: ignore[return-value]

    @property
    def noisy(self) -> bool:
        """Whether probabilities are compared."""
        return self.sides[0].dtype != bool

    @property
    def robust(self) -> Estimate:
        """Robustness of the first minus that of the second; rows of one example go together."""
        return paired_difference(*self.sides, self.ids)

    @property
    def ids(self) -> np.ndarray:
        """Whose row it is."""
        return self.first.index.get_level_values("id").to_numpy()

    @property
    def only_first(self) -> int:
        """Rows that only the first attack broke."""
        return int((self.first["success"] & ~self.second["success"]).sum())

    @property
    def only_second(self) -> int:
        """Rows that only the second attack broke."""
        return int((self.second["success"] & ~self.first["success"]).sum())

    @property
    def p_value(self) -> float:
        """McNemar's exact test of equal robust accuracy; Wilcoxon's where probabilities are met."""
        if self.noisy:
            return wilcoxon(*self.sides)
        return mcnemar(self.only_first, self.only_second)

    @property
    def queries_p_value(self) -> float:
        """Wilcoxon's test of equal cost, in forward passes per row."""
        return wilcoxon(self.first["forwards"].to_numpy(), self.second["forwards"].to_numpy())

    def __str__(self) -> str:
        r, (a, b) = self.robust, self.sides
        name = "probability it stays " if self.noisy else "robust accuracy      "
        lines = [
            f"rows compared            {len(self.first)}",
            f"{name}    {a.mean():.3f} against {b.mean():.3f}",
            f"difference               {r.value:+.3f} [{r.low:+.3f}, {r.high:+.3f}]",
        ]
        if self.noisy:
            return "\n".join([*lines, f"Wilcoxon                 p = {self.p_value:.3g}"])
        lines += [
            f"broken by one only       {self.only_first} against {self.only_second} "
            f"(McNemar p = {self.p_value:.3g})",
            f"forward passes per row   {self.first['forwards'].mean():.1f} against "
            f"{self.second['forwards'].mean():.1f} (Wilcoxon p = {self.queries_p_value:.3g})",
        ]
        return "\n".join(lines)
