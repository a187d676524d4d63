"""Draws one picture for each of the four papers: docs/pictures/paper-*.svg.

python docs/pictures/papers.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
ROBUST, WEAK, INK = "#2a9d8f", "#e76f51", "#264653"


def main() -> None:
    """All four, in the same colours."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "durometer", "svg.fonttype": "none"})
    for draw in (tables, nature, transductive, groups):
        figure = draw()
        file = HERE / f"paper-{draw.__name__}.svg"
        figure.savefig(file, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def tables() -> plt.Figure:
    """A ball around a row, the line of rows that can exist, and the border of the model."""
    figure, axis = plt.subplots(figsize=(5.2, 3.2))
    axis.add_patch(plt.Circle((0.5, 0.5), 0.28, color=ROBUST, alpha=0.2))
    span = np.linspace(0, 1, 50)
    axis.plot(span, span, color=INK, lw=2)
    axis.plot(span * 0.8, span * 0.8 + 0.22, color=WEAK, lw=2, ls="--")
    axis.plot(0.5, 0.5, "o", color=INK, ms=8)
    axis.plot(0.36, 0.69, "x", color=WEAK, ms=9, mew=2)
    axis.plot(0.69, 0.69, "s", color=ROBUST, ms=7)
    axis.text(0.53, 0.45, "the row")
    axis.text(1.02, 0.97, "rows that can exist:\ntotal = sum of parts")
    axis.text(
        -0.42, 0.7, "a change in the ball that\ncrosses the border,\nbut cannot exist", color=WEAK
    )
    axis.text(0.82, 0.62, "the farthest row that can\nexist: same decision", color=ROBUST)
    axis.text(0.4, 1.06, "the model's border", color=WEAK)
    axis.set_aspect("equal")
    return _bare(figure, axis)


def nature() -> plt.Figure:
    """A cloud of possible measurements over the boxes of a tree."""
    figure, axis = plt.subplots(figsize=(5.2, 3.2))
    axis.add_patch(plt.Rectangle((0, 0), 0.55, 1, color=ROBUST, alpha=0.25))
    axis.add_patch(plt.Rectangle((0.55, 0), 0.45, 0.4, color=ROBUST, alpha=0.25))
    axis.add_patch(plt.Rectangle((0.55, 0.4), 0.45, 0.6, color=WEAK, alpha=0.25))
    draws = np.random.default_rng(0).normal((0.45, 0.55), 0.1, (300, 2))
    axis.plot(*draws.T, ".", ms=2, color=INK)
    axis.plot(0.45, 0.55, "o", color=INK, ms=8)
    axis.annotate("what was measured", (0.45, 0.55), (0.05, 0.9))
    axis.annotate("what may be true", (0.3, 0.4), (0.05, 0.12))
    axis.annotate(
        "other decision:\nthe share of the\ncloud here is\nthe risk", (0.8, 0.7), (0.72, 0.68)
    )
    return _bare(figure, axis)


def transductive() -> plt.Figure:
    """Who moves when, in a game against a defence that adapts."""
    figure, axis = plt.subplots(figsize=(6.2, 2.4))
    steps = ("attacker\nhands in\na batch", "defender\nretrains\non it", "defender\nanswers")
    for number, text in enumerate(steps):
        axis.add_patch(
            plt.Rectangle(
                (number * 0.36, 0.45), 0.24, 0.45, color=(WEAK, ROBUST, ROBUST)[number], alpha=0.3
            )
        )
        axis.text(number * 0.36 + 0.12, 0.675, text, ha="center", va="center")
        if number < 2:
            axis.annotate(
                "",
                (number * 0.36 + 0.36, 0.675),
                (number * 0.36 + 0.24, 0.675),
                arrowprops={"arrowstyle": "->"},
            )
    axis.annotate(
        "",
        (0.12, 0.42),
        (0.48, 0.42),
        arrowprops={"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.4", "color": WEAK},
    )
    axis.text(
        0.3,
        -0.1,
        "rehearsal: the attacker runs the same\ndefence at home, and attacks what comes out",
        ha="center",
        color=WEAK,
    )
    return _bare(figure, axis)


def groups() -> plt.Figure:
    """Classes as rows and columns; only some confusions do harm."""
    figure, axis = plt.subplots(figsize=(4.4, 3.4))
    names = ("stop", "yield", "no entry", "priority", "go straight")
    harm = np.zeros((5, 5))
    harm[:3, 3:] = 1
    axis.imshow(harm, cmap=mpl.colors.ListedColormap(["#f1f1f1", WEAK]), vmin=0, vmax=1)
    axis.set_xticks(range(5), names, rotation=35, ha="right")
    axis.set_yticks(range(5), names)
    axis.set_xlabel("what it is taken for")
    axis.set_ylabel("what it is")
    axis.text(3.5, 1, "harm", ha="center", va="center", color="white", weight="bold")
    axis.text(1, 3.5, "no harm", ha="center", va="center")
    return figure


def _bare(figure: plt.Figure, axis: plt.Axes) -> plt.Figure:
    axis.axis("off")
    return figure


if __name__ == "__main__":
    main()
