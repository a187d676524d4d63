"""Charts of named rows, drawn here: no plotting library, no script, a few kilobytes each.

Rates with their intervals, bars, the bar of verdicts, a table as colours. Charts with a scale of
numbers are in `axes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from durometer.report.page.svg_marks import WIDTH, bar, dot, drawing, label, line, short
from durometer.report.stats import Estimate

_ROW = 26
_LETTER, _CAPITAL = 7.2, 9.6  # width of a letter, about


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
        body += [label(x, height - 8, f"{tick:.0%}", "middle", "tick")]
    for i, (name, e) in enumerate(rows.items()):
        y = _ROW * i + 18
        tip = f"{name}: {e}"
        body += [label(left - 10, y + 4, short(name), "end")]
        if e.n:
            low, high, at = (left + v * span for v in (e.low, e.high, e.value))
            body += [bar(low, y - 3, high - low, 6, "range", tip)]
            body += [dot(at, y, 5, "dot", tip)]
            body += [label(right, y + 4, f"{e.value:.1%} of {e.n:,}", "start", "tick")]
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
    entry = Markup('<li><i class="{}"></i><b>{:,}</b> {} <span class="soft">({:.1%})</span></li>')
    for kind, (name, count) in counts.items():
        share = count / whole
        tip = f"{name}: {count:,} of {whole:,} ({share:.1%})"
        body += [bar(1000 * left, 0, 1000 * share, 10, kind, tip)] if count else []
        legend += [entry.format(kind, count, name, share)]
        left += share
    drawn = Markup(
        '<svg class="verdicts" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg><ul class="legend">{}</ul>'
    )
    return drawn.format(alt, Markup("").join(body), Markup("").join(legend))


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
