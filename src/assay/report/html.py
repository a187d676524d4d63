"""A report as one page: a verdict a manager understands, then everything that backs it up.

One self-contained file: SVG drawn here, a little script for sorting and filtering, pictures inside.
The page's own policy allows only that very style and script (by their hashes) and no network, so
a hostile name in the data stays text even if it were not escaped, which it is.

A section is a function from the report to a `Section`, or None where the run has nothing to say.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from assay.report import png, svg
from assay.report.stats import Estimate

if TYPE_CHECKING:
    from assay.report.report import Report

_MOST_ROWS = 400  # of the records shown in the page; the rest is in records.parquet


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    id: str
    title: str
    body: Markup
    text: str = ""


def page(report: Report) -> str:
    """The whole page."""
    from importlib.metadata import version

    folder = files("assay.report") / "templates"
    style, script = ((folder / f"report.{kind}").read_text() for kind in ("css", "js"))
    template = Environment(autoescape=True).from_string((folder / "report.html").read_text())
    sections = [s for make in SECTIONS if (s := make(report)) is not None]
    return template.render(
        title=f"assay: {report.spec.get('model', '')} on {report.spec.get('data', '')}",
        verdict=verdict(report),
        threat=threat(report),
        sections=sections,
        version=version("assay"),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _of_hundred(e: Estimate) -> str:
    return f"{100 * e.value:.0f} of 100"


def verdict(report: Report) -> str:
    """The answer in one sentence."""
    spec, robust, clean = report.spec, report.metric("robust"), report.metric("clean")
    who = spec.get("model", "The model")
    if not robust.n:
        return f"{who}: no row could be attacked."
    if spec.get("game") == "Nature":
        return f"{who} keeps its answer under the stated noise with probability {robust.value:.3f}."
    if str(spec.get("goal", "")).startswith("untargeted"):
        return (
            f"{who} classifies {_of_hundred(clean)} inputs correctly, "
            f"and {_of_hundred(robust)} when an attacker may change them."
        )
    won = Estimate(1 - robust.value, 1 - robust.high, 1 - robust.low, robust.n)
    return f"An attacker gets what it wants from {who} in {_of_hundred(won)} cases."


def threat(report: Report) -> str:
    """What the attacker could do, in words, as far as the spec tells."""
    spec = report.spec
    parts = [spec.get("threat") or f"The attacker may move within {spec.get('space') or 'noise'}."]
    if spec.get("attack"):
        parts.append(f"It was played by {spec['attack']}.")
    parts.append(f"Data: {spec.get('data')}, {spec.get('rows')} rows, seed {spec.get('seed')}.")
    return " ".join(parts)


def _figures(report: Report) -> Section:
    rates = {t: e for _, (t, e) in report.shown.items() if e.n and e.low >= 0 and e.high <= 1}
    rows = Markup("").join(
        Markup(
            "<tr><td>{}</td><td class=n>{}</td><td class=n>{} – {}</td><td class=n>{}</td></tr>"
        ).format(title, _number(e.value), _number(e.low), _number(e.high), e.n)
        for _, (title, e) in report.shown.items()
        if e.n
    )
    head = Markup("<tr><th>figure<th class=n>value<th class=n>95 % interval<th class=n>rows</tr>")
    table = Markup("<div class=scroll><table><thead>{}</thead><tbody>{}</tbody></table></div>")
    chart = svg.intervals(rates, "Rates with their 95 % intervals")
    return Section("figures", "Figures", chart + table.format(head, rows))


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) <= 1 else f"{value:,.1f}"


def _flags(report: Report) -> Section | None:
    if not report.flags:
        return None
    body = Markup("").join(
        Markup("<div class='flag {}'><p><strong>{}</strong>: {}</p></div>").format(
            f.level, f.id, f.text
        )
        for f in report.flags
    )
    return Section("flags", "Look at this first", body, "What may make these figures misleading.")


def _winners(report: Report) -> Section | None:
    t = report.table
    won = t.loc[t["success"], "winner"].value_counts()
    if not len(won):
        return None
    counts = {str(k): int(v) for k, v in won.items()}
    text = "Rows broken by each attack; “clean” means that no attack was needed."
    return Section("winners", "Which attack won", svg.bars(counts, text, "rows"), text)


def _spread(report: Report) -> Section | None:
    t = report.table
    body = Markup("")
    won = t.loc[t["success"] & (t["winner"] != "clean"), "distance"].to_numpy(float)
    if np.isfinite(won).any():
        body += Markup("<h3>Distance of the successes</h3>")
        body += svg.histogram(won, "Histogram of distances", "distance from the clean input")
    held = t.loc[~t["success"] & (t["skipped"] == ""), "margin"].to_numpy(float)
    if np.isfinite(held).any():
        body += Markup("<h3>How close the others came</h3>")
        axis = "best margin the attacker reached (0: success)"
        body += svg.histogram(held, "Histogram of margins", axis, mark=0.0)
    return Section("spread", "How near, how far", body) if body else None


def _probabilities(report: Report) -> Section | None:
    t = report.table
    middle = (t["probability_low"] + t["probability_high"]).to_numpy(float) / 2
    if not np.isfinite(middle).any():
        return None
    body = svg.histogram(middle, "Histogram of probabilities", "probability that the answer stays")
    worst = np.argsort(middle)[:10]
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td class=n>{:.6f}</td><td class=n>{:.6f}</td></tr>").format(
            t["id"].iloc[i], t["probability_low"].iloc[i], t["probability_high"].iloc[i]
        )
        for i in worst
    )
    head = Markup(
        "<h3>The least certain records</h3><table><thead><tr><th>id<th class=n>at least"
        "<th class=n>at most</tr></thead><tbody>{}</tbody></table>"
    )
    return Section("probability", "Under noise", body + head.format(rows))


def _classes(report: Report) -> Section | None:
    t = report.table
    names = report.spec.get("classes") or []
    if t["y"].nunique() < 2:
        return None

    def name(c: Any) -> str:
        return str(names[int(c)]) if int(c) < len(names) else f"class {int(c)}"

    by_class = {name(c): e for c, e in report.metric("robust", by="y").items() if e.n}
    body = svg.intervals(by_class, "Robust accuracy by true class")
    won = t[t["success"] & (t["winner"] != "clean")]
    if len(won):
        sources, ends = sorted(won["y"].unique()), sorted(won["final"].unique())
        counts = np.array(
            [[((won["y"] == s) & (won["final"] == e)).sum() for e in ends] for s in sources]
        )
        body += Markup("<h3>What was taken for what</h3>")
        body += svg.heat(
            counts,
            [name(s) for s in sources],
            [name(e) for e in ends],
            "True class against the class after the attack",
        )
    return Section("classes", "Class by class", body)


def _examples(report: Report) -> Section | None:
    e = report.examples
    if e is None:
        return None
    body = Markup("")
    if e.names:
        order = np.argsort(-e.changed, kind="stable")[:12]
        abused = {e.names[i]: float(e.changed[i]) for i in order if e.changed[i]}
        body += Markup("<h3>Features changed most often</h3>")
        body += svg.bars(abused, "Successes in which each feature was changed", "successes")
    show = _pictures if png.is_image(e.clean.shape[1:]) else _changes
    cards = Markup("").join(
        Markup("<div class=card><h3>{}</h3>{}</div>").format(_headline(report, int(at)), show(e, k))
        for k, at in enumerate(e.places)
    )
    body += Markup("<h3>Nearest successes</h3><div class=cards>{}</div>").format(cards)
    return Section("examples", "Examples", body)


def _headline(report: Report, at: int) -> str:
    row = report.table.iloc[at]
    names = report.spec.get("classes") or []
    before, after = (
        names[int(c)] if int(c) < len(names) else f"class {int(c)}"
        for c in (row["y"], row["final"])
    )
    return f"{row['id']}: {before} → {after} (distance {row['distance']:.3g}, {row['winner']})"


def _pictures(e: Any, k: int) -> Markup:
    change = e.adversarial[k] - e.clean[k]
    magnified = 0.5 + change / (2 * np.abs(change).max() or 1)
    shown = {"original": e.clean[k], "attacked": e.adversarial[k], "difference": magnified}
    return Markup("").join(
        Markup("<figure><img src='{}' alt='{}'><figcaption>{}</figcaption></figure>").format(
            png.address(image), name, name
        )
        for name, image in shown.items()
    )


def _changes(e: Any, k: int) -> Markup:
    before, after = e.clean[k].reshape(-1), e.adversarial[k].reshape(-1)
    moved = np.flatnonzero(before != after)
    moved = moved[np.argsort(-np.abs(after - before)[moved], kind="stable")]
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td class=n>{:.6g}</td><td class=n>→ {:.6g} {}</td></tr>").format(
            e.names[i] if e.names else f"feature {i}",
            before[i],
            after[i],
            e.units[i] if e.units else "",
        )
        for i in moved[:10]
    )
    more = (
        Markup("<p class=soft>and {} more</p>").format(len(moved) - 10) if len(moved) > 10 else ""
    )
    return Markup("<table>{}</table>{}").format(rows, more)


def _rows(report: Report) -> Section:
    columns = ("id", "y", "clean", "final", "success", "winner", "distance", "margin", "forwards")
    t = report.table[list(columns)].head(_MOST_ROWS)
    head = Markup("").join(Markup("<th><button>{}</button></th>").format(c) for c in columns)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td>{}</td>").format(f"{v:.4g}" if isinstance(v, float) else v) for v in row
            )
        )
        for row in t.itertuples(index=False)
    )
    table = Markup(
        "<p><input type=search data-filter=records placeholder=filter aria-label='filter rows'>"
        " <span id=records-count class=soft></span></p><div class=scroll>"
        "<table id=records class=sortable><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(head, body)
    n = len(report.table)
    text = "" if n <= _MOST_ROWS else f"The first {_MOST_ROWS} of {n}; all are in records.parquet."
    return Section("records", "Row by row", table, text)


def _spec(report: Report) -> Section:
    rows = Markup("").join(
        Markup("<tr><th>{}</th><td><code>{}</code></td></tr>").format(k, v)
        for k, v in report.spec.items()
        if v not in (None, "", [], {})
    )
    body = Markup("<div class=scroll><table>{}</table></div>").format(rows)
    return Section("spec", "To reproduce", body, "What was asked, with versions and hashes.")


SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    _flags,
    _figures,
    _probabilities,
    _winners,
    _spread,
    _classes,
    _examples,
    _rows,
    _spec,
)
