"""Records for other tools: CSV, Parquet, JSON, and MLflow where it is installed and configured.

Pandas needs no export: `Report.load(folder).table` is a DataFrame.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report

KINDS = ("csv", "parquet", "json", "mlflow")
_RUN = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet runs
_MOST = 5000  # columns of handed-in inputs in a table


def write(report: Report, kind: str, out: Path, inputs: bool = False, raw: bool = False) -> Path:
    """Write the records to a file; with `inputs` also what was handed in, a column per feature
    (of texts the sentence, in one).

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it, unless
    `raw`: an id may come from whoever wrote the data.
    """
    if kind not in KINDS[:3]:
        raise DurometerError(f"to '{kind}': no such format{nearest(kind, KINDS)}")
    table = frame(report, inputs)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if kind == "csv":
            (table if raw else inert(table)).to_csv(out, index=False)
        elif kind == "parquet":
            table.astype({"id": str}).to_parquet(out)
        else:
            out.write_text(json.dumps(to_plain_text(report, table), indent=1, allow_nan=False))
    except OSError as error:
        raise DurometerError(f"cannot write '{out}': {error}") from None
    return out


def frame(report: Report, inputs: bool = False) -> pd.DataFrame:
    """The records as a table of their own."""
    import pandas as pd

    table = report.table.copy()
    names = report.spec.classes
    if names:
        for column in ("y", "clean", "target", "final"):
            known = table[column].between(0, len(names) - 1)
            said = np.array(names, dtype=object)[table[column].where(known, 0)]
            table[f"{column}_name"] = np.where(known, said, "")
    if not inputs:
        return table
    x = report.records.adversarial
    if x is None:
        raise DurometerError("this run kept no handed-in inputs: export it without --inputs")
    if token_ids.is_token_ids(x):
        return table.assign(x=token_ids.sentences(torch.from_numpy(x)))
    x = x.reshape(len(x), -1)
    if x.shape[1] > _MOST:
        raise DurometerError(
            f"{x.shape[1]} features are too many for a table (the most is {_MOST}); the inputs are "
            "in adversarial.npz"
        )
    given = report.examples.names if report.examples else ()
    columns = [f"x_{n}" for n in (given or range(x.shape[1]))]
    return pd.concat([table, pd.DataFrame(x, columns=columns, index=table.index)], axis=1)


def to_plain_text(report: Report, table: pd.DataFrame) -> dict[str, Any]:
    """Everything as plain values: JSON knows neither NaN nor numpy."""
    figures = {
        name: {"title": title, "value": e.value, "low": e.low, "high": e.high, "n": e.n}
        for name, (title, e) in report.shown.items()
        if e.n
    }
    records = json.loads(table.to_json(orient="records"))
    spec = json.loads(json.dumps(report.spec, default=str), parse_constant=str)
    flags = [{"id": f.id, "level": f.level, "text": f.text} for f in report.flags]
    return {"spec": spec, "figures": figures, "flags": flags, "records": records}


def flat(report: Report) -> dict[str, float]:
    """Every figure with both ends of its interval, by names that other tools can hold."""
    found: dict[str, float] = {}
    for name, (_, e) in report.shown.items():
        if e.n:
            found |= {name: e.value, f"{name}_low": e.low, f"{name}_high": e.high}
    return found


def to_mlflow(report: Report, folder: Path) -> str:
    """Log a saved run to MLflow as it is configured (MLFLOW_TRACKING_URI ...); the run's id."""
    try:
        import mlflow
    except ImportError as error:
        raise Unsupported(
            f"--to mlflow needs MLflow ({error}): pip install mlflow-skinny"
        ) from None
    spec = report.spec
    with mlflow.start_run(run_name=f"{spec.model} on {spec.data}") as run:
        given = spec.in_words()
        mlflow.log_params({k: v[:500] for k, v in given.items()})
        mlflow.log_metrics(flat(report))
        for flag in report.flags:
            mlflow.set_tag(f"flag.{flag.id}", flag.text[:500])
        for file in ("report.html", "spec.json", "records.parquet", "config.toml"):
            if (folder / file).exists():
                mlflow.log_artifact(str(folder / file))
        return str(run.info.run_id)


def inert(table: pd.DataFrame) -> pd.DataFrame:
    """The table with text that begins like a formula made plain text; numbers stay as they are."""

    def plain(value: Any) -> Any:
        if not isinstance(value, str) or not value.lstrip().startswith(_RUN):
            return value
        try:
            float(value)
        except ValueError:
            return "'" + value
        return value

    made = table.copy()
    for name in made.columns:
        if made[name].dtype.kind not in "biufc":
            made[name] = [plain(v) for v in made[name]]
    return made.rename(columns={name: plain(name) for name in made.columns})
