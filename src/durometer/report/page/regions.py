"""The paper's figures 1-3: label regions in two features around a record, as one SVG.

The other features are held at the record's values. The ellipse is the 99 % region of the noise in
the two features (normal coordinates mapped through the marginals, so it is bent where noise is not
normal). Regions are read from the trees cell by cell, never sampled.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from scipy import special, stats

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Noise, factor
from durometer.trees.grid import Grid
from durometer.trees.readers import read

COLOURS = ("#7aa6c2", "#e0b15e", "#9cc08b", "#c98a8a", "#a494c4", "#8fc1b5", "#d3a3c6", "#b9b07c")
SIZE, LEFT, BOTTOM = 420, 78, 50
KEY = 130  # room for the legend


def regions(
    model: Any,
    noise: Noise,
    record: Floats,
    features: tuple[int, int] = (0, 1),
    names: Sequence[str] | None = None,
    share: float = 0.99,
) -> str:
    """An SVG of the labels around one record in two of its features."""
    ensemble = read(model)
    record = ensemble.rows(np.asarray(record, dtype=float).reshape(1, -1))[0]
    a, b = features
    if a == b or not {a, b} <= set(range(ensemble.n_features)):
        raise DurometerError(f"features={features}: expected two of 0..{ensemble.n_features - 1}")
    if names is not None and len(names) != ensemble.n_features:
        raise DurometerError(f"{len(names)} names: expected one for each of {ensemble.n_features}")
    outline = _outline(noise, record, a, b, share)
    low, high = outline.min(axis=0), outline.max(axis=0)
    pad = np.maximum(0.5 * (high - low), 1e-9 + 1e-3 * np.abs(record[[a, b]]))
    low, high = low - pad, high + pad
    grid = Grid.of(ensemble)
    edges = [_edges(grid.thresholds[f], low[k], high[k]) for k, f in enumerate(features)]

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - low[0]) / (high[0] - low[0]) * SIZE,
            10 + (high[1] - y) / (high[1] - low[1]) * SIZE,
        )

    body = []
    xs, ys = np.meshgrid(edges[0][1:], edges[1][1:], indexing="ij")
    rows = np.repeat(record[None], xs.size, axis=0)
    rows[:, a], rows[:, b] = xs.ravel(), ys.ravel()  # a cell's upper edge belongs to it
    label = ensemble.predict(rows).reshape(xs.shape)
    for i in range(len(edges[0]) - 1):
        for j in range(len(edges[1]) - 1):
            left, top = place(edges[0][i], edges[1][j + 1])
            right, bottom = place(edges[0][i + 1], edges[1][j])
            body.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{bottom - top:.1f}" fill="{COLOURS[label[i, j] % len(COLOURS)]}" '
                f'stroke="white" stroke-width="0.5"><title>'
                f"{escape(str(ensemble.classes[label[i, j]]))}</title></rect>"
            )
    ring = " ".join("{:.1f},{:.1f}".format(*place(*p)) for p in outline)
    x, y = place(record[a], record[b])
    title = [str(names[f]) if names is not None else f"feature {f}" for f in features]
    body += [
        f'<polygon points="{ring}" fill="none" stroke="black" stroke-dasharray="4 3"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
        f'<text x="{LEFT + SIZE / 2}" y="{SIZE + BOTTOM - 5}" text-anchor="middle">'
        f"{escape(title[0])}</text>",
        f'<text x="14" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 14 {SIZE / 2})">'
        f"{escape(title[1])}</text>",
    ]
    for k in range(3):
        at = low + (high - low) * (k / 2)
        px, _ = place(at[0], low[1])
        _, py = place(low[0], at[1])
        body.append(f'<text x="{px:.1f}" y="{SIZE + 26}" text-anchor="middle">{at[0]:.3g}</text>')
        body.append(f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{at[1]:.3g}</text>')
    body += _legend([(int(c), str(ensemble.classes[c])) for c in np.unique(label)], share)
    width = LEFT + SIZE + 30 + KEY
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIZE + BOTTOM}" '
        f'font-family="sans-serif" font-size="12" role="img">{"".join(body)}</svg>'
    )


def _legend(labels: Sequence[tuple[int, str]], share: float) -> list[str]:
    """What the colours, the dot and the ring are."""
    x, body = LEFT + SIZE + 16, []
    for k, (c, name) in enumerate(labels):
        y = 16 + 22 * k
        body.append(
            f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[c % len(COLOURS)]}"/>'
            f'<text x="{x + 20}" y="{y + 11}">{escape(name[:18])}</text>'
        )
    y = 16 + 22 * len(labels)
    return [
        "<g>",
        *body,
        f'<circle cx="{x + 7}" cy="{y + 7}" r="4"/><text x="{x + 20}" y="{y + 11}">as read</text>',
        f'<line x1="{x}" y1="{y + 29}" x2="{x + 14}" y2="{y + 29}" stroke="black" '
        f'stroke-dasharray="4 3"/><text x="{x + 20}" y="{y + 33}">{share:.0%} of readings</text>',
        "</g>",
    ]


def _edges(thresholds: Floats, low: float, high: float) -> Floats:
    inside = thresholds[(thresholds > low) & (thresholds < high)]
    return np.concatenate([[low], inside, [high]])


def _outline(noise: Noise, record: Floats, a: int, b: int, share: float) -> Floats:
    correlation = noise.correlation(len(record))
    pair = np.eye(2) if correlation is None else correlation[np.ix_([a, b], [a, b])]
    angle = np.linspace(0, 2 * np.pi, 90)
    ring = np.sqrt(stats.chi2.ppf(share, 2)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    level = special.ndtr(ring @ factor(pair).T)
    parts = noise.marginals(len(record))
    return np.stack(
        [np.asarray(parts[f].quantile(record[f], level[:, k])) for k, f in enumerate((a, b))],
        axis=1,
    )
