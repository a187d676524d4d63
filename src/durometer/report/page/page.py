"""A report as one page: a verdict a manager understands, then everything that backs it up.

A section is a function from the report to a `Section`, or None where the run has nothing to say;
`parts` holds them, one file per idea, and `section.render` makes the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.page.bar import bar
from durometer.report.page.section import Section, render
from durometer.report.page.sections import (
    attacks,
    classes,
    examples,
    figures,
    groups,
    noise,
    rounds,
    rows,
)
from durometer.report.page.threat import pictures
from durometer.report.page.verdict import threat, verdict

if TYPE_CHECKING:
    from durometer.report.report import Report

LOG = logging.getLogger("durometer.report")
SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    figures.flags,
    figures.figures,
    figures.stages,
    noise.probabilities,
    rounds.rounds,
    groups.harm,
    attacks.winners,
    attacks.price,
    attacks.radii,
    attacks.spread,
    classes.classes,
    examples.features,
    examples.harmful,
    examples.examples,
    rows.rows,
    rows.spec,
)


def page(report: Report) -> str:
    """The whole page; a part that fails is a sentence in it, for a page never stops a run."""
    title = f"durometer: {report.spec.model_name()} on {report.spec.data}"
    said, about = (_said(make, report) for make in (verdict, threat))
    shown, picture = (_drawn(make, report) for make in (bar, _pictures))
    sections = (_made(make, report) for make in SECTIONS)
    return render(title, said, about, sections, shown, picture)


def _pictures(report: Report) -> Markup:
    return pictures(report.spec)


def _drawn(make: Callable[[Report], Markup], report: Report) -> Markup:
    try:
        return make(report)
    except Exception:
        LOG.exception("the page's %s could not be drawn", make.__name__)
        return Markup("")


def _made(make: Callable[[Report], Section | None], report: Report) -> Section | None:
    try:
        return make(report)
    except Exception as error:
        name = make.__name__
        LOG.exception("the section '%s' of the page could not be made", name)
        text = f"This section could not be made ({type(error).__name__}: {error}); the records are"
        return Section(name, name, Markup(""), text + " saved. Please report this as a fault.")


def _said(make: Callable[[Report], str], report: Report) -> str:
    try:
        return make(report)
    except Exception as error:
        LOG.exception("the page's %s could not be made", make.__name__)
        return f"The {make.__name__} could not be made ({type(error).__name__}: {error})."
