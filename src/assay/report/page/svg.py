"""Charts as SVG text, drawn here: no plotting library, no script, a few kilobytes each.

Colours are CSS classes of the page, so light, dark and print need one drawing only. Every mark
has a `<title>`, which the page shows as a tooltip and screen readers read. All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from assay.report.stats import Estimate

WIDTH = 540
_ROW = 26
_LABEL = 200  # room for names on the left of horizontal charts


def _svg(height: float, alt: str, body: Sequence[Markup]) -> Markup:
    opening = Markup('<div class="chart"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">')
    opening = opening.format(WIDTH, round(height), alt)
    return opening + Markup("").join(body) + Markup("</svg></div>")


def _text(x: float, y: float, text: object, anchor: str = "start", kind: str = "") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(
        x, y, anchor, kind, text
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(
        x1, y1, x2, y2, kind
    )


def _bar(x: float, y: float, w: float, h: float, kind: str, tip: str) -> Markup:
    shape = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}">')
    shape = shape.format(x, y, max(w, 0.0), max(h, 0.0), kind)
    return shape + Markup("<title>{}</title></rect>").format(tip)


def _dot(x: float, y: float, r: int, kind: str, tip: str) -> Markup:
    shape = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" class="{}"><title>{}</title></circle>')
    return shape.format(x, y, r, kind, tip)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def short(text: object, most: int = 26) -> str:
    """A name that fits beside a bar."""
    name = str(text)
    return name if len(name) <= most else name[: most - 1] + "…"


def intervals(rows: Mapping[str, Estimate], alt: str) -> Markup:
    """Rates on one scale from 0 to 1: a dot, its 95 % interval, its denominator."""
    span, right = WIDTH - _LABEL - 110, WIDTH - 100
    body = []
    height = _ROW * len(rows) + 30
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LABEL + tick * span
        body += [_line(x, 4, x, height - 24, "grid")]
        body += [_text(x, height - 8, f"{tick:.0%}", "middle", "tick")]
    for i, (name, e) in enumerate(rows.items()):
        y = _ROW * i + 18
        tip = f"{name}: {e}"
        body += [_text(_LABEL - 10, y + 4, short(name), "end")]
        if e.n:
            low, high, at = (_LABEL + v * span for v in (e.low, e.high, e.value))
            body += [_bar(low, y - 3, high - low, 6, "range", tip)]
            body += [_dot(at, y, 5, "dot", tip)]
            body += [_text(right, y + 4, f"{e.value:.1%} of {e.n}", "start", "tick")]
    return _svg(height, alt, body)


def bars(counts: Mapping[str, float], alt: str, unit: str = "") -> Markup:
    """Horizontal bars, in the order given."""
    top = max(counts.values(), default=0) or 1
    span = WIDTH - _LABEL - 70
    body = []
    for i, (name, value) in enumerate(counts.items()):
        y = _ROW * i + 4
        length = value / top * span
        body += [_text(_LABEL - 10, y + 14, short(name), "end")]
        body += [_bar(_LABEL, y, length, 18, "bar", f"{name}: {value:g} {unit}".strip())]
        body += [_text(_LABEL + length + 6, y + 14, f"{value:g}", "start", "tick")]
    return _svg(_ROW * len(counts) + 8, alt, body)


def verdicts(counts: Mapping[str, int], alt: str) -> Markup:
    """One bar cut into proven, open and broken: what is known, and what is not."""
    whole, left, top = max(1, sum(counts.values())), 4.0, 8.0
    body = []
    for name, count in counts.items():
        width = count / whole * (WIDTH - 8)
        tip = f"{name}: {count} of {whole} ({count / whole:.1%})"
        body += [_bar(left, top, width, 30, f"verdict {name}", tip)]
        left += width
    legend = 4.0
    for name, count in counts.items():
        body += [_bar(legend, 50, 12, 12, f"verdict {name}", name)]
        body += [_text(legend + 18, 60, f"{name} {count} ({count / whole:.1%})")]
        legend += 170
    return _svg(72, alt, body)


def histogram(
    values: np.ndarray, alt: str, axis: str, mark: float | None = None, bins: int | None = None
) -> Markup:
    """How a number is spread over the rows; `mark` is a line to compare with."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not len(values):
        return Markup("")
    low, high = float(values.min()), float(values.max())
    if mark is not None:
        low, high = min(low, mark), max(high, mark)
    if (
        high - low <= 1e-9 * max(abs(low), abs(high)) + 1e-305
    ):  # one value up to rounding: no bins between
        low, high = low - 0.1 * (abs(low) or 1), high + 0.1 * (abs(high) or 1)
    bins = bins or int(np.clip(2 * len(values) ** 0.5, 8, 30))
    counts, edges = np.histogram(values, bins, (low, high))
    left, bottom, tall = 46.0, 170.0, 150.0
    span = WIDTH - left - 16
    top = counts.max()
    body = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * tall
        body += [_line(left, y, WIDTH - 16, y, "grid")]
        body += [_text(left - 6, y + 4, f"{share * top:.0f}", "end", "tick")]
    for count, start, end in zip(counts, edges[:-1], edges[1:], strict=True):
        x = left + (start - low) / (high - low) * span
        w = (end - start) / (high - low) * span - 1
        tip = f"{count} rows from {start:.4g} to {end:.4g}"
        body += [_bar(x, bottom - count / top * tall, w, count / top * tall, "bar", tip)]
    for value in np.linspace(low, high, 5):
        x = left + (value - low) / (high - low) * span
        body += [_text(x, bottom + 18, _tick(value), "middle", "tick")]
    if mark is not None:
        x = left + (mark - low) / (high - low) * span
        body += [_line(x, 8, x, bottom, "mark")]
    body += [_text(left + span / 2, bottom + 38, axis, "middle", "tick")]
    return _svg(bottom + 48, alt, body)


