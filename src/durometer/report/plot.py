"""Plots: the figures of a report as matplotlib axes, in and out.

Every mark is a figure of the report: counts of rows, or estimates with their intervals. An axis
that shows the result of attacks alone says "at most".

What a reader would get wrong: a name from the data may hold a dollar sign, which matplotlib takes
for a formula; `_text` makes it a dollar sign again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError, Unsupported
from durometer.core.notebook_html import COLOURS
from durometer.report import changes
from durometer.report.figures.confusion import confusion
from durometer.report.radii import curve, minimised, radius
from durometer.report.stats import Estimate
from durometer.report.verdicts import verdicts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from durometer.report.comparison import Comparison
    from durometer.report.examples import Examples
    from durometer.report.report import Report

_CLASSES, _LONG, _WIDE = 45, 28, 70  # classes in a map; letters of a name; letters of a title line
_LETTERS = 15  # of a class below a picture


def axes(ax: Axes | None, size: tuple[float, float] = (6.0, 3.6)) -> Axes:
    """The axes to draw into: those given, or new ones.

    Args:
        ax: Axes of the caller's; None makes a figure.
        size: Width and height of a new figure, in inches.

    Raises:
        Unsupported: matplotlib is not installed.
        DurometerError: `ax` is something else.
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes as Known
    except ImportError as error:
        raise Unsupported(
            f"plots need matplotlib ({error}): pip install 'durometer[plot]'"
        ) from None
    if ax is None:
        return plt.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Known):
        raise DurometerError(
            f"ax={type(ax).__name__}: expected one matplotlib Axes, e.g. plt.subplots()[1]"
        )
    return ax


def _text(name: object) -> str:
    """A name as matplotlib shows it: never a formula, on one line, not too long."""
    text = " ".join(str(name).split())
    text = text if len(text) <= _LONG else text[: _LONG - 1] + "…"
    return text.replace("$", r"\$")


def _names(report: Report, classes: Sequence[int]) -> list[str]:
    known = [report.spec.class_name(c) for c in classes]
    return [_text(c if isinstance(c, str) else f"class {c}") for c in known]


def estimates(ax: Axes, named: dict[str, Estimate]) -> None:
    """A dot and a line per estimate, the first on top."""
    at = np.arange(len(named))[::-1]
    value, low, high = (
        np.array([float(v) for v in values])
        for values in zip(*((e.value, e.low, e.high) for e in named.values()), strict=True)
    )
    reach = np.clip([value - low, high - value], 0, None)
    ax.errorbar(value, at, xerr=reach, fmt="o", color=COLOURS["proven"], capsize=3)
    ax.set_yticks(at, [_text(name) for name in named])


