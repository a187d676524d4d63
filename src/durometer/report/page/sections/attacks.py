"""What the attacker did: which attack won, what it cost, how near and how far it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.core.number_format import format_number
from durometer.report.page import axes, axis_scale, svg
from durometer.report.page.section import Section, beside
from durometer.report.radii import minimised, sampled, sides
from durometer.report.stats import wilson

if TYPE_CHECKING:
    from durometer.report.report import Report

_POINTS = 24  # of a curve over the budget


def winners(report: Report) -> Section | None:
    """Rows broken by each attack."""
    won = report.counts("winner", lambda t: t["success"] & (t["skipped"] != "not scored"))
    if not won or report.spec.is_unattacked:
        return None
    text = "Rows broken by each attack; “clean” means that no attack was needed."
    chart = svg.bars(won, text, "rows")
    return Section("winners", "Which attack won", chart, text, wide=False)


def price(report: Report) -> Section | None:
    """Robust accuracy against what the attacker had spent, read off the finished rows.

    A solved row costs nothing more, so its forward passes are the price of its success; in a game
    whose model moves afterwards no row is solved before the end.
    """
    if report.spec.game_type == "Transductive":
        return None
    whole = report.table  # columns first: a copy of all of a million rows is half a gigabyte
    t = whole.loc[whole["skipped"] == "", ["run", "forwards", "success"]]
    if report.spec.quota is not None or t["run"].nunique() > 1:
        return None
    spent = t["forwards"].to_numpy(float)
    won = t["success"].to_numpy(bool)
    if not (won & (spent > 1)).any() or spent.max() < 4:
        return None
    budgets = np.unique(np.geomspace(1, spent.max(), _POINTS).round())
    line = [(b, wilson(int((~won | (spent > b)).sum()), len(t))) for b in budgets.tolist()]
    text = "Had the attacker been allowed only so many forward passes per row."
    axis = "forward passes per row"
    chart = axes.curves({"robust": line}, "Robust accuracy against forward passes", axis, log=True)
    return Section("price", "What it cost", chart, text, wide=False)


def radii(report: Report) -> Section | None:
    """Robust accuracy at every radius, where the nearest success of each row was looked for."""
    if not minimised(report):
        return None
    found = [(eps, *sides(report, eps)) for eps in sampled(report)]
    line = {
        "at most (attacked)": [(eps, most) for eps, _, most in found],
        "at least (proven)": [(eps, least) for eps, least, _ in found],
    }
    text = (
        "From the nearest success of each row and from what is proven about nearer ones: one run "
    )
    text += "tells robust accuracy at every radius up to its own."
    chart = axes.curves(line, "Robust accuracy against eps", "eps")
    return Section("radii", "At every radius", chart, text)


def spread(report: Report) -> Section | None:
    """Histograms of distance and margin."""
    t, parts = report.table, []
    won = t.loc[t["success"] & (t["winner"] != "clean"), "distance"].to_numpy(float)
    won = won[np.isfinite(won)]
    if len(won):
        parts.append(Markup("<h3>Distance of the successes</h3>") + _distances(report, won))
    held = t.loc[~t["success"] & (t["skipped"] == ""), "margin"].to_numpy(float)
    if np.isfinite(held).any():
        axis = "best margin the attacker reached (0: success)"
        chart = axes.histogram(held, "Histogram of margins", axis, mark=0.0)
        parts.append(Markup("<h3>How close the others came</h3>") + chart)
    return Section("spread", "How near, how far", beside(*parts)) if parts else None


def _distances(report: Report, won: np.ndarray) -> Markup:
    """The histogram; a sentence where all are the same, as on the surface of a cube."""
    per, eps = axis_scale.units(report.spec), axis_scale.budget(report.spec)
    if np.ptp(won) <= 1e-4 * abs(won).max():
        at = axis_scale.shown(float(f"{won.mean():.4g}"))
        at = format_number(eps) if eps and abs(won.mean() - eps) < 1e-4 * eps else at
        edge = ", as far as was allowed" if eps and at == format_number(eps) else ""
        return Markup("<p>All {:,} successes lie at distance {}{}.</p>").format(len(won), at, edge)
    axis = "distance from the clean input"
    if eps is not None and won.max() <= eps * 1.01:
        return axes.histogram(won, "Histogram of distances", f"{axis} (line: allowed)", eps, per)
    return axes.histogram(won, "Histogram of distances", axis, per=per)
