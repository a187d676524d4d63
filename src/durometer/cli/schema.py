"""`durometer schema`: a first schema for a table, to be edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from durometer.core.errors import DurometerError, nearest


def schema(
    table: Annotated[
        Path, typer.Argument(help="A CSV file with a header (also .gz), or .parquet.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; default: the screen.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column that holds the class: no feature.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out (an id, a note); repeatable.")
    ] = None,
    broken: Annotated[
        float, typer.Option(help="The share of rows a relation may fail on.")
    ] = 0.002,
    force: Annotated[bool, typer.Option(help="Write over a file that is there.")] = False,
) -> None:
    """Propose a schema for a table: types, bounds, relations that hold; as TOML to edit.

    [dim]Example:[/dim]  durometer schema loans.csv --target status --out loans.toml
    """
    from durometer.tables.discovery.suggest import suggest
    from durometer.tables.table_io import read_table

    if out is not None and out.exists() and not force:
        raise DurometerError(
            f"{out} is there already, perhaps edited; give another --out, or --force"
        )
    if not table.exists():
        raise DurometerError(f"no file {table}")
    frame = read_table(table)
    away = [("--drop", name) for name in drop or ()]
    away += [] if target is None else [("--target", target)]
    for option, name in away:
        if name not in frame.columns:
            raise DurometerError(
                f"{option} {name}: no such column{nearest(name, list(frame.columns))}"
            )
    proposal = suggest(frame.drop(columns=[name for _, name in away]), broken=broken)
    if out is None:
        typer.echo(proposal.toml(), nl=False)
        return
    out.write_text(proposal.toml(), encoding="utf-8")
    typer.echo(f"{proposal!r}\nsaved in {out}: delete what is a coincidence, add what you know")
