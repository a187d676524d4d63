"""`durometer merge`: the shards of a run become the whole."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import say, show_report
from durometer.core.errors import DurometerError


def merge(
    folders: Annotated[list[Path], typer.Argument(help="The folders of all shards of a run.")],
    out: Annotated[Path, typer.Option(help="Where the whole run goes.")],
    accept_version: Annotated[
        bool, typer.Option("--accept-version", help="Join shards of different versions.")
    ] = False,
) -> None:
    """Join the shards of a run to exactly the whole, and report on it.

    [dim]Example:[/dim]  durometer merge runs/part1 runs/part2 --out runs/whole
    """
    from durometer.config.writing import carry
    from durometer.run.merge import merge as join
    from durometer.run.merge import report_of

    report = report_of(folders, join(folders, out, accept_version))
    if (folders[0] / "config.toml").exists():
        with suppress(DurometerError):  # it may be damaged: the records are whole without it
            carry(folders[0] / "config.toml", out)
    report.save(out)
    show_report(report)
    say(f"saved in {out}")
