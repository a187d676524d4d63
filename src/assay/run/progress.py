"""A progress bar that knows what it counts: rows done, clean and robust accuracy so far.

Quiet where nobody looks: in pipes, in CI, when asked to be.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from assay.records import Records
from assay.report.stats import wilson


class Progress:
    """`with Progress(n) as bar: bar.advance(records)`."""

    def __init__(self, total: int, show: bool | None = None) -> None:
        self.total = total
        self.show = show if show is not None else sys.stderr.isatty() or "ipykernel" in sys.modules
        self.rows = self.correct = self.played = self.broken = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.completed}/{task.total} rows"),
                BarColumn(),
                TextColumn("{task.fields[so_far]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, so_far="")
        return self

    def advance(self, part: Records) -> None:
        c = part.columns
        played = c["skipped"] == ""
        self.rows += len(part)
        self.correct += int((c["clean"] == c["y"]).sum())
        self.played += int(played.sum())
        self.broken += int((c["success"] & played).sum())
        if self._bar is not None:
            robust = wilson(self.played - self.broken, self.played)
            text = f"clean {self.correct / self.rows:.3f}  robust {robust.value:.3f} "
            text += f"[{robust.low:.3f}, {robust.high:.3f}]"
            self._bar.update(self._task, completed=self.rows, so_far=text)

    @property
    def half_width(self) -> float:
        """Half the width of the interval of robust accuracy so far."""
        e = wilson(self.played - self.broken, self.played)
        return (e.high - e.low) / 2 if e.n else 1.0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