@dataclass(frozen=True, eq=False)
class Plots:
    """The plots of a report; made by `Report.plot`.

    Each takes matplotlib axes (`ax=None` makes a figure) and returns them. matplotlib is an
    optional extra: `pip install 'durometer[plot]'`.

    Args:
        report: The report that is drawn.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10))
    >>> ax = report.plot.verdicts()
    >>> [int(bar.get_width()) for bar in ax.patches]
    [5, 11]
    """

    report: Report

    def verdicts(self, ax: Axes | None = None) -> Axes:
        """Draws what is known of the rows, as one bar: proven, open, broken, wrong from the start.

        Args:
            ax: Axes to draw into. None makes a figure.

        Returns:
            The axes.
        """
        counts = verdicts(self.report)
        ax, left = axes(ax, (7.0, 2.2)), 0
        for kind, (name, n) in counts.items():
            ax.barh([0], [n], left=left, color=COLOURS[kind], label=f"{n:,} {name}")
            left += n
        ax.set_xlim(0, max(1, left))
        ax.set_yticks([])
        ax.set_xlabel("rows")
        columns = 1 if max(len(name) for name, _ in counts.values()) > _LONG else 2
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.45), ncols=columns, frameon=False)
        return ax

    def curve(self, ax: Axes | None = None, eps: Sequence[float] | None = None) -> Axes:
        """Draws robust accuracy at each radius: at most (attacked) and, where known, at least.

        Args:
            ax: Axes to draw into. None makes a figure.
            eps: The radii, from 0 to the size of the run's space. None chooses about two dozen.

        Returns:
            The axes.

        Raises:
            DurometerError: The run's space has no size, or a radius lies outside of it.
        """
        found = curve(self.report, eps)
        ax = axes(ax)
        sides = {"at_most": ("at most (attacked)", "broken")}
        if self.report.two_sided or minimised(self.report):
            sides["at_least"] = ("at least (proven)", "proven")
        x = found.index.to_numpy(float)
        for side, (name, colour) in sides.items():
            y, low, high = (
                np.array([getattr(e, end) for e in found[side]], float)
                for end in ("value", "low", "high")
            )
            style = "--" if side == "at_least" else "-"  # both are seen where they are one
            ax.plot(x, y, style, color=COLOURS[colour], label=name)
            ax.fill_between(x, low, high, color=COLOURS[colour], alpha=0.15, linewidth=0)
        ax.set_xlabel("eps")
        ax.set_ylabel("robust accuracy")
        ax.set_ylim(-0.02, 1.02)
        ax.legend(frameon=False)
        return ax

    def confusion(self, ax: Axes | None = None) -> Axes:
        """Draws how many rows of each class the attacks turned into which class.

        Args:
            ax: Axes to draw into. None makes a figure.

        Returns:
            The axes; the counts are its first image.

        Raises:
            DurometerError: No attack succeeded.
        """
        found = confusion(self.report, _CLASSES)
        if found is None:
            raise DurometerError("plot.confusion(): no attack succeeded on any row of this run")
        ax = axes(ax, (5.0, 4.0))
        ax.imshow(found.counts, cmap="Blues", vmin=0)
        if found.counts.size <= 400:
            dark = found.counts > found.counts.max() / 2
            for i, j in np.ndindex(*found.counts.shape):
                shade = "white" if dark[i, j] else "black"
                ax.text(j, i, f"{found.counts[i, j]:,}", ha="center", va="center", color=shade)
        ax.set_yticks(range(len(found.sources)), _names(self.report, found.sources))
        ax.set_xticks(range(len(found.ends)), _names(self.report, found.ends), rotation=30)
        ax.set_ylabel("true class")
        ax.set_xlabel("class after the attack")
        return ax

    def features(self, ax: Axes | None = None, most: int = 12) -> Axes:
        """Draws in how many successes each feature was changed, of tables.

        Args:
            ax: Axes to draw into. None makes a figure.
            most: How many features to show, the most often changed first.

        Returns:
            The axes.

        Raises:
            DurometerError: The data have no named features, or no attack succeeded.
        """
        e = self.report.examples
        if e is None or not e.names:
            raise DurometerError(
                "plot.features() is about the columns of a table in which an attack succeeded, and "
                "this run has none"
            )
        often = [i for i in np.argsort(-e.changed, kind="stable")[: max(1, most)] if e.changed[i]]
        ax = axes(ax)
        at = np.arange(len(often))[::-1]
        ax.barh(at, [int(e.changed[i]) for i in often], color=COLOURS["broken"])
        ax.set_yticks(at, [_text(e.names[i]) for i in often])
        ax.set_xlabel("successes in which it was changed")
        return ax

    def distances(self, ax: Axes | None = None, bins: int = 30) -> Axes:
        """Draws the distances of the successes as a histogram, with the allowed radius as a line.

        Args:
            ax: Axes to draw into. None makes a figure.
            bins: Bars of the histogram.

        Returns:
            The axes.

        Raises:
            DurometerError: No attack succeeded at a known distance.
        """
        t = self.report.table
        won = t.loc[t["success"] & (t["winner"] != "clean"), "distance"].to_numpy(float)
        won = won[np.isfinite(won)]
        if not len(won):
            raise DurometerError("plot.distances(): no attack succeeded at a known distance")
        ax = axes(ax)
        ax.hist(won, bins=bins, color=COLOURS["broken"])
        most = radius(self.report)
        if most is not None and won.max() <= most * 1.01:
            ax.axvline(most, color="black", linestyle="--", label="allowed")
            ax.legend(frameon=False)
        ax.set_xlabel("distance from the clean input")
        ax.set_ylabel("successes")
        return ax

    def examples(self, ax: Axes | None = None, most: int = 4) -> Axes:
        """Draws the nearest successes, before and after: pictures, changed features or words.

        Args:
            ax: Axes to draw into. None makes a figure.
            most: How many successes to show.

        Returns:
            The axes. Of pictures, the rows are original, attacked and the signed difference (red:
                brighter, blue: darker), scaled to the largest one shown.

        Raises:
            DurometerError: No attack succeeded.
        """
        e = self.report.examples
        if e is None or not len(e.places):
            raise DurometerError("plot.examples(): no attack succeeded on any row of this run")
        count = min(len(e.places), max(1, most))
        if e.is_image:
            return self._pictures(axes(ax, (1.7 * count + 1, 4.6)), e, count)
        ax = axes(ax, (7.0, 0.9 * count + 0.4))
        ax.set_axis_off()
        for k in range(count):
            told = changes.mark_changes(e.clean[k], e.adversarial[k]) if e.text else _moved(e, k)
            told = fill(told, _WIDE).replace("$", r"\$")
            place = (0.0, 1 - (k + 0.5) / count)
            ax.text(*place, f"{self._title(e, k)}\n{told}", transform=ax.transAxes, va="center")
        return ax

    def _title(self, e: Examples, k: int, most: int = _LONG) -> str:
        row = self.report.table.iloc[int(e.places[k])]
        classes = _names(self.report, [int(row["y"]), int(row["final"])])
        names = " → ".join(c if len(c) <= most else c[: most - 1] + "…" for c in classes)
        return f"{_text(row['id'])}: {names}"

    def _pictures(self, ax: Axes, e: Examples, count: int) -> Axes:
        from matplotlib import colormaps

        def colour(images: np.ndarray) -> np.ndarray:  # (k, 1 or 3, h, w) -> (k, h, w, 3)
            shown = np.clip(images, 0, 1).transpose(0, 2, 3, 1)
            return np.repeat(shown, 3, axis=3) if shown.shape[3] == 1 else shown

        clean, after = e.clean[:count].astype(float), e.adversarial[:count].astype(float)
        change = (after - clean).mean(1)
        largest = float(np.abs(change).max()) or 1.0
        signed = colormaps["RdBu_r"](0.5 + change / (2 * largest))[..., :3]
        lines = [np.concatenate(list(r), 1) for r in (colour(clean), colour(after), signed)]
        ax.imshow(np.concatenate(lines, 0))
        height, width = clean.shape[2:]
        names = ["original", "attacked", "difference"]
        ax.set_yticks([(i + 0.5) * height for i in range(3)], names)
        told = [self._title(e, k, _LETTERS).replace(": ", "\n") for k in range(count)]
        told = [t.replace(" → ", "\n→ ") for t in told]
        ax.set_xticks([(k + 0.5) * width for k in range(count)], told, fontsize="small")
        ax.tick_params(length=0)
        return ax


