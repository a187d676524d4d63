"""A progress bar that knows what it counts: rows done, clean and robust accuracy so far.

Quiet where nobody looks: in pipes, in CI, when asked to be. The first use of a part compiles its
inner loops, which can take half a minute: the bar says so while it lasts.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from assay.kernel import on_compile
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
        self._so_far = ""
        self._listening = ExitStack()

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
            self._listening.enter_context(on_compile(self._compiling))
        return self

    def _compiling(self, now: bool) -> None:
        text = "compiling inner loops (first use only)" if now else self._so_far
        self._bar.update(self._task, so_far=text)

    def advance(self, part: Records) -> None:
        c = part.columns
        played = c["skipped"] == ""
        self.rows += len(part)
        self.correct += int((c["clean"] == c["y"]).sum())
        self.played += int(played.sum())
        self.broken += int((c["success"] & played).sum())
        if self._bar is not None:
            robust = wilson(self.played - self.broken, self.played)
            self._so_far = f"clean {self.correct / self.rows:.3f}  robust {robust.value:.3f} "
            self._so_far += f"[{robust.low:.3f}, {robust.high:.3f}]"
            self._bar.update(self._task, completed=self.rows, so_far=self._so_far)

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
        self._listening.close()
        if self._bar is not None:
            self._bar.stop()
