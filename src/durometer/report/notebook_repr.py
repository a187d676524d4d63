"""A report and a comparison as a notebook shows them: the figures with intervals, not the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durometer.core import notebook_html
from durometer.report.text import title
from durometer.report.verdicts import verdicts

if TYPE_CHECKING:
    from durometer.report.comparison import Comparison
    from durometer.report.report import Report


def report(report: Report) -> str:
    """Who was attacked, the bar of verdicts, every figure, the flags."""
    rows = []
    for name, e in report.shown.values():
        if e.n:
            value, low, high = e.written(".3f" if e.high <= 1 else ",.1f")
            rows.append((name, value, f"{low} - {high}", f"{e.n:,}"))
    figures = notebook_html.table(("figure", "value", "95 % interval", "rows"), rows)
    flags = "".join(notebook_html.text(f"{f.level} [{f.id}] {f.text}") for f in report.flags)
    head = notebook_html.text(title(report), "b")
    return head + notebook_html.bar(verdicts(report)) + figures + flags


def comparison(both: Comparison) -> str:
    """Both sides, the difference with its interval, and the test that pairs them."""
    d, (a, b) = both.robust, both.sides
    decided = not any(v.open for v in both.verdicts)
    attacked = "robust accuracy" if decided else "robust accuracy, at most"
    what = "probability it stays" if both.noisy else attacked
    test = "Wilcoxon" if both.noisy else "McNemar"
    head = ("figure", "first", "second", "difference", "95 % interval", "p", "rows")
    line = (what, f"{a.mean():.3f}", f"{b.mean():.3f}", f"{d.value:+.3f}",
            f"{d.low:+.3f} - {d.high:+.3f}", f"{both.p_value:.3g} ({test})", d.n)  # fmt: skip
    only = f"Broken in one only: {both.only_first:,} against {both.only_second:,} rows."
    said = both.sentence(("first", "second"))
    text = ("" if both.noisy else notebook_html.text(only)) + (
        notebook_html.text(said) if said else ""
    )
    return notebook_html.table(head, [line]) + text