def _moved(e: Examples, k: int, most: int = 4) -> str:
    """The largest changes of an example, as text."""
    before, after = e.clean[k].reshape(-1), e.adversarial[k].reshape(-1)
    moved = np.flatnonzero((before != after) & ~(np.isnan(before) & np.isnan(after)))
    moved = moved[np.argsort(-np.abs(after - before)[moved], kind="stable")]
    parts = [
        f"{_text(e.names[i]) if e.names else f'feature {i}'} {before[i]:.6g} → {after[i]:.6g}"
        for i in moved[:most].tolist()
    ]
    more = f" and {len(moved) - most} more" if len(moved) > most else ""
    return ", ".join(parts).replace(r"\$", "$") + more


def comparison(both: Comparison, ax: Axes | None, names: tuple[str, str]) -> Axes:
    """Where two runs differ: rows by outcome; under noise each row's two probabilities."""
    ax = axes(ax)
    a, b = both.sides
    first, second = (_text(name) for name in names)
    if both.noisy:
        ax.scatter(a, b, s=12, color=COLOURS["proven"])
        ax.axline((0, 0), slope=1, color="black", linewidth=0.8)
        ax.set_xlabel(f"probability that the answer stays, {first}")
        ax.set_ylabel(second)
    else:
        counts = {
            "held in both": (int((a & b).sum()), "open"),
            f"broken in {first} only": (both.only_first, "broken"),
            f"broken in {second} only": (both.only_second, "broken"),
            "broken in both": (int((~a & ~b).sum()), "wrong"),
        }
        at = np.arange(len(counts))[::-1]
        ax.barh(at, [n for n, _ in counts.values()], color=[COLOURS[c] for _, c in counts.values()])
        ax.set_yticks(at, list(counts))
        ax.set_xlabel("rows")
    said = both.sentence(names).replace("$", r"\$")
    ax.set_title(fill(said, _WIDE), fontsize="small", loc="left")
    return ax


def ladder(reports: dict[str, Report], ax: Axes | None) -> Axes:
    """Accuracy on each rung, with its interval."""
    ax = axes(ax)
    estimates(ax, {name: report.metric("robust") for name, report in reports.items()})
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("accuracy (under attack: at most)")
    return ax
