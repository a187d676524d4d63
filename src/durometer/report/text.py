"""A report as text: the table that `print(report)` and the command line show."""

from __future__ import annotations

import re
from io import StringIO
from textwrap import shorten
from typing import TYPE_CHECKING

from durometer.report.changes import mark_changes
from durometer.report.checks import DRAWN
from durometer.report.stages import sentence
from durometer.report.verdicts import audit
from durometer.report.wording import cross_examination

if TYPE_CHECKING:
    from rich.table import Table

    from durometer.report.report import Report

_SHOWN, _HARM = 3, 8  # sentences, replacements


def rich_table(report: Report) -> Table:
    """The figures with their intervals and denominators."""
    from rich.table import Table

    table = Table(title=title(report), title_justify="left", title_style="bold")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("rows", justify="right")
    for _, (text, e) in report.shown.items():
        if e.n:
            value, low, high = e.written(".3f" if e.high <= 1 else ".1f")
            table.add_row(text, value, f"{low} - {high}", str(e.n))
    return table


def title(report: Report) -> str:
    """Who was attacked, on what, how."""
    s = report.spec
    named = f"{s.model or 'model'} on {s.data or 'data'}"
    goal = shorten(s.text("goal")[:1000], 60, placeholder=" ...")
    if s.game_type == "Nature":
        other = "" if s.is_untargeted else f", {goal}"
        if s.space:
            other += f", shifted by anybody within {_rounded(s.text('space'))}"
        return f"{named} under {s.under or 'noise'}{other}"
    return f"{named}: {_rounded(s.text('space'))}, {goal}"


def _rounded(text: str) -> str:
    """The text with numbers of at most four digits."""
    return re.sub(r"\d+\.\d{5,}", lambda m: f"{float(m[0]):.4g}", text)


def drawn(report: Report) -> str:
    """How many draws a record's interval rests on, and its confidence, where draws were made."""
    asked, kinds = report.spec.game, set(report.table["winner"])
    if "draws" not in asked or not any("sampled" in k or k in DRAWN for k in kinds):
        return ""
    until = asked.get("threshold") if "sequential" in kinds else None
    stop = "" if until is None else f", until {until:.6g} is decided"
    return (
        f" (at most {asked['draws']:,} draws a record{stop}, {asked['confidence']:.4g} confidence)"
    )


def notes(report: Report) -> list[str]:
    """What stands under the table: which attack won what, what was left out, and the flags."""
    t, lines = report.table, []
    won = report.counts("winner", lambda t: t["success"] & (t["skipped"] != "not scored"))
    left = report.counts("skipped", lambda t: t["skipped"] != "")
    left_out = "left out: " + ", ".join(f"{k} {v}" for k, v in left.items())
    if report.spec.game_type == "Nature":
        kinds = report.counts("winner", lambda t: t["skipped"] == "")
        lines.append("bounds: " + ", ".join(f"{k} {v}" for k, v in kinds.items()) + drawn(report))
        lines += [left_out] if len(left) else []
        noise = shorten(_rounded(report.spec.text("noise")), 160, placeholder=" ...")
        lines.append(f"noise: {noise}; seed {report.spec.seed}")
        return lines + [f"{f.level} [{f.id}] {f.text}" for f in report.flags]
    if report.two_sided:
        lines += [two_sided(report), f"settled by: {sentence(t)}"]
        tried = audit(report)
        lines += [cross_examination(tried)] if tried.proofs else []
    elif len(won):
        lines.append("broken by: " + ", ".join(f"{k} {v}" for k, v in won.items()))
    lines += [left_out] if len(left) else []
    attack, seed = report.spec.text("attack") or "none", report.spec.seed
    known = report.spec.answers
    part = f" ({report.spec.answers_part})" if report.spec.answers_part else ""
    answers = f"; the model answers with {known}{part}" if known else ""
    lines.append(f"attack: {attack}; seed {seed}{answers}")
    lines += [f"{f.level} [{f.id}] {f.text}" for f in report.flags]
    return lines


def sentences(report: Report) -> list[str]:
    """Of texts: a few successes with the changed words marked, and which words do the harm."""
    e = report.examples
    if e is None or not e.text:
        return []
    names = report.spec.classes or ()
    lines = []
    for k, at in enumerate(e.places[:_SHOWN].tolist()):
        row = report.table.iloc[at]
        said = [names[c] if 0 <= c < len(names) else str(c) for c in (row["y"], row["final"])]
        lines.append(
            f"{row['id']}, {' -> '.join(said)}: {mark_changes(e.clean[k], e.adversarial[k])}"
        )
    harm = ", ".join(f"{a} -> {b} {n}" for a, b, n in e.replaced[:_HARM])
    return [*lines, f"replaced in most successes: {harm}"]


def two_sided(report: Report) -> str:
    """Robust accuracy from below and from above, each side with its interval."""
    least, most = (report.metric(name) for name in ("proven", "robust"))
    sides = [
        f"{side} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}] ({how})"
        for side, e, how in (("at least", least, "proven"), ("at most", most, "attacked"))
    ]
    return "robust accuracy: " + ", ".join(sides)


def render(report: Report) -> str:
    """The table and the notes, as plain text."""
    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=100, force_terminal=False)
    console.print(rich_table(report))
    for line in (*notes(report), *sentences(report)):
        console.print(line, markup=False, highlight=False)
    return out.getvalue().rstrip()
