"""The command line: run, merge, show, compare, export, demo, list, schema.

It only reads, calls `evaluate` and prints; whatever it can do, a few lines of Python can do too.
Everything heavy is imported inside the commands, so that `assay --help` answers at once.

What a reader would get wrong: a mistake of the user's ends with one red sentence and exit code 2, a
model that breaks down with exit code 1, Ctrl-C with 130; in the last two cases the rows that were
finished are saved first. Tracebacks are for `--debug`.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import assay
from assay.cli.commands import console, parse_shard, play, play_sweep, say_no, show_report
from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.config.config import Config


class Kind(StrEnum):
    """What can be listed."""

    attacks = "attacks"
    spaces = "spaces"
    noises = "noises"
    goals = "goals"
    losses = "losses"
    datasets = "datasets"


class _Guarded(TyperGroup):
    """The group of all commands: says errors in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AssayError as error:
            if ctx.params.get("debug"):
                raise
            say_no(str(error))
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            say_no("stopped by hand before the first batch was finished; nothing was saved")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Guarded,
    name="assay",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="How robust is this classifier under the threat it really faces?",
    epilog="First time here? Type [bold]assay demo[/bold]. Then copy a file of examples/ and "
    "[bold]assay run[/bold] it.",
)

RunFolder = Annotated[Path, typer.Argument(help="The folder of a saved run.", show_default=False)]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assay {assay.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Read the options that stand before the command; `_Guarded` looks at `debug`."""


@app.command()
def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A TOML file; see docs/configuration.md.")],
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
        str | None, typer.Option(help="Play only part i of n, e.g. 3/8; then: assay merge.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Worker processes on this machine.", min=1)] = 1,
    ray: Annotated[
        str | None, typer.Option(help="A Ray cluster: auto, local or host:port.")
    ] = None,
    until: Annotated[
        float | None, typer.Option(help="Stop when robust accuracy is known to +- this.")
    ] = None,
) -> None:
    """Evaluate what a TOML file describes, print the report and save it.

    Finished rows are safe at any moment: after a crash or a kill, the same command with --resume
    goes on where it stopped.

    [dim]Example:[/dim]  assay run examples/mnist.toml --rows 100 --out runs/first
    """
    from dataclasses import replace

    from assay.config.sweep import Plan, read
    from assay.run.run import Run

    def overridden(config: Config) -> Config:
        if seed is not None:
            config = replace(config, seed=seed)
        if rows is not None:
            config = replace(config, data=replace(config.data, rows=rows))
        return config

    plan = read(file)
    folder = out or Path(plan.out or Path("runs") / file.stem)
    carried = Run(folder, resume, parse_shard(shard), workers, ray, until)
    if isinstance(plan, Plan):
        if seed is not None and "seed" in plan.axes:
            raise AssayError("--seed and a sweep over seeds: which one?")
        points = tuple(replace(p, config=overridden(p.config)) for p in plan.points)
        play_sweep(replace(plan, points=points), carried, force, quiet)
    else:
        play(overridden(plan), carried, force, quiet, bool(ctx.find_root().params.get("debug")))


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(help="The folders of all shards of a run.")],
    out: Annotated[Path, typer.Option(help="Where the whole run goes.")],
) -> None:
    """Join the shards of a run to exactly the whole, and report on it.

    [dim]Example:[/dim]  assay merge runs/part1 runs/part2 --out runs/whole
    """
    from assay.run.store import merge as join
    from assay.run.store import report_of

    report = report_of(folders, join(folders, out))
    report.save(out)
    show_report(report)
    typer.echo(f"saved in {out}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to save the reports.")] = Path("runs/demo"),
) -> None:
    """Three short evaluations on real data: digits, traffic signs, web addresses."""
    from assay.demo.tour import play as play_demo

    play_demo(out, show_report, console())


@app.command()
def show(
    folder: RunFolder,
    by: Annotated[
        str | None, typer.Option(help="Robust accuracy by a column, e.g. y or winner.")
    ] = None,
) -> None:
    """Print a saved report again.

    [dim]Example:[/dim]  assay show runs/demo/digits --by y
    """
    from assay.report.report import Report
    from assay.report.sweep import Sweep
    from assay.run.store import Store

    if by is None and (folder / "sweep.json").exists():
        typer.echo(str(Sweep.load(folder)))
        return
    if (folder / "index.sqlite").exists() and not (folder / "records.parquet").exists():
        report = Store(folder).report()
        done, rows = len(report.records), report.spec.get("rows")
        typer.echo(f"not finished: {done} of {rows} rows so far")
    else:
        report = Report.load(folder)
    if by is None:
        show_report(report)
        return
    from rich.table import Table

    title, _ = report.shown.get("robust", ("robust accuracy", None))
    table = Table(by, title, "95 % interval", "rows")
    for value, e in report.metric("robust", by=by).items():
        if e.n:
            table.add_row(str(value), f"{e.value:.3f}", f"{e.low:.3f} - {e.high:.3f}", str(e.n))
    console().print(table)


@app.command()
def compare(
    first: RunFolder,
    second: RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="The page; default: FIRST-SECOND.html beside the first.")
    ] = None,
) -> None:
    """Compare two saved reports on the rows they share, paired; and write a page side by side.

    [dim]Example:[/dim]  assay compare runs/pgd runs/standard
    """
    from assay.report.page.comparison import page
    from assay.report.report import Report

    reports = Report.load(first), Report.load(second)
    typer.echo(f"{first} against {second}")
    typer.echo(str(reports[0].compare(reports[1])))
    names = first.resolve().name, second.resolve().name
    if names[0] == names[1]:
        names = str(first), str(second)
    file = out or first.resolve().parent / f"{first.resolve().name}-{second.resolve().name}.html"
    try:
        file.write_text(page(*reports, names=names), encoding="utf-8")
    except OSError as error:
        raise AssayError(f"cannot write '{file}': {error}; choose another with --out") from None
    typer.echo(f"saved in {os.path.relpath(file)}")


class Format(StrEnum):
    """What a run can be exported to."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    mlflow = "mlflow"


@app.command()
def export(
    folder: RunFolder,
    to: Annotated[Format, typer.Option(help="The format.")] = Format.csv,
    out: Annotated[
        Path | None, typer.Option(help="The file; default: records.FORMAT in the folder.")
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Also what was handed in, a column per feature.")
    ] = False,
) -> None:
    """Write a run's records for other tools, or log the run to MLflow.

    [dim]Example:[/dim]  assay export runs/mnist --to csv --out mnist.csv
    """
    from assay.report import export as exports
    from assay.report.report import Report

    report = Report.load(folder)
    if to is Format.mlflow:
        typer.echo(f"logged to MLflow as run {exports.to_mlflow(report, folder)}")
        return
    file = out or folder / f"{'report' if to is Format.json else 'records'}.{to.value}"
    typer.echo(f"saved in {exports.write(report, to.value, file, inputs)}")


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
) -> None:
    """Everything that can be named in a file: what it does, and its parameters with defaults.

    [dim]Example:[/dim]  assay list attacks
    """
    from rich.markup import escape
    from rich.table import Table

    from assay.config.registry import names, parameters, summary

    table = Table("name", "what it does", "parameters", show_lines=True)
    plain = kind is Kind.losses  # a loss is named, never given parameters
    found = names(kind.value)
    if kind is Kind.noises:  # what `parts` of a noise are made of
        found = found | names("marginals")
    for name, noun in found.items():
        wanted = "" if plain else ", ".join(str(p) for p in parameters(noun).values())
        table.add_row(name, escape(summary(noun)), escape(wanted))
    console().print(table)


