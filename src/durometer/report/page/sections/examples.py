"""Examples: successes before and after, as pictures or as changed features with what binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.report import text_changes
from durometer.report.examples import Examples
from durometer.report.page import axis_scale, png, svg
from durometer.report.page.section import Section, beside, joined
from durometer.report.page.sections.classes import namer

if TYPE_CHECKING:
    from durometer.report.report import Report

_FEATURES = 12


def features(report: Report) -> Section | None:
    """For tables: the features attacks change most, and the rules that held them back."""
    e = report.examples
    if e is None or not e.names:
        return None
    order = np.argsort(-e.shift, kind="stable")[:_FEATURES]
    abused = {e.names[i]: round(100 * float(e.shift[i]), 2) for i in order if e.changed[i]}
    far = Markup(
        "<h3>Features that were changed most</h3>"
        "<p>Mean change over all successes, in percent of the feature's range in these rows.</p>"
    ) + svg.bars(abused, "Mean change of each feature", "% of its range")
    often = np.argsort(-e.changed, kind="stable")[:_FEATURES]
    counts = {e.names[i]: float(e.changed[i]) for i in often if e.changed[i]}
    parts = [far, Markup("<h3>Features that were changed most often</h3><p>In how many successes."
                         "</p>") + svg.bars(counts, "Successes in which each feature was changed",
                                            "successes")]  # fmt: skip
    if e.rules:
        held = Markup(
            "<h3>Rules that held the attacker back</h3><p>Of the {} nearest successes, those in "
            "which a changed feature could not have gone further without breaking the rule.</p>"
        ).format(e.asked)
        rules = {r: float(n) for r, n in e.rules}
        parts.append(held + svg.bars(rules, "Rules that bind", "successes"))
    return Section("features", "Features", beside(*parts))


def harmful(report: Report) -> Section | None:
    """For texts: the replacements that stand in most successes."""
    e = report.examples
    if e is None or not e.replaced:
        return None
    body = svg.bars(
        {f"{a} → {b}": float(n) for a, b, n in e.replaced[:_FEATURES]},
        "Replacements in most successes",
        "successes",
    )
    return Section(
        "words", "Words", body, "What was replaced by what, in how many successes (all changes of "
        "a sentence count, also where one would have sufficed).", wide=False
    )  # fmt: skip


def examples(report: Report) -> Section | None:
    """The nearest successes."""
    e = report.examples
    if e is None:
        return None
    show = _changes
    if e.text:
        show = _sentence
    elif png.is_image(e.clean.shape[1:]):
        show = _pictures
    cards = joined(
        Markup("<div class=card><h3>{}</h3>{}</div>").format(_headline(report, int(at)), show(e, k))
        for k, at in enumerate(e.places)
    )
    body = Markup("<div class='cards {}'>{}</div>").format(
        "records" if show is _changes else "", cards
    )
    return Section("examples", "Examples", body, "The successes that had to change least.")


def _headline(report: Report, at: int) -> str:
    row, name = report.table.iloc[at], namer(report)
    before, after = name(row["y"]), name(row["final"])
    far = axis_scale.amount(float(row["distance"]), axis_scale.units(report.spec), 3)
    return f"{row['id']}: {before} → {after} (distance {far}, {row['winner']})"


def _pictures(e: Examples, k: int) -> Markup:
    change = e.adversarial[k] - e.clean[k]
    largest = float(np.abs(change).max()) or 1.0
    shown = {
        "original": e.clean[k],
        "attacked": e.adversarial[k],
        f"difference × {0.5 / largest:.0f}": 0.5 + change / (2 * largest),
    }
    return joined(
        Markup("<figure><img src='{}' alt='{}'><figcaption>{}</figcaption></figure>").format(
            png.address(image), name, name
        )
        for name, image in shown.items()
    )


def _sentence(e: Examples, k: int) -> Markup:
    change = Markup("<del>{}</del> <ins><b>{}</b></ins>")
    return Markup("<p>{}</p>").format(
        Markup(" ").join(
            a if a == b else change.format(a, b)
            for a, b in text_changes.pairs(e.clean[k], e.adversarial[k])
        )
    )


def _amount(value: float) -> str:
    """Whole numbers in full, others with six digits."""
    whole = float(value).is_integer() and abs(value) < 1e12
    return f"{value:,.0f}" if whole else f"{value:,.6g}"


def _changes(e: Examples, k: int) -> Markup:
    before, after = e.clean[k].reshape(-1), e.adversarial[k].reshape(-1)
    moved = np.flatnonzero(before != after)
    moved = moved[np.argsort(-np.abs(after - before)[moved], kind="stable")]
    bound = e.bound[k] if e.bound else {}
    line = Markup("<tr><td>{}{}</td><td class=n>{}</td><td class=n>→ {} {}</td></tr>")
    note = Markup("<br><small class=soft>held by {}</small>")
    rows = joined(
        line.format(
            e.names[i] if e.names else f"feature {i}",
            note.format("; ".join(bound[i])) if i in bound else "",
            _amount(before[i]),
            _amount(after[i]),
            e.units[i] if e.units else "",
        )
        for i in moved[:10].tolist()
    )
    more = Markup("<p class=soft>and {} more</p>").format(len(moved) - 10)
    return Markup("<table>{}</table>{}").format(rows, more if len(moved) > 10 else "")
