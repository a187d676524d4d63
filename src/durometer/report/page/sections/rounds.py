"""Transductive games: run by run, and for defences that may reject, the price of rejecting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.figures.transductive import curve
from durometer.report.page import axes, svg
from durometer.report.page.section import Section, beside
from durometer.report.page.sections.classes import held
from durometer.report.stats import Estimate

if TYPE_CHECKING:
    from durometer.report.report import Report


def rounds(report: Report) -> Section | None:
    """Accuracy by run and round, and the curve of rejection."""
    t = report.table
    if report.spec.game_type != "Transductive":
        return None
    parts = []
    played = t[t["skipped"] == ""]
    for column, title in (("run", "Run by run"), ("round", "Round by round")):
        if played[column].nunique() > 1:
            found = report.metric("robust", by=column).items()
            shares = {f"{column} {value}": e for value, e in found if e.n}
            shares = dict(list(shares.items())[:40])
            chart = svg.intervals(shares, f"{held(report)} by {column}")
            parts.append(Markup("<h3>{}</h3>").format(title) + chart)
    if played["doubt"].notna().any():
        points = curve(report, 25)
        lines = {
            title: [(x, Estimate(y, y, y, len(played))) for x, y in
                    zip(points["rejected"], points[name], strict=True) if y == y]
            for title, name in (("wrong, of all", "error"), ("of accepted", "error_accepted"),
                                ("clean rejected", "rejected_clean"))
        }  # fmt: skip
        chart = axes.curves(lines, "Errors against the share rejected", "share of inputs rejected")
        parts.append(Markup("<h3>If more or less were rejected</h3>") + chart)
    text = "The model adapts to each batch after the attacker has moved."
    return Section("rounds", "A model that moves", beside(*parts), text) if parts else None
