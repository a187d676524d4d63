"""Rounds on the terminal, where somebody looks."""

from __future__ import annotations

import sys
from typing import Any


class RoundProgress:
    """`wanted=None`: only on a terminal."""

    def __init__(self, rounds: int, wanted: bool | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("harden"), BarColumn(), TextColumn("{task.description}"),
                   TimeRemainingColumn())  # fmt: skip
        shown = sys.stderr.isatty() if wanted is None else wanted
        self._progress = Progress(*columns, disable=not shown, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=rounds)

    def __enter__(self) -> RoundProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, done: Any) -> None:
        text = f"accuracy {done.accuracy:.3f}, proven {done.proven:.3f}"
        self._progress.update(self._task, advance=1, description=text)
