"""`durometer show`: a saved report, or how far a run has come."""

from __future__ import annotations

from typing import Annotated

import typer

from durometer.cli.screen import RunFolder, console, say, show_report, warn_partial


def show(
    folder: RunFolder,
    by: Annotated[
        str | None, typer.Option(help="Robust accuracy by a column, e.g. y or winner.")
    ] = None,
) -> None:
    """Print a saved report again.

    [dim]Example:[/dim]  durometer show runs/first --by y
    """
    from durometer.report.report import Report
    from durometer.report.sweep import Sweep
    from durometer.run.store import Store

    if by is None and (folder / "sweep.json").exists():
        say(str(Sweep.load(folder)))
        return
    if (folder / "index.sqlite").exists() and not (folder / "records.parquet").exists():
        store = Store(folder)
        for k, why in store.damaged().items():
            text = (
                f"warning: chunk {k} is damaged ({why}) and left out: 'durometer repair {folder}'"
            )
            console(stderr=True).print(text, style="yellow", markup=False)
        report = store.report()
        done, rows = len(report.records), report.spec.rows
        say(f"not finished: {done} of {rows} rows so far")
    else:
        report = Report.load(folder)
        warn_partial(report, folder)
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
