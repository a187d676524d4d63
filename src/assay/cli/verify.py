"""`assay verify`: a saved run looked at again; exit code 0 where nothing is wrong, else 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.screen import RunFolder


def verify(
    folder: RunFolder,
    config: Annotated[
        Path | None,
        typer.Option(help="The run file: its model is asked again, and every row judged again."),
    ] = None,
) -> None:
    """Check a run: every file's hash, every figure, and with --config every adversarial example.

    [dim]Example:[/dim]  assay verify runs/mnist --config examples/mnist.toml
    """
    from assay.config.config import read
    from assay.verification.verify import verify as look

    if config is None:
        made = look(folder)
    else:
        asked = read(config)
        model, data = asked.load()
        options = asked.options(data)
        made = look(folder, model, data, options.get("space"), options.get("goal"))
    typer.echo(str(made))
    raise typer.Exit(0 if made else 1)
