"""Charts as SVG text: no plotting library, no script, a few kilobytes each.

Marks (bars, dots, lines, words); charts of named rows (rates with their intervals, bars, the bar of
verdicts, a table as colours); charts with a scale (a histogram, rates as curves against a budget),
whose ticks are round numbers in the problem's own units: `per` says which, 255 for pictures.

Colours are CSS classes of the page, so light, dark and print need one drawing only. Every mark has
a `<title>`, which the page shows as a tooltip and screen readers read. All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from durometer.report.page import axis_scale
from durometer.report.page.section import draw, percent
from durometer.report.stats import Estimate

WIDTH = 540  # of every chart, in its own units


def drawing(
    height: float, alt: str, body: Sequence[Markup], width: int = WIDTH, role: str = "img"
) -> Markup:
    """A chart as wide as its place, which scrolls where that is too narrow; its role is "group"
    where parts of it can be clicked."""
    opening = Markup(
        '<div class="chart" tabindex="0" role="group" aria-label="{}">'
        '<svg viewBox="0 0 {} {}" role="{}" aria-label="{}">'
    )
    return (
        opening.format(alt, width, round(height), role, alt)
        + Markup("").join(body)
        + Markup("</svg></div>")
    )


def label(x: float, y: float, said: object, anchor: str = "start", kind: str = "") -> Markup:
    """Words."""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(
        x, y, anchor, kind, said
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(
        x1, y1, x2, y2, kind
    )


def bar(x: float, y: float, w: float, h: float, kind: str, tip: str) -> Markup:
    """A rectangle that says what it is."""
    shape = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}">')
    shape = shape.format(x, y, max(w, 0.0), max(h, 0.0), kind)
    return shape + Markup("<title>{}</title></rect>").format(tip)


def dot(x: float, y: float, r: float, kind: str, tip: str) -> Markup:
    """A point that says what it is."""
    shape = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" class="{}"><title>{}</title></circle>')
    return shape.format(x, y, r, kind, tip)


def path(points: str, kind: str) -> Markup:
    """Any outline, as SVG writes it."""
    return Markup('<path d="{}" class="{}"/>').format(points, kind)


def short(text: object, most: int = 32) -> str:
    """A name that fits beside a bar."""
    name = str(text)
    return name if len(name) <= most else name[: most - 1] + "…"


_ROW = 26
_LETTER, _CAPITAL = 7.8, 9.6  # width of a letter, about


def _room(names: Iterable[str]) -> float:
    """For the names on the left: what the longest needs, within bounds."""

    def wide(name: str) -> float:
        capitals = sum(c.isupper() for c in name)
        return _CAPITAL * capitals + _LETTER * (len(name) - capitals)

    return min(274.0, max(60.0, 20 + max((wide(short(n)) for n in names), default=0)))


def intervals(rows: Mapping[str, Estimate], alt: str) -> Markup:
    """Rates on one scale from 0 to 1: a dot, its 95 % interval, its denominator."""
    left, right = _room(rows), WIDTH - 96
    span = right - left - 14
    body = []
    height = _ROW * len(rows) + 30
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + tick * span
        body += [line(x, 4, x, height - 24, "grid")]
        body += [label(x, height - 8, f"{100 * tick:.0f} %", "middle", "tick")]
    for i, (name, e) in enumerate(rows.items()):
        y = _ROW * i + 18
        tip = f"{name}: {e}"
        body += [label(left - 10, y + 4, short(name), "end")]
        if e.n:
            low, high, at = (left + v * span for v in (e.low, e.high, e.value))
            body += [bar(low, y - 3, high - low, 6, "range", tip)]
            body += [dot(at, y, 5, "dot", tip)]
            body += [label(right, y + 4, f"{percent(e.value)} of {e.n:,}", "start", "tick")]
    return drawing(height, alt, body)


def bars(counts: Mapping[str, float], alt: str, unit: str = "") -> Markup:
    """Horizontal bars, in the order given."""
    top, left = max(counts.values(), default=0) or 1, _room(counts)
    span = WIDTH - left - 70
    body = []
    for i, (name, value) in enumerate(counts.items()):
        y = _ROW * i + 4
        length = value / top * span
        body += [label(left - 10, y + 14, short(name), "end")]
        body += [bar(left, y, length, 18, "bar", f"{name}: {value:g} {unit}".strip())]
        body += [label(left + length + 6, y + 14, f"{value:g}", "start", "tick")]
    return drawing(_ROW * len(counts) + 8, alt, body)


def verdicts(counts: Mapping[str, tuple[str, int]], alt: str) -> Markup:
    """One bar over the whole width: kind -> (what it is called, rows); a legend below.

    The bar is stretched to the page and so holds no text.
    """
    whole, left = max(1, sum(n for _, n in counts.values())), 0.0
    body, legend = [], []
    for kind, (name, count) in counts.items():
        share = count / whole
        tip = f"{name}: {count:,} of {whole:,} ({percent(share)})"
        body += [bar(1000 * left, 0, 1000 * share, 10, kind, tip)] if count else []
        legend += [(kind, name, f"{count:,}", percent(share))]
        left += share
    return draw("verdicts", alt, body, legend)


def heat(
    table: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    alt: str,
    percent: bool = False,
) -> Markup:
    """A table of counts (or shares, with `percent`) as colours: from (rows) to (columns)."""
    left = _room(rows)
    size = min(38.0, (WIDTH - left - 30) / max(1, len(columns)))
    top = 1.0 if percent else table.max() or 1
    head = 24.0 + 5 * max((len(short(c, 14)) for c in columns), default=0)
    body = []
    turned = Markup('<text transform="translate({:.1f},{:.1f}) rotate(-50)" class="tick">{}</text>')
    for j, name in enumerate(columns):
        body += [turned.format(left + size * (j + 0.5), head - 8, short(name, 14))]
    for i, name in enumerate(rows):
        y = head + size * i
        body += [label(left - 10, y + size / 2 + 4, short(name), "end")]
        for j, target in enumerate(columns):
            value = table[i, j]
            level = math.ceil(9 * value / top) if value else 0
            shown = f"{100 * value:.0f}" if percent else f"{value:g}"
            tip = f"{name} taken for {target}: {shown}{' %' if percent else ''}"
            body += [bar(left + size * j, y, size - 1, size - 1, f"heat{level}", tip)]
            if value and size >= 20:
                middle = left + size * (j + 0.5) - 0.5
                kind = f"cell cell{level}"
                body += [label(middle, y + size / 2 + 4, shown, "middle", kind)]
    return drawing(head + size * len(rows) + 6, alt, body)


_LEFT = 46.0


def histogram(
    values: np.ndarray, alt: str, axis: str, mark: float | None = None, per: int = 1
) -> Markup:
    """How a number is spread over the rows; `mark` is a line to compare with."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not len(values):
        return Markup("")
    low, high = float(values.min()), float(values.max())
    if mark is not None:
        low, high = min(low, mark), max(high, mark)
    if high - low <= 1e-6 * max(abs(low), abs(high)) + 1e-305:  # one value, up to rounding
        low, high = low - 0.1 * (abs(low) or 1), high + 0.1 * (abs(high) or 1)
    counts, edges = np.histogram(values, _edges(values, low, high, per))
    low, high = float(edges[0]), float(edges[-1])
    bottom, tall = 170.0, 150.0
    span = WIDTH - _LEFT - 16
    rows = axis_scale.ticks(0, float(counts.max()), 4, whole=True)
    top = max(float(counts.max()), 1.0)

    def across(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * span

    body = []
    for tick in rows:
        y = bottom - tick / top * tall
        body += [line(_LEFT, y, WIDTH - 16, y, "grid")]
        body += [label(_LEFT - 6, y + 4, axis_scale.shown(tick), "end", "tick")]
    for count, start, end in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        tip = f"{count} rows from {axis_scale.amount(start, per)} to {axis_scale.amount(end, per)}"
        height, wide = count / top * tall, across(end) - across(start) - 1
        body += [bar(across(start), bottom - height, wide, height, "bar", tip)]
    for value in axis_scale.ticks(low, high, 6, per):
        body += [line(across(value), bottom, across(value), bottom + 4, "grid")]
        body += [label(across(value), bottom + 18, axis_scale.shown(value, per), "middle", "tick")]
    if mark is not None:
        body += [line(across(mark), 8, across(mark), bottom, "mark")]
    body += [label(_LEFT + span / 2, bottom + 38, axis, "middle", "tick")]
    return drawing(bottom + 48, alt, body)


def _edges(values: np.ndarray, low: float, high: float, per: int) -> np.ndarray:
    """Round edges that hold all values; about twice the root of their number of bins."""
    bins = int(np.clip(2 * len(values) ** 0.5, 8, 30))
    wide = axis_scale.step((high - low) * per, bins) / per
    first, last = math.floor(low / wide + 1e-9), math.ceil(high / wide - 1e-9)
    edges = wide * np.arange(first, max(last, first + 1) + 1)
    if not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
        return np.linspace(low, high, bins + 1)  # so near to each other that rounding joins them
    edges[0], edges[-1] = min(edges[0], values.min()), max(edges[-1], values.max())
    return edges


def curves(
    series: Mapping[str, Sequence[tuple[float, Estimate]]],
    alt: str,
    axis: str,
    log: bool = False,
    per: int = 1,
) -> Markup:
    """Rates against a budget, one line per series, each with its 95 % band; a legend to click."""
    points = [x for of in series.values() for x, _ in of]
    low, high = min(points), max(points)
    logarithmic = log and 0 < low < high
    place = math.log10 if logarithmic else float
    wide = (place(high) - place(low)) or 1.0
    bottom, tall = 220.0, 200.0
    named = len(series) > 1
    span = WIDTH - _LEFT - (150 if named else 24)

    def across(x: float) -> float:
        return _LEFT + (place(x) - place(low)) / wide * span

    def at(x: float, y: float) -> str:
        return f"{across(x):.1f},{bottom - y * tall:.1f}"

    body = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - tick * tall
        body += [line(_LEFT, y, _LEFT + span, y, "grid")]
        body += [label(_LEFT - 6, y + 4, f"{100 * tick:.0f} %", "end", "tick")]
    for value in (
        axis_scale.powers(low, high) if logarithmic else axis_scale.ticks(low, high, 6, per)
    ):
        body += [line(across(value), bottom, across(value), bottom + 4, "grid")]
        body += [label(across(value), bottom + 18, axis_scale.shown(value, per), "middle", "tick")]
    for k, (name, of) in enumerate(series.items()):
        kind = f"line{k % 6}"
        band = [at(x, e.high) for x, e in of] + [at(x, e.low) for x, e in reversed(of)]
        middle = " ".join(at(x, e.value) for x, e in of)
        body += [Markup('<g data-series="{}">').format(k)]
        body += [Markup('<polygon points="{}" class="band {}"/>').format(" ".join(band), kind)]
        body += [Markup('<polyline points="{}" class="curve {}"/>').format(middle, kind)]
        for x, e in of:
            tip = f"{name}, {axis} {axis_scale.amount(x, per)}: {e}"
            size = 4 if len(of) <= 12 else 2
            body += [dot(across(x), bottom - e.value * tall, size, f"curve {kind}", tip)]
        body += [Markup("</g>")]
        if named:
            body += _key(k, name, kind, _LEFT + span)
    body += [label(_LEFT + span / 2, bottom + 38, axis, "middle", "tick")]
    role = "group" if named else "img"
    return drawing(max(bottom + 48, 30 + 22 * len(series)), alt, body, role=role)


def _key(k: int, name: str, kind: str, right: float) -> list[Markup]:
    """A line of the legend, which hides its series and shows it again."""
    return [
        Markup('<g class="legend" role="button" tabindex="0" data-for="{}">').format(k),
        bar(right + 12, 4 + 22 * k, 130, 20, "hit", f"{name}: show or hide"),
        bar(right + 16, 12 + 22 * k, 14, 4, f"key {kind}", name),
        label(right + 36, 19 + 22 * k, short(name, 16)),
        Markup("</g>"),
    ]
