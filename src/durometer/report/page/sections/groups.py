"""Group goals and quotas: who can pass for whom (S x T), and how many attempts a band needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.goals.coalition_probability import Pairs
from durometer.report.figures.groups import DRAWS, attempts
from durometer.report.page import axes, svg
from durometer.report.page.section import Section, beside
from durometer.report.page.sections.classes import namer
from durometer.report.stats import Estimate, wilson

if TYPE_CHECKING:
    from durometer.report.report import Report

_MOST = 45


def harm(report: Report) -> Section | None:
    """The map of sources against targets, and for a quota the attempts."""
    spec = report.spec
    if spec.aims is None:
        return None
    body = beside(_map(report), _attempts(report) if spec.quota is not None else Markup(""))
    text = "Share of the inputs of a class (row) that the attacker can pass off as another (column)"
    return Section("harm", "Who passes for whom", body, text + ".", wide=spec.quota is not None)


def _map(report: Report) -> Markup:
    t, name = report.table, namer(report)
    t = t[t["skipped"] == ""]
    end = "target" if report.spec.quota is not None else "final"
    sources = sorted(t["y"].unique())[:_MOST]
    ends = sorted(report.spec.aims or ())[:_MOST]
    share = np.zeros((len(sources), len(ends)))
    for i, s in enumerate(sources):
        mine = t[t["y"] == s]
        for j, e in enumerate(ends):
            aimed = mine[mine["target"] == e] if end == "target" else mine
            hits = int((aimed["success"] & (aimed[end] == e)).sum())
            share[i, j] = hits / max(1, len(aimed))
    named = [name(s) for s in sources], [name(e) for e in ends]
    return svg.heat(share, *named, "Sources against targets", percent=True)


def _attempts(report: Report) -> Markup:
    """The share of bands whose quota is filled after so many attempts, in two orders."""
    rule = report.spec.quota
    assert rule is not None
    pairs = Pairs.of(report.records.columns, len(set(rule.targets)))
    if not len(pairs.ids):
        return Markup("<p>No input has been tried on all targets yet.</p>")
    asked = pairs, rule, report.spec.seed
    orders = {"campaign": attempts(*asked), "random order": attempts(*asked, shuffled=True)}
    counts = {title: c for title, c in orders.items() if c is not None}
    finite = [c[np.isfinite(c)] for c in counts.values()]
    if not any(len(c) for c in finite):
        return Markup("<p>No drawn band could fill its quota, in any order.</p>")
    most = max(int(c.max()) for c in finite if len(c))
    steps = np.unique(np.linspace(1, most, min(most, 24)).round())
    lines: dict[str, list[tuple[float, Estimate]]] = {
        title: [(float(a), wilson(int((c <= a).sum()), len(c))) for a in steps]
        for title, c in counts.items()
    }
    title = Markup("<h3>Attempts until the quota is filled</h3>")
    note = Markup("<p>{} bands, one input per source, drawn from the table of all pairs.</p>")
    chart = axes.curves(lines, "Bands that have filled their quota, by attempts", "attempts")
    return title + note.format(DRAWS) + chart
