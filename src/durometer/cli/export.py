"""`durometer export`: a run for other tools.

What a reader would get wrong: records go out as they are, but what others will rely on (in-toto,
CycloneDX, OSCAL, PDF) is made only of a run whose files and figures are as they were saved.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from durometer.cli.screen import RunFolder, say, warn_partial
from durometer.core import durable_files
from durometer.core.errors import DurometerError


class Format(StrEnum):
    """What a run can be exported to."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    mlflow = "mlflow"
    intoto = "intoto"
    cyclonedx = "cyclonedx"
    oscal = "oscal"
    pdf = "pdf"


USUAL = {
    Format.csv: "records.csv",
    Format.parquet: "records.parquet",
    Format.json: "report.json",
    Format.intoto: "attestation.json",
    Format.cyclonedx: "bom.cdx.json",
    Format.oscal: "assessment-results.json",
    Format.pdf: "evidence.pdf",
}
DOCUMENTS = (Format.intoto, Format.cyclonedx, Format.oscal, Format.pdf)


def export(
    folder: RunFolder,
    to: Annotated[Format, typer.Option("--to", "--format", help="The format.")] = Format.csv,
    out: Annotated[
        Path | None,
        typer.Option(help="The file; default: in the folder, e.g. records.csv, attestation.json."),
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Also what was handed in, a column per feature.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="CSV: keep text that a spreadsheet would run (=...) as it is."),
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(help="intoto: sign with this private key (PEM; ed25519, or ECDSA on P-256)."),
    ] = None,
) -> None:
    """Write a run's records for other tools, its evidence as a document, or log it to MLflow.

    Records: csv, parquet, json, mlflow. Evidence: intoto (a test result, bound to the files of
    model, data and run), cyclonedx (an ML-BOM), oscal (assessment results), pdf (a sheet to print
    and sign).

    [dim]Examples:[/dim]  durometer export runs/first --format csv --out first.csv
              durometer export runs/first --format intoto --sign key.pem
    """
    from durometer.report import export as exports
    from durometer.report.report import Report

    if sign is not None and to is not Format.intoto:
        raise DurometerError(f"--sign: only intoto is signed, not {to.value}")
    if out is None and to in USUAL:  # a file that the user names may be a link of the user's
        durable_files.refuse_links(folder, (USUAL[to],))
    file = out or folder / USUAL.get(to, "")
    if to in DOCUMENTS:
        _document(folder, to, file, sign)
        return
    report = Report.load(folder)
    warn_partial(report, folder)
    if to is Format.mlflow:
        say(f"logged to MLflow as run {exports.to_mlflow(report, folder)}")
        return
    say(f"saved in {exports.write(report, to.value, file, inputs, raw)}")


def _document(folder: Path, to: Format, file: Path, sign: Path | None) -> None:
    """The evidence as another document, of a run that is as it was saved."""
    from durometer.report.interchange import cyclonedx, dsse, facts, intoto, oscal, sheet
    from durometer.verification.verify import verify

    looked = verify(folder)
    if looked.status in ("contradicted", "unreadable"):
        raise DurometerError(f"nothing is exported of a run that is not as it was saved:\n{looked}")
    known = facts.read(folder)
    text: str | bytes
    if to is Format.intoto:
        statement = intoto.statement(known)
        text = statement if sign is None else dsse.envelope(statement, sign)
    elif to is Format.pdf:
        text = sheet.pdf(known)
    else:
        text = cyclonedx.bom(known) if to is Format.cyclonedx else oscal.assessment_results(known)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write(file, text)
    except OSError as error:
        raise DurometerError(f"cannot write '{file}': {error}") from None
    say(f"saved in {file}")
    if to is Format.intoto and not any(name.startswith("model/") for name in known.sources):
        say(
            "it names no file of the model, which was made in Python or stands behind an address: "
            f"it is bound to the model by its hash, {known.model_hash or 'unknown'}"
        )
