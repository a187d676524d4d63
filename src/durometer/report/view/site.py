"""A static site of all runs under a folder: one list, and each run's report with its files.

Nothing of a run folder is copied: every report is read, checked against its digests and written
anew, so a page that somebody has put into a run folder does not reach the site.
"""

from __future__ import annotations

from pathlib import Path

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.report.export import write
from durometer.report.page.section import Section, draw, render, table
from durometer.report.view.viewer import Viewer


def export(root: Path, out: Path) -> tuple[int, list[str]]:
    """Writes the site.

    Args:
        root: The folder of the runs.
        out: Where to write; a folder that does not exist, or is empty.

    Returns:
        How many runs it holds, and what could not be written, each with the reason.

    Raises:
        DurometerError: `out` holds something, or lies in `root`.
    """
    viewer = Viewer(root)
    if out.resolve().is_relative_to(root.resolve()):
        raise DurometerError(f"'{out}' lies in the folder of the runs; choose another")
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise DurometerError(f"'{out}' is not an empty folder; choose another")
    lines, left_out = [], []
    entries = viewer.entries()
    for k, e in enumerate(entries):
        folder = f"run-{k + 1:05d}"
        link = f"{folder}/report.html"
        try:
            report = viewer.report(e)
            report.save(out / folder)
            write(report, "csv", out / folder / "records.csv")
        except DurometerError as error:
            left_out.append(f"{e.name}: {error}")
            link = ""
        r = viewer.line(e, static=link)
        warned = ", ".join(f.id for f in e.flags if f.level == "warning")
        state = r["note"] or r["bar"]
        lines.append((draw("run_cell", r), r["when"], e.spec.rows, state, warned))
    head = ("run", "written (UTC)", "rows", "verdicts", "warnings")
    body = draw("search", "runs", "search", ()) + table(head, lines, "runs")
    told = f"{len(entries) - len(left_out):,} runs"
    about = "Each with its report, records (CSV, Parquet) and evidence. Newest first."
    try:
        out.mkdir(parents=True, exist_ok=True)
        durable_files.write(
            out / "index.html",
            render("durometer: runs", told, about, [Section("all", "Runs", body)]),
        )
    except OSError as error:
        raise DurometerError(f"cannot write to '{out}': {error}") from None
    return len(entries) - len(left_out), left_out
