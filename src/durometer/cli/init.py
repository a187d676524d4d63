"""`durometer init`: a first run file and schema from a table and a model file.

What a reader would get wrong: both files are proposals. Bounds and relations are what the rows
show, and nothing in a table says what an attacker can change: the schema calls everything mutable
until its reader says otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from durometer.cli.screen import say
from durometer.core import durable_files, toml
from durometer.core.errors import DurometerError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from durometer.tables.discovery.suggest import Suggestion

ROWS = 200  # of the first run: minutes, not hours
CLASSES = 20  # a column with more values is hardly a class
TABLES = (".csv", ".csv.gz", ".parquet")


def init(
    table: Annotated[
        Path, typer.Argument(help="A CSV file with a header (also .gz), or .parquet.")
    ],
    model: Annotated[
        str, typer.Argument(help="The model: a file (its kind by its ending), or file.py:name.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column that holds the class.", show_default=False)
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="A column that the model does not take (an id, a note); repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path(),
    eps: Annotated[
        float, typer.Option(help="How far a record may move, as a share of the columns' ranges.")
    ] = 0.1,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Load the model and compare it with the labels.")
    ] = True,
    force: Annotated[bool, typer.Option(help="Write over files that are there.")] = False,
) -> None:
    """Write a first run file and schema for a table and a model, and say what to do next.

    The model is loaded and asked, which runs code for pickles and Python files: name files you
    trust, or give --no-ask.

    [dim]Example:[/dim]  durometer init loans.csv model.joblib --target paid
    """
    from durometer.config.models import Model, named
    from durometer.tables.discovery.suggest import suggest
    from durometer.tables.table_io import read_table

    if not any(table.name.endswith(end) for end in TABLES):
        raise DurometerError(
            f"'{table}': expected a table ({', '.join(TABLES)}); for arrays and images copy a file "
            "of examples/ instead, e.g. own_model.toml"
        )
    if not table.exists():
        raise DurometerError(f"no file {table}")
    if not 0 < eps < float("inf"):
        raise DurometerError(f"--eps {eps}: expected a number above 0, e.g. 0.1")
    kind, value = named(model)
    Model(**{kind: value}).check(Path())  # type: ignore[arg-type]
    frame = read_table(table)
    label = _target(frame, target)
    dropped = [_column(frame, "--drop", name) for name in drop or ()]
    proposal = suggest(frame.drop(columns=[label, *dropped]))
    stem = table.name.partition(".")[0]
    schema, run = out / f"{stem}_schema.toml", out / f"{stem}_run.toml"
    for file in (schema, run):
        if file.exists() and not force:
            raise DurometerError(f"{file} is there already, perhaps edited; give --out, or --force")
    out.mkdir(parents=True, exist_ok=True)
    durable_files.write(schema, proposal.toml())
    extra = [*dropped, *proposal.left_out]
    model_line = toml.line(kind, value if kind == "url" else _seen_from(out, value))
    path = _seen_from(out, str(table))
    written = _run_file(path, label, schema.name, model_line, extra, eps, sampled=len(frame) > ROWS)
    durable_files.write(run, written)
    say(f"wrote {schema}: {len(proposal.features)} features, {len(proposal.candidates)} relations")
    say(f"wrote {run}: {min(ROWS, len(frame))} rows, records may move by {eps:g}")
    if ask:
        _ask(run)
    _next(schema, run, proposal)


def _target(frame: pd.DataFrame, given: str | None) -> str:
    if given is not None:
        return _column(frame, "--target", given)
    few = [str(c) for c in frame.columns if 2 <= frame[c].nunique() <= CLASSES]
    shown = ", ".join(few[:8]) or "none"
    raise DurometerError(
        f"which column holds the class? Name it with --target; columns of 2 to {CLASSES} values: "
        f"{shown}"
    )


def _column(frame: pd.DataFrame, option: str, name: str) -> str:
    if name not in frame.columns:
        raise DurometerError(f"{option} {name}: no such column{nearest(name, list(frame.columns))}")
    return name


def _seen_from(folder: Path, file: str) -> str:
    """A file as seen from a folder: run files name their neighbours."""
    if ".py:" in file:
        path, _, name = file.rpartition(":")
        return f"{_seen_from(folder, path)}:{name}"
    try:
        return Path(os.path.relpath(file, folder)).as_posix()
    except ValueError:  # another drive
        return Path(file).resolve().as_posix()


def _run_file(
    table: str, label: str, schema: str, model: str, extra: list[str], eps: float, sampled: bool
) -> str:
    lines = [
        "# A first run, written by durometer init. Play it: durometer run THIS_FILE",
        "",
        "[data]",
        toml.line("path", table) + "   # rows that the model was not fitted on",
        toml.line("label", label),
        toml.line("schema", schema) + "   # edit it first: what can an attacker change?",
        *([toml.line("extra", extra) + "   # columns that are no features"] if extra else []),
        *([f"rows = {ROWS}   # delete this line to play all rows"] if sampled else []),
        "",
        "[model]",
        model,
        "",
        "[space]",
        'type = "TableSpace"',
        toml.line("eps", eps) + "   # in shares of the columns' ranges",
        "p = 2   # 0: number of changed columns; 1, 2, inf",
        "",
        "# What the model must clear; then: durometer gate THIS_FILE",
        "# [gate]",
        '# criteria = ["robust >= 0.8"]',
    ]
    return "\n".join(lines) + "\n"


def _ask(run: Path) -> None:
    """Whether the model takes these rows, before hours are spent on it."""
    from durometer._evaluate import evaluate
    from durometer.config.config import read
    from durometer.core.validation import noun
    from durometer.model.answers import ANY
    from durometer.problem.needs import Needs
    from durometer.problem.problem import Problem

    @noun
    class Nobody:
        """An attack that tries nothing: the model is asked once for each row."""

        needs: ClassVar[Needs] = Needs(answers=ANY)

        def __call__(self, problem: Problem) -> None:
            """Leave every row as it is."""

    try:
        config = read(run)
        asked, data = config.load()
        report = evaluate(
            asked, data, space=config.threat(data).space, attack=Nobody(), progress=False
        )
    except DurometerError as error:
        raise DurometerError(
            f"the files are written, but the model cannot be asked: {error}\n"
            f"Columns that it does not take: --drop NAME. Or mend {run} and play it."
        ) from None
    clean = report.metric("clean")
    say(f"the model is right on {clean.value:.3f} of {clean.n} rows (95 % interval {clean.low:.3f} "
        f"to {clean.high:.3f}): is that the accuracy you know it to have?")  # fmt: skip


def _next(schema: Path, run: Path, proposal: Suggestion) -> None:
    fixed = ", ".join(proposal.consider[:6])
    probably = f" (probably: {fixed})" if fixed else ""
    say(
        "next:\n"
        f"  1. read {schema}: mutable = false for what an attacker cannot change{probably};\n"
        "     delete relations that are coincidences, widen bounds that only this table has\n"
        f"  2. durometer run {run}\n"
        f"  3. open runs/{run.stem}/report.html; set a bound under [gate] before the next run"
    )
