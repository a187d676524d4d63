"""`durometer schema`: a first schema for a table, to be edited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from durometer.core.errors import DurometerError, nearest

if TYPE_CHECKING:
    from durometer.tables.discovery.suggest import Suggestion
    from durometer.tables.exchange import Imported


def schema(
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV file with a header (also .gz) or .parquet; or a schema to convert: .toml, "
            "or .json and .yaml of Great Expectations, pandera, Frictionless, Croissant."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it, .toml or .json; default: the screen.")
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
    data: Annotated[
        Path | None, typer.Option(help="With a schema to convert: a table that gives ranges.")
    ] = None,
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the JSON Schema of schema files.")
    ] = False,
) -> None:
    """Propose a schema for a table: types, bounds, relations that hold; as TOML to edit.

    [dim]Example:[/dim]  durometer schema loans.csv --target paid --out schema.toml
    """
    from durometer.tables import exchange
    from durometer.tables.discovery.suggest import suggest
    from durometer.tables.table_io import read_table

    if json_schema:
        typer.echo(exchange.json_schema(), nl=False)
        return
    if table is None:
        raise DurometerError("name a table, or the file of a schema")

    if out is not None and out.exists() and not force:
        raise DurometerError(
            f"{out} is there already, perhaps edited; give another --out, or --force"
        )
    if not table.exists():
        raise DurometerError(f"no file {table}")
    if table.suffix in (*exchange.SUFFIXES, ".toml"):
        _write(_converted(table, data), out)
        return
    frame = read_table(table)
    away = [("--drop", name) for name in drop or ()]
    away += [] if target is None else [("--target", target)]
    for option, name in away:
        if name not in frame.columns:
            raise DurometerError(
                f"{option} {name}: no such column{nearest(name, list(frame.columns))}"
            )
    proposal = suggest(frame.drop(columns=[name for _, name in away]), broken=broken)
    _write(proposal, out)


def _converted(path: Path, data: Path | None) -> Imported:
    from durometer.tables import exchange, files
    from durometer.tables.table_io import read_table

    if path.suffix == ".toml":
        return exchange.Imported(files.read(path), "durometer")
    return exchange.read(path, None if data is None else read_table(data))


def _write(found: Suggestion | Imported, out: Path | None) -> None:
    """To the screen, or to a file in the format that its name asks for."""
    if out is None:
        typer.echo(found.toml(), nl=False)
        return
    out.write_text(found.schema.json() if out.suffix == ".json" else found.toml(), encoding="utf-8")
    typer.echo(f"{found!r}\nsaved in {out}: delete what is a coincidence, add what you know")
