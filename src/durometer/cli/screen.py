"""What every command prints with: colours on a terminal, one sentence for an error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from durometer.core.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from durometer.report.report import Report

RunFolder = Annotated[Path, typer.Argument(help="The folder of a saved run.", show_default=False)]


def readable(params: Sequence[Any]) -> list[Any]:
    """The parameters of a command as its help says them: no type beside a flag, which takes no
    value, and `[gate]` in brackets, which rich would take for a style and swallow."""
    for param in params:
        text = getattr(param, "help", None) or ""
        if "[" in text and "\\[" not in text:
            param.help = text.replace("[", "\\[")
        if getattr(param, "is_flag", False) and param.metavar is None:  # an argument has no such
            param.metavar = ""
    return [*params]


class Plain(TyperCommand):
    """A command whose help can be read."""

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx))


def say(text: str) -> None:
    """A line of text, which may hold names from data."""
    typer.echo(printable(text))


def take_any_text() -> None:
    """Let a terminal that knows ASCII only show other characters as escapes, and not break."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def console(stderr: bool = False) -> Console:
    """Colours on a terminal, plain text of a fixed width elsewhere."""
    from rich.console import Console
    from rich.segment import Segment

    class Safe(Console):
        """What is printed may hold names from data; rich's own control codes are set apart."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

    made = Safe(stderr=stderr, highlight=False, soft_wrap=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 100
    return made


def say_no(text: str) -> None:
    """An error, in red."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("error: ", "bold red"), (text, "red")))


def show_report(report: Report) -> None:
    """The table, and under it what broke what and the warnings."""
    from durometer.report.text import notes, rich_table

    screen = console()
    screen.print(rich_table(report))
    for line in notes(report):
        style = "yellow" if line.startswith("warning") else None
        screen.print(line, style=style, markup=False)


def warn_partial(report: Report, folder: Path) -> None:
    """Say it first where a report is on some of its rows only."""
    from durometer.report.checks import incomplete

    why = incomplete(report.flags)
    if why:
        console(stderr=True).print(f"warning: {folder}: {why}", style="yellow", markup=False)
