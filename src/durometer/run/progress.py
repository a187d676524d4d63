"""What one sees while a run goes on: rows, clean, robust, queries per second, time left.

Robust accuracy and the time left come with intervals, which narrow as rows finish. Quiet where
nobody looks: in pipes, in CI, when asked to be. In a notebook the same table stands below the cell
and is replaced in place, which needs nothing but IPython itself.

What a reader would get wrong: chunks read back from a resumed run say nothing about speed, so rates
and the time left come from the chunks played now.
"""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

import numpy as np

from durometer.core import notebook_html
from durometer.core.records import Records
from durometer.report.stats import Estimate, wilson


class Progress:
    """`with Progress(n) as bar: bar.advance(records)`."""

    def __init__(self, total: int, show: bool | None = None) -> None:
        self.total = total
        self.show = show if show is not None else sys.stderr.isatty() or notebook_html.here()
        self.rows = self.correct = self.played = 0
        self.held = 0.0  # rows not broken; under noise the sum of their probabilities
        self.queries = 0  # of the chunks played now
        self._paces: list[tuple[int, float]] = []  # rows and seconds of each of them
        self._start = self._last = time.monotonic()
        self._live: Any = None

    def __enter__(self) -> Progress:
        self._start = self._last = time.monotonic()
        if self.show:
            self._live = Cell(self) if notebook_html.here() else _terminal(self)
            self._live.start()
        return self

    @property
    def state(self) -> dict[str, str]:
        """What is shown, by its name."""
        seconds = sum(s for _, s in self._paces)
        left = self.left
        return {
            "rows": f"{self.rows:,}/{self.total:,}",
            "clean": f"{self.correct / self.rows:.3f}" if self.rows else "-",
            "robust": _rate(self.robust),
            "queries/s": f"{self.queries / seconds:,.0f}" if seconds else "-",
            "passed": _clock(time.monotonic() - self._start),
            "left": f"{_clock(left[0])} to {_clock(left[1])}" if left else "-",
        }

    @property
    def html(self) -> str:
        """The state below a notebook's cell."""
        bar = f'<progress value="{self.rows}" max="{max(1, self.total)}"></progress>'
        return bar + notebook_html.table(tuple(self.state), [tuple(self.state.values())])

    def advance(self, part: Records, stored: bool = False) -> None:
        c = part.columns
        played = c["skipped"] == ""
        self.rows += len(part)
        self.correct += int((c["clean"] == c["y"]).sum())
        self.played += int(played.sum())
        middle = (c["probability_low"] + c["probability_high"]) / 2
        self.held += float(np.where(np.isfinite(middle), middle, ~c["success"])[played].sum())
        now = time.monotonic()
        if not stored:
            self.queries += int(c["forwards"].sum())
            self._paces.append((len(part), now - self._last))
        self._last = now
        if self._live is not None:
            self._live.update(self.table())

    @property
    def robust(self) -> Estimate:
        """Robust accuracy so far; of probabilities Wilson's interval is at least wide enough."""
        return wilson(self.held, self.played)

    @property
    def half_width(self) -> float:
        """Half the width of the interval of robust accuracy so far."""
        e = self.robust
        return (e.high - e.low) / 2 if e.n else 1.0

    @property
    def left(self) -> tuple[float, float] | None:
        """Seconds left, from and to: two standard errors of the pace either way."""
        n = len(self._paces)
        if n < 2:
            return None
        rows = sum(r for r, _ in self._paces)
        pace = sum(s for _, s in self._paces) / rows
        spread = sum((s - pace * r) ** 2 for r, s in self._paces) / (n - 1)
        error = math.sqrt(n * spread) / rows  # of the ratio of two sums
        remaining = self.total - self.rows
        return max(0.0, pace - 2 * error) * remaining, (pace + 2 * error) * remaining

    def table(self) -> Any:
        """The state as a small table."""
        from rich.table import Table

        shown = Table(box=None, pad_edge=False)
        for name in self.state:
            style = "bold" if name == "robust" else None
            shown.add_column(name, justify="right", style=style, no_wrap=True)
        shown.add_row(*self.state.values())  # all must fit 80 columns
        return shown

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self.table())
            self._live.stop()


def _terminal(progress: Progress) -> Any:
    from rich.console import Console
    from rich.live import Live

    return Live(progress.table(), console=Console(stderr=True), refresh_per_second=4)


class Cell:
    """The output of a notebook's cell, replaced in place at most four times a second."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._handle: Any = None
        self._drawn = 0.0

    def start(self) -> None:
        """Show the first state."""
        from IPython.display import HTML, display

        self._handle = display(HTML(self.progress.html), display_id=True)

    def update(self, _: Any = None) -> None:
        """Show the state as it is now, unless one has just been shown."""
        if time.monotonic() - self._drawn >= 0.25:
            self._draw()

    def stop(self) -> None:
        """The last state stays."""
        self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML

        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(HTML(self.progress.html))


def _rate(e: Estimate) -> str:
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" if e.n else "-"


def _clock(seconds: float) -> str:
    """Seconds as people read them.

    >>> _clock(75), _clock(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
