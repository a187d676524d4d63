"""Carrying out what the command line was asked to run, and saying what came of it.

What a reader would get wrong: a model that breaks down ends with exit code 1, Ctrl-C with 130; in
both cases the rows that were finished are saved first.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from assay.errors import AssayError

if TYPE_CHECKING:
    from rich.console import Console

    from assay.config.config import Config
    from assay.config.sweep import Plan, Point
    from assay.report.report import Report
    from assay.run.run import Run


def console(stderr: bool = False) -> Console:
    """Colours on a terminal, plain text of a fixed width elsewhere."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 100
    return made


def say_no(text: str) -> None:
    """An error, in red."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("error: ", "bold red"), (text, "red")))


def show_report(report: Report) -> None:
    """The table, and under it what broke what and the warnings."""
    from assay.report.text import notes, rich_table

    screen = console()
    screen.print(rich_table(report))
    for line in notes(report):
        style = "yellow" if line.startswith("warning") else None
        screen.print(line, style=style, markup=False)


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """3/8 as (3, 8)."""
    if text is None:
        return None
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit()):
        raise AssayError(f"--shard {text}: expected i/n, e.g. 3/8")
    return int(i), int(n)


def play(config: Config, run: Run, force: bool, quiet: bool, debug: bool) -> None:
    """One evaluation: played, printed, saved."""
    from assay._evaluate import evaluate

    folder, run = Path(str(run.out)), replace(run, force=force)
    model, data = config.load()
    try:
        report = evaluate(
            model, data, **config.options(data), progress=False if quiet else None, run=run
        )
    except Exception as error:
        partial: Report | None = getattr(error, "partial", None)
        if partial is None:
            raise
        _save(partial, folder, config)
        done = f"{len(partial.records)} of {len(data)} rows were finished and are saved in {folder}"
        say_no(f"{type(error).__name__}: {error}; {done}; for the traceback: assay --debug run")
        if debug:
            raise
        raise typer.Exit(1) from None
    _save(report, folder, config)
    if not quiet:
        show_report(report)
    stopped = any(f.id == "interrupted" for f in report.flags)
    if stopped:
        say_no(f"stopped by hand after {len(report.records)} of {len(data)} rows; those are saved")
    typer.echo(f"saved in {folder}")
    if stopped:
        raise typer.Exit(130)


def play_sweep(grid: Plan, run: Run, force: bool, quiet: bool) -> None:
    """Several evaluations, and one page over all."""
    from assay._sweep import sweep
    from assay.run.store import Store

    folder = Path(str(run.out))
    if force:
        for point in grid.points:
            Store(folder / point.name).clear()
    seen = 0

    def tell(point: Point, outcome: Report | str) -> None:
        nonlocal seen
        seen += 1
        count = f"{seen}/{len(grid.points)} {point.name}"
        if isinstance(outcome, str):
            say_no(f"{count}: {outcome}")
        elif not quiet:
            typer.echo(f"{count}: robust {outcome.metric('robust')}")

    made = sweep(grid, folder, run=run, progress=False if quiet else None, tell=tell)
    if not quiet:
        typer.echo(str(made))
    typer.echo(f"saved in {folder}: open {folder / 'report.html'}")
    if any(f.id == "interrupted" for r in made.reports.values() for f in r.flags):
        raise typer.Exit(130)
    if made.failed:
        raise typer.Exit(1)


def _save(report: Report, folder: Path, config: Config) -> None:
    from assay.config.config import to_toml

    report.save(folder)
    (folder / "config.toml").write_text(to_toml(config))
