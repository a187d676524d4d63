"""The marks of a chart as SVG text: bars, dots, lines, words.

Colours are CSS classes of the page, so light, dark and print need one drawing only. Every mark
has a `<title>`, which the page shows as a tooltip and screen readers read. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH = 540  # of every chart, in its own units


def drawing(height: float, alt: str, body: Sequence[Markup], width: int = WIDTH) -> Markup:
    """A chart as wide as its place, which scrolls where that is too narrow."""
    opening = Markup('<div class="chart"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return (
        opening.format(width, round(height), alt) + Markup("").join(body) + Markup("</svg></div>")
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


def short(text: object, most: int = 36) -> str:
    """A name that fits beside a bar."""
    name = str(text)
    return name if len(name) <= most else name[: most - 1] + "…"
