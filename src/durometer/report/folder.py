"""A report in a folder: report.html, spec.json, records.parquet, adversarial.npz, certificates.npz
(of proofs that can be checked), examples.npz, and evidence.json and evidence.html, which rest on
them and on what else the run has kept.

All files are written first and then renamed one after the other (`durable`): a save that is cut off
leaves the report that was there. `spec.json` holds the digests of the files that belong to it: what
a bad disk changed, or files of two saves that were cut off between two renames, are not taken for a
report.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.records import FIELDS, Records, certificates
from durometer.core.spec import Spec
from durometer.report.checks import Flag
from durometer.report.evidence import document, light, reproduce_command
from durometer.report.examples import Examples
from durometer.report.job_file import job_toml, script_command
from durometer.report.page import evidence as evidence_page
from durometer.report.page import report as report_page
from durometer.report.totals import Totals
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report

FILES: tuple[str, ...] = (  # besides the spec
    "report.html", "records.parquet", "adversarial.npz", "certificates.npz", "examples.npz",
    "rows.parquet", "evidence.json", "evidence.html", "totals.parquet", "job.toml",
)  # fmt: skip
_DRAWN = ("report.html", "evidence.json", "evidence.html")  # always written
KEPT = ("config.toml", "fingerprint.json", "facts.json")  # of the run, if it was kept here
PATIENCE = 60.0  # seconds that a report waits for another process to be done with its folder
FIX = "run it again with --resume, which saves it anew, or save the report again"


def save(report: Report, folder: Path) -> None:
    """Write a report, and those of its further goals below it; in the folder of a run, when nobody
    else writes there."""
    try:
        durable_files.refuse_links(folder, ("lock", "log.txt", "also"))
        held = FileLock(folder / "lock", timeout=PATIENCE)
        with held if (folder / "lock").exists() else nullcontext():
            _save(report, folder)
    except Timeout:
        raise DurometerError(
            f"another process is writing to '{folder}'; wait for it, or save to another folder"
        ) from None
    except (OSError, MemoryError) as error:
        why = str(error) or "not enough memory"
        raise DurometerError(f"cannot write the report to '{folder}': {why}") from None


def _save(report: Report, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for name, other in report.also.items():
        durable_files.refuse_links(folder, ("also",))
        _save(other, durable_files.entry(folder / "also", name))
    if not report.spec.command:
        report = replace(report, spec=replace(report.spec, command=script_command(folder)))
    flags = [vars(f) for f in report.flags]
    spec = report.spec.to_json() | {"flags": flags, "also": list(report.also)}
    table = report.table.astype({"id": str})
    table.attrs.clear()
    with _log(folder), durable_files.replace_together(folder) as new:
        page = new("report.html")
        kept = {n: "" for n in KEPT if (folder / n).exists()}
        repeat = reproduce_command(report, kept, folder)
        page.write(report_page.page(report, repeat, light(report)).encode())
        made = {"records.parquet": new("records.parquet")}
        pq.write_table(pa.Table.from_pandas(table), made["records.parquet"])
        if report.records.adversarial is not None:
            made["adversarial.npz"] = new("adversarial.npz")
            ids = table["id"].to_numpy(str)
            said = np.array(token_ids.words_in(report.records.adversarial), str)
            np.savez(made["adversarial.npz"], x=report.records.adversarial, ids=ids, words=said)
        if report.records.certificates is not None:
            made["certificates.npz"] = new("certificates.npz")
            proofs: dict[str, Any] = report.records.certificate_arrays()
            np.savez(made["certificates.npz"], **proofs)
        if report.examples is not None:
            made["examples.npz"] = new("examples.npz")
            report.examples.save(made["examples.npz"])
        if report.rows is not None:
            made["rows.parquet"] = new("rows.parquet")
            pq.write_table(_plain(report.rows), made["rows.parquet"])
        if report.totals is not None:
            made["totals.parquet"] = new("totals.parquet")
            report.totals.save(made["totals.parquet"])
        job = "" if report.spec.command.startswith("durometer") else job_toml(report.spec)
        if job:
            made["job.toml"] = new("job.toml")
            made["job.toml"].write(job.encode())
        spec["saved"] = {name: durable_files.digest(file) for name, file in made.items()}
        made |= {"report.html": page, "spec.json": new("spec.json")}
        made["spec.json"].write(json.dumps(spec, indent=2, default=str).encode())
        hashes = {name: durable_files.sha256(file) for name, file in made.items()}
        hashes |= {n: durable_files.sha256(folder / n) for n in KEPT if (folder / n).exists()}
        evidence, shown = document(report, hashes, folder), new("evidence.html")
        shown.write(evidence_page.page(evidence).encode())
        whole = evidence.with_file("evidence.html", durable_files.sha256(shown))
        new("evidence.json").write(whole.json.encode())
    for name in {*FILES} - {*made, *_DRAWN}:
        (folder / name).unlink(missing_ok=True)  # of the report that was here before


@contextmanager
def _log(folder: Path) -> Iterator[None]:
    """What goes wrong with the page goes to the log of the run, where there is one."""
    if not (folder / "log.txt").exists():
        yield
        return
    log, handler = logging.getLogger("durometer.report"), logging.FileHandler(folder / "log.txt")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


class Saved(NamedTuple):
    """What `save` wrote: the fields of a `Report`; `also` holds the folders of further goals."""

    spec: Spec
    records: Records
    flags: tuple[Flag, ...]
    also: list[str]
    examples: Examples | None
    rows: pd.DataFrame | None
    totals: Totals | None


def load(folder: Path) -> Saved:
    """The saved report in a folder."""
    if (folder / "sweep.json").exists():
        runs = ", ".join(sorted(p.parent.name for p in folder.glob("*/spec.json"))[:3])
        raise DurometerError(f"'{folder}' holds a sweep; name one of its runs: {runs} ...")
    if not (folder / "spec.json").exists():
        raise DurometerError(f"no saved report in '{folder}': it has no spec.json")
    if not (folder / "records.parquet").exists():
        raise DurometerError(
            f"the run in '{folder}' is not finished; durometer run --resume goes on"
        )
    stored = read_json(folder / "spec.json", FIX)
    spec = read_spec(folder / "spec.json", FIX, stored)
    with durable_files.reading(folder / "spec.json", FIX):
        flags = tuple(Flag(**f) for f in stored.get("flags", []))
        other, saved = list(stored.get("also", ())), dict(stored.get("saved", {}))
        for name in other:
            durable_files.entry(folder / "also", name)
        for name in saved:
            durable_files.entry(folder, name)
    for name, digest in saved.items():
        with durable_files.reading(folder / name, FIX):
            if durable_files.digest(folder / name) != digest:
                raise ValueError("it is not as it was saved")
    table = _table(folder / "records.parquet", spec)
    columns = {k: table[k].to_numpy() for k in FIELDS if k in table}  # older runs have fewer
    inputs, shown = folder / "adversarial.npz", folder / "examples.npz"
    adversarial = examples = None
    if inputs.exists():
        with durable_files.reading(inputs, FIX), durable_files.arrays(inputs) as file:
            adversarial = file["x"]
            token_ids.register_words(file["words"].tolist())
            if len(adversarial) != len(table):
                raise ValueError(f"{len(adversarial)} rows for {len(table)} records")
    if shown.exists():
        with durable_files.reading(shown, FIX):
            examples = Examples.load(shown)
    proofs = None
    if (folder / "certificates.npz").exists():
        kept = folder / "certificates.npz"
        with durable_files.reading(kept, FIX), durable_files.arrays(kept) as file:
            proofs = certificates(file)
    records = Records.of(len(table), adversarial, proofs, **columns)
    rows = totals = None
    if (folder / "rows.parquet").exists():
        with durable_files.reading(folder / "rows.parquet", FIX):
            rows = _by_id(folder / "rows.parquet", spec)
    if (folder / "totals.parquet").exists():
        with durable_files.reading(folder / "totals.parquet", FIX):
            totals = Totals.load(folder / "totals.parquet")
    return Saved(spec, records, flags, other, examples, rows, totals)


def read_json(path: Path, fix: str) -> dict[str, Any]:
    """The table in a file; `fix` is what to do where there is none."""
    with durable_files.reading(path, fix):
        found = durable_files.parsed(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"expected a table, it holds a {type(found).__name__}")
        return found


def read_spec(path: Path, fix: str, stored: Mapping[str, Any] | None = None) -> Spec:
    """The spec in a file (whose table is `stored`, where it was read); damaged ones are named."""
    try:
        return Spec.from_json(read_json(path, fix) if stored is None else stored)
    except DurometerError as error:
        if str(path) in str(error):
            raise
        raise DurometerError(f"'{path}' is damaged ({error}); {fix}") from None


def _plain(rows: pd.DataFrame) -> Any:
    """The table of the data as Arrow can hold it: mixed columns as text."""
    import pyarrow as pa

    made = {"id": rows.index.astype(str)}
    for name in rows.columns:
        column = rows[name].array
        try:
            made[str(name)] = pa.array(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            made[str(name)] = pa.array([None if v is None else str(v) for v in column])
    return pa.table(made)


def _by_id(path: Path, spec: Spec) -> pd.DataFrame:
    return _table(path, spec).set_index("id")


def _table(path: Path, spec: Spec) -> pd.DataFrame:
    import pandas as pd

    with durable_files.reading(path, FIX):
        table = pd.read_parquet(path)
        if spec.id_type == "int":
            table["id"] = table["id"].astype("int64")
        return table
