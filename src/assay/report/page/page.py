"""A report as one page: a verdict a manager understands, then everything that backs it up.

A section is a function from the report to a `Section`, or None where the run has nothing to say;
`parts` holds them, one file per idea, and `section.render` makes the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from assay.report.page.section import Section, render
from assay.report.page.sections import (
    attacks,
    classes,
    examples,
    figures,
    groups,
    noise,
    rounds,
    rows,
)
from assay.report.page.verdict import threat, verdict

if TYPE_CHECKING:
    from assay.report.report import Report

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    figures.flags,
    figures.figures,
    figures.stages,
    noise.probabilities,
    rounds.rounds,
    groups.harm,
    attacks.winners,
    attacks.price,
    attacks.spread,
    classes.classes,
    examples.features,
    examples.examples,
    rows.rows,
    rows.spec,
)


def page(report: Report) -> str:
    """The whole page."""
    title = f"assay: {report.spec.get('model', '')} on {report.spec.get('data', '')}"
    return render(title, verdict(report), threat(report), (make(report) for make in SECTIONS))