def heat(
    table: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    alt: str,
    percent: bool = False,
) -> Markup:
    """A table of counts (or shares, with `percent`) as colours: from (rows) to (columns)."""
    size = min(38.0, (WIDTH - _LABEL) / max(1, len(columns)))
    top = 1.0 if percent else table.max() or 1
    head = 90
    body = []
    for j, name in enumerate(columns):
        x = _LABEL + size * (j + 0.5)
        label = Markup('<text transform="translate({:.1f},{}) rotate(-50)" class="tick">{}</text>')
        body += [label.format(x, head - 8, short(name, 14))]
    for i, name in enumerate(rows):
        y = head + size * i
        body += [_text(_LABEL - 10, y + size / 2 + 4, short(name), "end")]
        for j, target in enumerate(columns):
            value = table[i, j]
            level = math.ceil(9 * value / top) if value else 0
            shown = f"{100 * value:.0f}" if percent else f"{value:g}"
            tip = f"{name} taken for {target}: {shown}{' %' if percent else ''}"
            body += [_bar(_LABEL + size * j, y, size - 1, size - 1, f"heat{level}", tip)]
            if value and size >= 20:
                middle = _LABEL + size * (j + 0.5) - 0.5
                kind = f"cell cell{level}"
                body += [_text(middle, y + size / 2 + 4, shown, "middle", kind)]
    return _svg(head + size * len(rows) + 6, alt, body)


def curves(
    series: Mapping[str, Sequence[tuple[float, Estimate]]],
    alt: str,
    axis: str,
    log: bool = False,
) -> Markup:
    """Rates against a budget, one line per series, each with its 95 % band; a legend to click."""
    points = [x for line in series.values() for x, _ in line]
    low, high = min(points), max(points)
    scale = math.log10 if log and low > 0 else float
    wide = (scale(high) - scale(low)) or 1.0
    left, bottom, tall = 46.0, 220.0, 200.0
    span = WIDTH - left - 150

    def across(x: float) -> float:
        return left + (scale(x) - scale(low)) / wide * span

    def place(x: float, y: float) -> str:
        return f"{across(x):.1f},{bottom - y * tall:.1f}"

    body = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - tick * tall
        body += [_line(left, y, left + span, y, "grid")]
        body += [_text(left - 6, y + 4, f"{tick:.0%}", "end", "tick")]
    logarithmic = log and 0 < low < high
    for value in np.geomspace(low, high, 5) if logarithmic else np.linspace(low, high, 5):
        body += [_text(across(float(value)), bottom + 18, _tick(value), "middle", "tick")]
    for k, (name, line) in enumerate(series.items()):
        kind = f"line{k % 6}"
        upper = [place(x, e.high) for x, e in line]
        lower = [place(x, e.low) for x, e in reversed(line)]
        body += [Markup('<g data-series="{}">').format(k)]
        body += [
            Markup('<polygon points="{}" class="band {}"/>').format(" ".join(upper + lower), kind)
        ]
        body += [
            Markup('<polyline points="{}" class="curve {}"/>').format(
                " ".join(place(x, e.value) for x, e in line), kind
            )
        ]
        for x, e in line:
            tip = f"{name}, {axis} {x:g}: {e}"
            dot = 4 if len(line) <= 12 else 2
            body += [_dot(across(x), bottom - e.value * tall, dot, f"curve {kind}", tip)]
        body += [Markup("</g>")]
        body += [Markup('<g class="legend" role="button" tabindex="0" data-for="{}">').format(k)]
        body += [_bar(left + span + 12, 4 + 22 * k, 130, 20, "hit", f"{name}: show or hide")]
        body += [_bar(left + span + 16, 12 + 22 * k, 14, 4, f"key {kind}", name)]
        body += [_text(left + span + 36, 19 + 22 * k, short(name, 16)), Markup("</g>")]
    body += [_text(left + span / 2, bottom + 38, axis, "middle", "tick")]
    return _svg(max(bottom + 48, 30 + 22 * len(series)), alt, body)
