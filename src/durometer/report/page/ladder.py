"""The ladder of a test-time defence as a page: static, transfer, GMSA, public randomness."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from durometer.report import wording
from durometer.report.page import charts
from durometer.report.page.section import Section, draw, flagged, render, table, written
from durometer.report.verdicts import share_text

if TYPE_CHECKING:
    from durometer.report.checks import Flag
    from durometer.report.report import Report

_MEANING = {
    "static": "the model before it adapts, attacked as usual",
    "adapted, clean": "the defence on batches nobody has touched",
    "transfer": "attacks on the static model, answered by the adapted one",
    "public randomness": "the strongest attack, when the defender's random numbers are known",
    "control": "the strongest attack, against retraining that does not look at the batch",
}


def folder_of(name: str) -> str:
    """Where a rung's own report is kept."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def cost(report: Report) -> tuple[float, float]:
    """Seconds the attacker took, its rehearsals included, and the defender to adapt."""
    table = moves = report.table
    if report.spec.information == "start":
        moves = table[table["run"] == 0]  # one move, played against every run
    return float(moves["seconds"].sum()), float(table["adapting"].sum())


def page(reports: Mapping[str, Report], flags: Sequence[Flag]) -> str:
    """All rungs on one page, with links to their own."""
    by_rung = {name: report.metric("robust") for name, report in reports.items()}
    rehearsed = [n for n in by_rung if n not in _MEANING]
    worth = min(rehearsed, key=lambda n: by_rung[n].value)
    held = share_text(by_rung["static"]), share_text(by_rung["transfer"])
    verdict = wording.rungs((*held, share_text(by_rung[worth])), worth)
    rows = [
        (
            draw("link", folder_of(name), name),
            _MEANING.get(name, "an attack that rehearses the defence"),
            *written(e),
            e.n,
            *cost(reports[name]),
        )
        for name, e in by_rung.items()
    ]
    head = ("rung", "what it is", "accuracy", "95 % interval", "rows", "attacking, s",
            "adapting, s")  # fmt: skip
    chart = charts.intervals(by_rung, "Accuracy on each rung of the ladder")
    text = "What a defence is advertised with is static → transfer; what it is worth, static → "
    first = reports["static"].spec
    threat = f"{first.threat} Data: {first.data}, {first.rows} rows."
    sections = [
        Section("flags", "Look at this first", flagged(flags)) if flags else None,
        Section("ladder", "The ladder", table(head, rows) + chart, f"{text}{worth}."),
    ]
    return render("durometer: a test-time defence", verdict, threat, sections)
