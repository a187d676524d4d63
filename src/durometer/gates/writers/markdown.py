"""A summary in markdown for a pull request: decided what, changed what, worst where.

What a reader would get wrong: names of classes and data come from whoever wrote the data. They are
escaped, so that a class called `|` or `<img src=...>` is text in the table and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from durometer.gates.baseline import compared
from durometer.gates.decide import IN_WORDS, Outcome
from durometer.report.report import Report
from durometer.report.slices import worst_slices
from durometer.report.stats import Estimate

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-!|~@:/.])")
_SIGNS = {"pass": "✅", "fail": "❌", "undecided": "❔"}


def markdown(outcome: Outcome, source: str) -> str:
    """The summary."""
    lines = [
        f"### durometer gate: {_SIGNS[outcome.outcome]} {IN_WORDS[outcome.outcome]}",
        "",
        f"`{source.replace('`', '')}`",
        "",
    ]
    report = outcome.report
    if report is not None:
        spec = report.spec
        rows = f"{len(report.records):,} of {spec.rows:,} rows"
        lines += [
            f"{_plain(spec.model)} on {_plain(spec.data)}, {rows} played. "
            f"{_plain(spec.threat)}", "",
        ]  # fmt: skip
    if outcome.decisions:
        lines += [
            "| criterion | decision | figure (95 %) | rows played | decided after row | open |",
            "|---|---|---|--:|--:|--:|",
        ]
    for d in outcome.decisions:
        said = f"{_SIGNS[d.outcome]} {d.outcome}"
        if d.outcome == "undecided":
            said += f" ({d.wanting})"
        criterion = _plain(d.criterion)
        after = "-" if d.outcome == "undecided" else f"{d.rows:,}"
        lines.append(f"| {criterion} | {said} | {_figure(d.estimate)} | {d.estimate.n:,} | {after} "
                     f"| {d.open:,} |")  # fmt: skip
    for d in outcome.decisions:
        if d.unpaired:
            lines += ["", f"{_plain(d.criterion)}: {_plain(d.unpaired)}."]
    if outcome.decisions:
        lines += ["", f"Wrong in at most {outcome.alpha:.0%} of such decisions, whenever it stops."]
    lines += _claims(outcome)
    if report is not None:
        lines += [*_changes(outcome, report), *_slices(report)]
    if outcome.folder is not None:
        lines += ["", f"The whole report: `{outcome.folder / 'report.html'}`"]
    return "\n".join(lines) + "\n"


def broken(why: str, source: str) -> str:
    """The summary of a gate that could not run."""
    lines = [
        "### durometer gate: ⚠️ could not run",
        "",
        f"`{source.replace('`', '')}`",
        "",
        _plain(why),
    ]
    return "\n".join([*lines, "", "Nothing is decided."]) + "\n"


def _claims(outcome: Outcome) -> list[str]:
    """Claims about the whole model."""
    claims = outcome.properties
    if claims is None:
        return []
    lines = ["", "Every valid record, by proof:", "", "| claim | decision | largest value |",
             "|---|---|---|"]  # fmt: skip
    for p, decided, a in zip(claims.properties, claims.outcomes, claims.answers, strict=True):
        lines.append(f"| {_plain(p)} | {_SIGNS[decided]} {decided} | {_plain(a.value)} |")
    return lines


def _changes(outcome: Outcome, report: Report) -> list[str]:
    """What changed against each baseline, row by row."""
    names = dict.fromkeys(d.criterion.baseline for d in outcome.decisions)
    lines = []
    for name in filter(None, names):
        c = compared(report, Report.load(Path(name)))
        if c is None:
            lines += ["", f"Against {_plain(name)}: no row of this run is in it."]
            continue
        lines += [
            "",
            f"Against {_plain(name)}, on the {len(c.first):,} rows of both: robust "
            f"accuracy changed by {_figure(c.robust, '+.3f')}; {c.only_first:,} rows are "
            f"broken now that were not, {c.only_second:,} hold now that did not.",
        ]
    return lines


def _slices(report: Report) -> list[str]:
    found = worst_slices(report, 3)
    if not found:
        return []
    lines = ["", f"Worst of {found[0].of} slices (intervals hold for all of them at once):", "",
             "| slice | robust | rows |", "|---|---|--:|"]  # fmt: skip
    return lines + [f"| {_plain(s.title)} | {_figure(s.robust)} | {s.robust.n:,} |" for s in found]


def _figure(e: Estimate, form: str = ".3f") -> str:
    return f"{e.value:{form}} [{e.low:{form}}, {e.high:{form}}]" if e.n else "-"


def _plain(value: Any) -> str:
    """As text that markdown and HTML leave alone, on one line."""
    text = " ".join(str(value).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)