@app.command()
def schema(
    table: Annotated[Path, typer.Argument(help="A CSV file (also .gz) with a header.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; default: the screen.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out (the label, an id); repeatable.")
    ] = None,
    broken: Annotated[
        float, typer.Option(help="The share of rows a relation may fail on.")
    ] = 0.002,
    force: Annotated[bool, typer.Option(help="Write over a file that is there.")] = False,
) -> None:
    """Propose a schema for a table: types, bounds, relations that hold; as TOML to edit.

    [dim]Example:[/dim]  assay schema loans.csv --drop status --out loans.toml
    """
    import pandas as pd

    from assay.errors import nearest
    from assay.tables.discovery.suggest import suggest

    if out is not None and out.exists() and not force:
        raise AssayError(f"{out} is there already, perhaps edited; give another --out, or --force")
    if not table.exists():
        raise AssayError(f"no file {table}")
    try:
        frame = pd.read_csv(table)
    except (OSError, ValueError) as error:
        raise AssayError(f"{table} cannot be read as a CSV table ({error})") from None
    for name in drop or ():
        if name not in frame.columns:
            raise AssayError(f"--drop {name}: no such column{nearest(name, list(frame.columns))}")
    proposal = suggest(frame.drop(columns=list(drop or ())), broken=broken)
    if out is None:
        typer.echo(proposal.toml(), nl=False)
        return
    out.write_text(proposal.toml(), encoding="utf-8")
    typer.echo(f"{proposal}\nsaved in {out}: delete what is a coincidence, add what you know")
