"""`durometer compare`: two runs on the rows they share, as text and as a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import RunFolder, say, warn_partial
from durometer.core import durable_files
from durometer.core.errors import DurometerError


def compare(
    first: RunFolder,
    second: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="The page; default: FIRST-SECOND.html beside the first.")
    ] = None,
) -> None:
    """Compare two saved reports on the rows they share, paired; and write a page side by side.

    [dim]Example:[/dim]  durometer compare runs/first runs/second
    """
    from durometer.report.page.comparison import page
    from durometer.report.report import Report

    reports = Report.load(first), Report.load(second)
    say(f"{first} against {second}")
    for report, folder in zip(reports, (first, second), strict=True):
        warn_partial(report, folder)
    say(str(reports[0].compare(reports[1])))
    names = first.resolve().name, second.resolve().name
    if names[0] == names[1]:
        names = str(first), str(second)
    file = out or first.resolve().parent / f"{first.resolve().name}-{second.resolve().name}.html"
    try:
        durable_files.write(file, page(*reports, names=names))
    except OSError as error:
        raise DurometerError(f"cannot write '{file}': {error}; choose another with --out") from None
    say(f"saved in {os.path.relpath(file)}")
