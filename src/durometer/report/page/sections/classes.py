"""Class by class: where the model is weak, and what is taken for what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from durometer.report.page import svg
from durometer.report.page.section import Section, beside

if TYPE_CHECKING:
    from durometer.report.report import Report

_MOST = 45  # classes that a chart can hold


def namer(report: Report) -> Callable[[Any], str]:
    """The name of a class by its index, as text."""
    named = report.spec.class_name

    def name(c: Any) -> str:
        return text_of(named(c))

    return name


def text_of(name: Any) -> str:
    """A class by its name, or "class 3"."""
    return name if isinstance(name, str) else f"class {name}"


def held(report: Report) -> str:
    """What a share of rows that held is called: nobody is robust where nobody attacked."""
    return "Goal not reached" if report.spec.is_unattacked else "Robust accuracy"


def classes(report: Report) -> Section | None:
    """Robust accuracy by true class, and the confusions that attacks made."""
    t, name = report.table, namer(report)
    if t["y"].nunique() < 2 or report.spec.quota is not None or report.spec.game_type == "Nature":
        return None
    found = {c: e for c, e in report.metric("robust", by="y").items() if e.n}
    weakest = sorted(found, key=lambda c: found[c].value)[:_MOST]
    by_class = {text_of(c): e for c, e in found.items() if c in weakest}
    text = "" if len(found) <= _MOST else f"The {_MOST} weakest of {len(found)} classes."
    parts = [svg.intervals(by_class, f"{held(report)} by true class")]
    won = t[t["success"] & (t["winner"] != "clean")]
    if len(won) and report.spec.aims is None:  # a group goal has its own map
        sources, ends = (won[c].value_counts().index[:_MOST].sort_values() for c in ("y", "final"))
        counts = np.array(
            [[((won["y"] == s) & (won["final"] == e)).sum() for e in ends] for s in sources]
        )
        parts += [
            Markup("<h3>What was taken for what</h3>")
            + svg.heat(
                counts,
                [name(s) for s in sources],
                [name(e) for e in ends],
                "True class against the class after the attack",
            )
        ]
    return Section("classes", "Class by class", beside(*parts), text, wide=len(parts) > 1)
