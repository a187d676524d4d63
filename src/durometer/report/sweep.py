"""Sweep: reports on runs that differ in a few settings, as curves on one page.

Seeds are repetitions, not settings to compare: runs that differ in the seed alone are pooled, and
their interval comes from a bootstrap over rows *and* seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.number_format import format_setting
from durometer.report import checks
from durometer.report.checks import Flag
from durometer.report.page import sweep as pages
from durometer.report.report import Report
from durometer.report.stats import Estimate, bootstrap

Line = list[tuple[float, Estimate]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Reports on runs that differ in a few settings.

    Args:
        settings: Name of the run -> its settings.
        reports: Name of the run -> its report; runs that failed are not among them.
        numbers: Setting -> value (as text) -> its position on an axis; numeric settings only.
        failed: Name of the run -> why it failed.
    """

    settings: Mapping[str, Mapping[str, object]]
    reports: Mapping[str, Report]
    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def series(self, *apart: str) -> dict[str, list[str]]:
        """Groups the runs that agree in all settings but some, and but the seed.

        Args:
            *apart: The settings that may differ.

        Returns:
            What they agree in, as text -> names of the runs.
        """
        found: dict[str, list[str]] = {}
        for name in self.reports:
            kept = {k: v for k, v in self.settings[name].items() if k not in (*apart, "seed")}
            found.setdefault(_said(kept), []).append(name)
        return found

    def robust(self, names: list[str]) -> Estimate:
        """Robust accuracy of runs that differ in the seed only, pooled.

        Args:
            names: Names of the runs.
        """
        reports = [self.reports[n] for n in names]
        if len(reports) == 1:
            return reports[0].metric("robust")
        if (
            reports[0].spec.quota is not None
        ):  # no rate of rows: the mean of the runs, and of their ends
            known = [r.metric("robust") for r in reports]
            value, low, high = np.mean([(e.value, e.low, e.high) for e in known], axis=0).tolist()
            return Estimate(value, low, high, sum(e.n for e in known))
        held, ids, seeds = [], [], []
        for k, report in enumerate(reports):
            t = report.table[report.table["skipped"] == ""]
            middle = (t["probability_low"] + t["probability_high"]).to_numpy() / 2
            held.append(np.where(np.isfinite(middle), middle, ~t["success"].to_numpy(bool)))
            ids.append(t["id"].to_numpy(str))
            seeds.append(np.full(len(t), k))
        pooled = [np.concatenate(part) for part in (held, ids, seeds)]
        return bootstrap(pooled[0], pooled[1], second=pooled[2], draws=500)

    def lines(self, axis: str) -> dict[str, Line]:
        """Robust accuracy against a numeric setting, one line per combination of the others.

        Args:
            axis: The setting, e.g. "space.eps".
        """
        place = self.numbers[axis]
        found: dict[str, Line] = {}
        for label, names in self.series(axis).items():
            by_value: dict[float, list[str]] = {}
            for name in names:
                at = place[_key(self.settings[name][axis])]
                by_value.setdefault(at, []).append(name)
            line = [(x, self.robust(by_value[x])) for x in sorted(by_value)]
            first = self.reports[names[0]]
            if axis.endswith(".eps") and first.spec.is_untargeted and first.spec.quota is None:
                line.insert(0, (0.0, first.metric("clean")))  # no budget: the clean accuracy
            found[label or "robust"] = line
        return found

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The warnings of all runs, and budgets that grow without effect."""
        found: list[Flag] = []
        for axis in self.numbers:
            if axis.endswith(".eps"):
                for names in self.series(axis).values():
                    order = sorted(
                        names, key=lambda n: self.numbers[axis][_key(self.settings[n][axis])]
                    )
                    seeds = {self.settings[n].get("seed") for n in order}
                    for seed in seeds:
                        mine = [n for n in order if self.settings[n].get("seed") == seed]
                        found += checks.monotone([self.reports[n] for n in mine])
        warned: dict[Flag, list[str]] = {}
        for name, report in self.reports.items():
            for flag in report.flags:
                warned.setdefault(flag, []).append(name)
        for flag, runs in warned.items():  # the same of several runs is said once
            who = runs[0] if len(runs) == 1 else f"{len(runs)} of {len(self.reports)} runs"
            found.append(Flag(flag.id, f"{who}: {flag.text}", flag.level))
        for name, why in self.failed.items():
            found.append(Flag("run-failed", f"{name}: {why}"))
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        width = max(len(n) for n in (*self.settings, "run")) + 2
        lines = [f"{'run':<{width}}{'clean':>7}{'robust':>8}  {'95 % interval':<16}{'rows':>7}"]
        for name, report in self.reports.items():
            e, clean = report.metric("robust"), report.metric("clean")
            span = f"{e.low:.3f} - {e.high:.3f}"
            lines.append(f"{name:<{width}}{clean.value:>7.3f}{e.value:>8.3f}  {span:<16}{e.n:>7}")
        return "\n".join([*lines, *(f"{f.level} [{f.id}] {f.text}" for f in self.flags)])

    def html(self) -> str:
        """All runs on one HTML page."""
        return pages.page(self)

    def save(self, folder: str | Path) -> Path:
        """Writes sweep.json and report.html; the runs' own reports are in folders beside them.

        Args:
            folder: Where to write.

        Returns:
            The folder.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            known = {"settings": self.settings, "numbers": self.numbers, "failed": self.failed}
            with durable_files.replace_together(folder) as new:
                new("report.html").write(self.html().encode())
                new("sweep.json").write(json.dumps(known, indent=2, default=str).encode())
        except OSError as error:
            raise DurometerError(f"cannot write the sweep to '{folder}': {error}") from None
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Sweep:
        """Reads a sweep that `save` wrote.

        Args:
            folder: Its folder.
        """
        folder = Path(folder)
        path = folder / "sweep.json"
        with durable_files.reading(path, "run the sweep again with --resume, which writes it anew"):
            known = durable_files.parsed(path.read_text(encoding="utf-8"))
            done = {
                n: durable_files.entry(folder, n)
                for n in known["settings"]
                if n not in known["failed"]
            }
        reports = {n: Report.load(p) for n, p in done.items() if (p / "records.parquet").exists()}
        return cls(known["settings"], reports, known["numbers"], known["failed"])


def _key(value: object) -> str:
    return json.dumps(value, default=str)


def _said(settings: Mapping[str, object]) -> str:
    words = {k.rpartition(".")[2]: v for k, v in settings.items()}
    return ", ".join(
        format_setting(v) if isinstance(v, dict) else f"{k} {format_setting(v)}"
        for k, v in words.items()
    )
