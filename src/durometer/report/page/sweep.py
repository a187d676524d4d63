"""The page of a sweep: a curve for each numeric setting, and every run in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from durometer.core.errors import DurometerError
from durometer.core.number_format import format_setting, levels
from durometer.report import wording
from durometer.report.page import charts
from durometer.report.page.section import Section, draw, flagged, percent, render, table, written
from durometer.report.stats import Estimate
from durometer.report.verdicts import share_text

if TYPE_CHECKING:
    from durometer.report.report import Report
    from durometer.report.sweep import Sweep

_SERIES = 12  # lines in one chart


def page(sweep: Sweep) -> str:
    """All runs on one page."""
    values = {n: r.metric("robust") for n, r in sweep.reports.items()}
    if not values:
        raise DurometerError("no run of this sweep is finished: there is nothing to show")
    worst, best = (f(values, key=lambda n: values[n].value) for f in (min, max))
    verdict = wording.over_runs(
        len(values), (share_text(values[worst]), worst), (share_text(values[best]), best)
    )
    spec = next(iter(sweep.reports.values())).spec
    threat = f"Varied: {', '.join(next(iter(sweep.settings.values())))}. "
    threat += f"Data: {spec.data}, {spec.rows} rows."
    flags, curves = sweep.flags, [_curve(sweep, a) for a in sweep.numbers if a != "seed"]
    sections = [
        Section("flags", "Look at this first", flagged(flags)) if flags else None,
        *curves,
        _all(sweep, values),
    ]
    return render("durometer: a sweep", verdict, threat, sections)


def _curve(sweep: Sweep, axis: str) -> Section | None:
    lines = {k: v for k, v in sweep.lines(axis).items() if len(v) > 1}
    if not lines:
        return None
    text = "" if len(lines) <= _SERIES else f"The first {_SERIES} of {len(lines)} lines."
    if any("seed" in s for s in sweep.settings.values()):
        text += " Seeds are pooled."
    shown = dict(list(lines.items())[:_SERIES])
    chart = charts.curves(shown, f"Robust accuracy against {axis}", axis, per=_per(shown))
    title = f"Robust accuracy against {axis.rpartition('.')[2]}"
    return Section("by-" + axis.replace(".", "-"), title, chart, text.strip(), wide=False)


def _per(lines: Mapping[str, Sequence[tuple[float, Estimate]]]) -> int:
    """255 where every point of the axis that is no short decimal counts steps of a pixel."""
    found = {levels(x) for line in lines.values() for x, _ in line if float(f"{x:.3g}") != x}
    return max(found) if len(found) == 1 else 1


def _open(report: Report) -> bool:
    """Whether its robust accuracy is an upper bound."""
    return report.spec.game_type != "Nature" and "open" in report.counts("verdict")


def _all(sweep: Sweep, values: Mapping[str, Estimate]) -> Section:
    axes = list(next(iter(sweep.settings.values())))
    rows = [
        (
            draw("link", quote(name), name),
            *(format_setting(sweep.settings[name][a]) for a in axes),
            percent(sweep.reports[name].metric("clean").value),
            *written(e),
            e.n,
        )
        for name, e in values.items()
    ]
    at_most = "robust, at most" if any(_open(r) for r in sweep.reports.values()) else "robust"
    head = ("run", *axes, "clean", at_most, "95 % interval", "rows")
    chart = charts.intervals(dict(list(values.items())[:60]), "Robust accuracy of every run")
    return Section("runs", "All runs", table(head, rows, "runs-table") + chart)
