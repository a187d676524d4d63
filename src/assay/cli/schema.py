"""`assay schema`: a first schema for a table, to be edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import AssayError, nearest


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
