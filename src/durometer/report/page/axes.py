"""Charts with a scale of numbers: a histogram, and rates as curves against a budget.

Ticks are round numbers in the problem's own units (`scale`); `per` says which, 255 for pictures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from durometer.report.page import axis_scale
from durometer.report.page.svg_marks import WIDTH, bar, dot, drawing, label, line, short
from durometer.report.stats import Estimate

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
        body += [label(_LEFT - 6, y + 4, f"{tick:.0%}", "end", "tick")]
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
    return drawing(max(bottom + 48, 30 + 22 * len(series)), alt, body)


def _key(k: int, name: str, kind: str, right: float) -> list[Markup]:
    """A line of the legend, which hides its series and shows it again."""
    return [
        Markup('<g class="legend" role="button" tabindex="0" data-for="{}">').format(k),
        bar(right + 12, 4 + 22 * k, 130, 20, "hit", f"{name}: show or hide"),
        bar(right + 16, 12 + 22 * k, 14, 4, f"key {kind}", name),
        label(right + 36, 19 + 22 * k, short(name, 16)),
        Markup("</g>"),
    ]
