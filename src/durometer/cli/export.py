"""`durometer export`: a run for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import RunFolder, say, warn_partial
from durometer.core import durable_files


class Format(StrEnum):
    """What a run can be exported to."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    mlflow = "mlflow"


def export(
    folder: RunFolder,
    to: Annotated[Format, typer.Option(help="The format.")] = Format.csv,
    out: Annotated[
        Path | None, typer.Option(help="The file; default: records.FORMAT in the folder.")
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Also what was handed in, a column per feature.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="CSV: keep text that a spreadsheet would run (=...) as it is."),
    ] = False,
) -> None:
    """Write a run's records for other tools, or log the run to MLflow.

    [dim]Example:[/dim]  durometer export runs/mnist --to csv --out mnist.csv
    """
    from durometer.report import export as exports
    from durometer.report.report import Report

    report = Report.load(folder)
    warn_partial(report, folder)
    if to is Format.mlflow:
        say(f"logged to MLflow as run {exports.to_mlflow(report, folder)}")
        return
    usual = f"{'report' if to is Format.json else 'records'}.{to.value}"
    if out is None:  # a file that the user names may be a link of the user's
        durable_files.refuse_links(folder, (usual,))
    file = out or folder / usual
    say(f"saved in {exports.write(report, to.value, file, inputs, raw)}")
