"""Row by row, to sort and filter; and what was asked, to reproduce it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from durometer.report.figures.noise import SURE
from durometer.report.page.section import Section, joined, table
from durometer.report.page.sections.classes import namer

if TYPE_CHECKING:
    from durometer.report.report import Report

_MOST, _DRAWN = 5000, 200  # records in the page, and drawn in it before anybody searches
_NUMBERS = ("distance", "margin", "forwards")


def rows(report: Report) -> Section:
    """The records, the first ones of a long run."""
    t, name = report.table.head(_MOST), namer(report)
    noise = report.spec.game_type == "Nature"
    numbers = ("probability_low", "probability_high") if noise else _NUMBERS
    kinds = ("sure", "unsure") if noise else ("broken", "proven", "open")
    head = ("id", "true class", "clean", "final", "outcome", "by", *numbers)

    def outcome(row: dict[Any, Any]) -> str:
        if row["skipped"] or not noise:
            return str(row["skipped"] or row["verdict"])
        if row["verdict"] == "open":
            return "undecided"
        return kinds[int(row["probability_low"] < SURE)]

    lines = [
        (
            str(row["id"]),
            name(row["y"]),
            name(row["clean"]),
            name(row["final"]) if row["final"] >= 0 else "–",
            outcome(row),
            row["winner"] or "–",
            *(row[n] for n in numbers),
        )
        for row in t.to_dict("records")
    ]
    choices = joined(
        Markup("<option value='{}'>{}</option>").format(value, text)
        for value, text in (("", "all rows"), *((k, k) for k in kinds))
    )
    control = Markup(
        "<p class=controls><input type=search data-filter=rows placeholder='search, e.g. "
        "by:{} {}{}0.1' aria-label='search the rows'> <select data-choose=rows data-column=4 "
        "aria-label='which rows'>{}</select> <span id=rows-count class=soft></span></p>"
        "<p class='printed soft'>On paper: the first 40 rows.</p>"
    ).format(next((w for w in t["winner"] if w), ""), numbers[0], "<", choices)
    n = len(report.table)
    text = "" if n <= _MOST else f"The first {_MOST:,} of {n:,}; all are in records.parquet."
    shown = table(head, lines[:_DRAWN], "rows", lines[_DRAWN:])
    return Section("records", "Row by row", control + shown, text)


def spec(report: Report) -> Section:
    """What was asked, with versions and hashes."""
    lines = joined(
        Markup("<tr><th>{}</th><td><code>{}</code></td></tr>").format(k, text)
        for k, text in report.spec.in_words().items()
    )
    links = joined(
        Markup("<a href='{}'>{}</a> ").format(name, name)
        for name in ("records.parquet", "spec.json", "evidence.html", "evidence.json")
    )
    command = report.spec.command
    again = (
        Markup("<p>Repeat: <code>{} config.toml</code>, with config.toml of this folder "
               "(<a href='config.toml'>config.toml</a>); evidence.html gives the command with its "
               "folders.</p>").format(command)
        if command
        else Markup("<p>Made in Python; evidence.html gives the call.</p>")
    )  # fmt: skip
    written = Markup("<p>Page written on {} (UTC). Beside it: {}</p>").format(
        datetime.now(UTC).date().isoformat(), links
    )
    body = again + written + Markup("<div class=scroll><table>{}</table></div>").format(lines)
    return Section("spec", "To reproduce", body, "What was asked, with versions and hashes.")
