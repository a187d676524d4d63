"""Stages: which attack or proof settled how many rows, and at what price.

A stage is named by its label in the records. Its price is the wall-clock time that it took, booked
evenly on the rows that were open when it began: rows that an earlier stage closed cost it nothing.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

_CHEAP = 0.01  # of all seconds: what settled nothing and cost less is not worth a word


def stages(table: pd.DataFrame) -> pd.DataFrame:
    """Columns stage, rows (that it was given), broken, proven, seconds (in all)."""
    rows: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for text, times in table["stages"].value_counts(sort=False).items():
        for name, spent in json.loads(str(text) or "{}").items():
            rows[name] = rows.get(name, 0) + times
            seconds[name] = seconds.get(name, 0.0) + spent * times
    played = table.loc[table["skipped"] == "", ["verdict", "winner"]]
    settled = {
        kind: played.loc[played["verdict"] == kind, "winner"].value_counts()
        for kind in ("broken", "proven")
    }
    lines = [
        (name, rows[name], *(int(s.get(name, 0)) for s in settled.values()), seconds[name])
        for name in rows
    ]
    return pd.DataFrame(lines, columns=["stage", "rows", "broken", "proven", "seconds"])


def sentence(table: pd.DataFrame) -> str:
    """The stages as one line: "Bounds 180 proven (0.4 ms a row), CAPGD 12 broken (...)"."""
    said = []
    lines = stages(table)
    whole = float(lines["seconds"].sum())
    for line in lines.to_dict("records"):
        if not line["proven"] + line["broken"] and line["seconds"] < _CHEAP * whole:
            continue
        found = [f"{line[k]} {k}" for k in ("proven", "broken") if line[k]] or ["nothing"]
        price = line["seconds"] / max(1, line["rows"])
        said.append(
            f"{line['stage']} {' and '.join(found)} of {line['rows']} ({_short(price)} a row)"
        )
    return ", ".join(said)


def _short(seconds: float) -> str:
    """A time of two digits in its own unit."""
    unit, name = (1.0, "s") if seconds >= 1 else (1e3, "ms")
    digits = 0 if seconds * unit >= 10 else 1 if seconds * unit >= 0.1 else 3
    return f"{np.round(seconds * unit, digits):g} {name}"
