"""`durometer run`: what a TOML file describes, evaluated, printed and saved.

What a reader would get wrong: a model that breaks down ends with exit code 1, Ctrl-C with 130; in
both cases the rows that were finished are saved first.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from durometer.cli.screen import say, say_no, show_report
from durometer.core.errors import DurometerError

if TYPE_CHECKING:
    from durometer.config.config import Config
    from durometer.config.sweep import Plan, Point
    from durometer.report.report import Report
    from durometer.run.run import Run


def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A run file; `durometer init` writes a first one.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to save; default: the file's own `out`, or runs/NAME."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the file's.")] = None,
    rows: Annotated[int | None, typer.Option(help="Evaluate only so many rows.", min=1)] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only where it was saved.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in that folder.")] = False,
    shard: Annotated[
        str | None, typer.Option(help="Play only part i of n, e.g. 3/8; then: durometer merge.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker processes on this machine.", min=1)] = 1,
    ray: Annotated[
        str | None, typer.Option(help="A Ray cluster: auto, local or host:port.")
    ] = None,
    until: Annotated[
        float | None, typer.Option(help="Stop when robust accuracy is known to +- this.")
    ] = None,
    accept_version: Annotated[
        bool,
        typer.Option("--accept-version", help="Resume what other versions of the code began."),
    ] = False,
) -> None:
    """Evaluate what a TOML file describes, print the report and save it.

    Finished rows are safe at any moment: after a crash or a kill, the same command with --resume
    goes on where it stopped.

    [dim]Example:[/dim]  durometer run loans_run.toml --rows 100 --out runs/first
    """
    from durometer.config.sweep import Plan, read
    from durometer.run.run import Run

    def overridden(config: Config) -> Config:
        if seed is not None:
            config = replace(config, seed=seed)
        if rows is not None:
            config = replace(config, data=replace(config.data, rows=rows))
        return config

    plan = read(file)
    folder = out or Path(plan.out or Path("runs") / file.stem)
    carried = Run(folder, resume, parse_shard(shard), workers, ray, until, force, accept_version)
    if isinstance(plan, Plan):
        if seed is not None and "seed" in plan.axes:
            raise DurometerError("--seed and a sweep over seeds: which one?")
        points = tuple(replace(p, config=overridden(p.config)) for p in plan.points)
        _play_sweep(replace(plan, points=points), carried, quiet)
    else:
        try:
            _play(overridden(plan), carried, quiet, bool(ctx.find_root().params.get("debug")))
        except KeyboardInterrupt:  # also a second one, while the first was being dealt with
            say_no(f"stopped by hand; {_safe(folder)}")
            raise typer.Exit(130) from None


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """3/8 as (3, 8)."""
    if text is None:
        return None
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit()):
        raise DurometerError(f"--shard {text}: expected i/n, e.g. 3/8")
    return int(i), int(n)


def _command(run: Run) -> str:
    """What was called, as far as it says what is played and the file does not."""
    return "durometer run" + (f" --until {run.until}" if run.until is not None else "")


def _safe(folder: Path) -> str:
    """What of a run is on the disk, whatever happened."""
    from durometer.run.store import Store

    try:
        done, count = Store(folder).done(), Store(folder).spec.chunks
    except DurometerError:
        done, count = {}, 0
    if not done:
        return "nothing was saved, for no batch was finished"
    chunks = f"{len(done)} of {count} chunks"
    return f"{chunks} are finished and safe in {folder}; --resume goes on"


def _play(config: Config, run: Run, quiet: bool, debug: bool) -> None:
    """One evaluation: played, printed, saved."""
    from durometer._evaluate import play

    folder = Path(str(run.out))
    job = config.job()
    run = replace(run, provenance=replace(config.provenance, command=_command(run)))
    try:
        report = play(job, run, progress=False if quiet else None)
    except Exception as error:
        partial: Report | None = getattr(error, "partial", None)
        if partial is None:
            raise
        save(partial, folder, config)
        done = f"{_rows(partial)} of {job.rows} rows were finished and are saved in {folder}"
        say_no(f"{type(error).__name__}: {error}; {done}; for the traceback: durometer --debug run")
        if debug:
            raise
        raise typer.Exit(1) from None
    save(report, folder, config)
    if not quiet:
        show_report(report)
    if config.gate is not None:
        from durometer._gate import gate

        say(str(gate(report)))
    stopped = any(f.id == "interrupted" for f in report.flags)
    if stopped:
        say_no(f"stopped by hand after {_rows(report)} of {job.rows} rows; those are saved")
    say(f"saved in {folder}")
    if stopped:
        raise typer.Exit(130)


def _rows(report: Report) -> int:
    """How many rows a report is on; of data in files it holds a sample."""
    return len(report.records if report.totals is None else report.totals)


def _play_sweep(grid: Plan, run: Run, quiet: bool) -> None:
    """Several evaluations, and one page over all."""
    from durometer._sweep import sweep

    folder = Path(str(run.out))
    seen = 0

    def tell(point: Point, outcome: Report | str) -> None:
        nonlocal seen
        seen += 1
        count = f"{seen}/{len(grid.points)} {point.name}"
        if isinstance(outcome, str):
            say_no(f"{count}: {outcome}")
        elif not quiet:
            say(f"{count}: robust {outcome.metric('robust')}")

    made = sweep(grid, folder, run=run, progress=False if quiet else None, tell=tell)
    if not quiet:
        say(str(made))
    if run.shard is None:
        say(f"saved in {folder}: open {folder / 'report.html'}")
    else:
        say(f"saved in {folder}; when all shards are, --resume without --shard joins them")
    if any(f.id == "interrupted" for r in made.reports.values() for f in r.flags):
        raise typer.Exit(130)
    if made.failed:
        raise typer.Exit(1)


def save(report: Report, folder: Path, config: Config) -> None:
    """The report in its folder, and the file it came from."""
    from durometer.config.writing import keep

    keep(config, folder)
    report.save(folder)
