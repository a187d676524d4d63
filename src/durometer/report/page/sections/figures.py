"""The figures with their intervals and denominators, and before them what may spoil them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.page import section, svg
from durometer.report.page.section import Section, beside, joined

if TYPE_CHECKING:
    from durometer.report.checks import Flag
    from durometer.report.report import Report

_AMOUNTS = (
    "forwards",
    "backwards",
    "seconds",
    "distance",
    "adaptations",
    "adapting",
    "width",
    "changes",
    "attempts",
)


def flags(report: Report) -> Section | None:
    """What may make the figures misleading."""
    if not report.flags:
        return None
    body = joined(flag(f) for f in report.flags)
    return Section("flags", "Look at this first", body, "What may make these figures misleading.")


def flag(f: Flag) -> Markup:
    """One warning or note."""
    box = Markup("<div class='flag {}'><p><strong>{}</strong>: {}</p></div>")
    return box.format(f.level, f.id, f.text)


def stages(report: Report) -> Section | None:
    """What each stage settled, and what it cost."""
    if not report.two_sided:
        return None
    lines = [
        (s["stage"], s["rows"], s["proven"], s["broken"], 1e3 * s["seconds"] / max(1, s["rows"]))
        for s in report.stages.to_dict("records")
    ]
    if not lines:
        return None
    head = ("stage", "rows it was given", "proven", "broken", "ms a row")
    text = "In their order; a row that one stage has settled costs the next ones nothing."
    return Section("stages", "Who settled what", section.table(head, lines), text)


def figures(report: Report) -> Section:
    """Every figure, as a chart where it is a rate and in a table."""
    known = {title: e for _, (title, e) in report.shown.items() if e.n}
    rates = {
        title: e
        for name, (title, e) in report.shown.items()
        if e.n and e.low >= 0 and e.high <= 1 and not name.startswith(_AMOUNTS)
    }
    line = Markup(
        "<tr><td>{}</td><td class=n>{}</td><td class=n>{} – {}</td><td class=n>{}</td></tr>"
    )
    rows = joined(
        line.format(title, *e.written(".3f" if e.high <= 1 else ",.1f"), f"{e.n:,}")
        for title, e in known.items()
    )
    head = Markup("<tr><th>figure<th class=n>value<th class=n>95 % interval<th class=n>rows</tr>")
    table = Markup("<div class=scroll><table><thead>{}</thead><tbody>{}</tbody></table></div>")
    chart = svg.intervals(rates, "Rates with their 95 % intervals") if rates else Markup("")
    return Section("figures", "Figures", beside(table.format(head, rows), chart))
