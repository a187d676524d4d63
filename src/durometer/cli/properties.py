"""`durometer properties`: claims about a whole model, decided by proof.

Exit codes are those of `durometer gate`: 0 all proven, 1 one refuted, 2 undecided, 3 could not run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.gate import BROKEN
from durometer.cli.screen import say, say_no
from durometer.core.errors import DurometerError


def properties(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A TOML file with [data] and [model].")],
    claim: Annotated[
        list[str] | None,
        typer.Option("--claim", "-c", help="Instead of the file's [properties]."),
    ] = None,
    near: Annotated[
        float | None,
        typer.Option(help="Only records within this share of each range of one of the data."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Computing time per claim, in seconds.")] = 10.0,
    out: Annotated[
        Path | None, typer.Option(help="A folder for properties.html and properties.json.")
    ] = None,
) -> None:
    """Decide claims about every valid record by proof.

    Exit code: 0 all proven, 1 one refuted, 2 undecided, 3 could not run.

    [dim]Example:[/dim]  durometer properties loans_run.toml -c "sex never flips a decision"
    """
    from durometer.config.config import Properties, read

    try:
        config = read(file)
        asked = Properties(tuple(claim), near, seconds) if claim else config.properties
        if asked is None:
            raise DurometerError(f"'{file}' has no [properties]; give --claim")
        report = asked.check(*config.load())
        for answer in report.answers:
            say(str(answer))
        if out is not None:
            say(f"saved in {report.save(out)}")
    except Exception as error:
        if ctx.find_root().params.get("debug"):
            raise
        known = isinstance(error, DurometerError)
        say_no(str(error) if known else f"{type(error).__name__}: {error}")
        raise typer.Exit(BROKEN) from None
    say(f"properties: {report.outcome}")
    raise typer.Exit({"pass": 0, "fail": 1, "undecided": 2}[report.outcome])
