"""Would a row that was handed in pass for one of the class it reached?

Distances are Gower's: the mean over features of |difference| / range for numbers, and of 0 or 1 for
categories and for gaps. A record is as isolated as its `NEIGHBOURS`-th nearest record of the class
is far. The rank of a row is its class-conditional conformal p-value (Vovk et al., 2005):

    (1 + records of the class that are at least as isolated among the others) / (1 + records)

What a reader would get wrong: a low rank says that a row is unlike the records, not that a judge
would refuse it; and a row near its own clean record may be near the other class as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Bools, Floats
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.data.dataset import Dataset
    from durometer.report.report import Report

NEIGHBOURS = 5
_MEMORY = 4_000_000  # numbers held at a time


def plausibility(report: Report, records: Dataset, least: float = 0.0) -> pd.DataFrame:
    """One line per row that an attack changed and broke."""
    import pandas as pd

    inputs = report.records.adversarial
    if inputs is None or records.x.ndim != 2 or token_ids.is_token_ids(records.x):
        raise DurometerError("plausibility() compares records of a table, and this run has none")
    if not 0 <= least <= 1:
        raise DurometerError(f"plausibility(least={least!r}): expected a share between 0 and 1")
    t = report.table
    at = np.flatnonzero(t["success"].to_numpy(bool) & (t["winner"] != "clean").to_numpy(bool))
    rows = np.asarray(inputs[at], dtype=np.float64)
    known, label = records.x.double().cpu().numpy(), records.y.cpu().numpy()
    if rows.shape[1:] != known.shape[1:]:
        raise DurometerError(
            f"plausibility(): the run's rows have {rows.shape[1]} features, the records "
            f"{known.shape[1]}"
        )
    coded = _coded(records, known.shape[1])
    width = _width(known)
    reached = t["final"].to_numpy()[at].astype(np.int64)
    found = {name: np.full(len(at), np.nan) for name in ("rank", "nearest", "usual")}
    for c in np.unique(reached):
        of_class, ours = known[label == c], reached == c
        if len(of_class) <= NEIGHBOURS:
            continue  # too few to say what is usual
        own = _nearest(of_class, of_class, coded, width, NEIGHBOURS + 1)[:, 1:]  # not to itself
        theirs = _nearest(rows[ours], of_class, coded, width, NEIGHBOURS)
        more = (own[:, -1][None] >= theirs[:, -1][:, None]).sum(axis=1)
        found["rank"][ours] = (1 + more) / (1 + len(of_class))
        found["nearest"][ours] = theirs[:, 0]
        found["usual"][ours] = np.median(own[:, 0])
    frame = pd.DataFrame(
        {"id": t["id"].to_numpy()[at], "final": reached, **found,
         "distance": t["distance"].to_numpy(float)[at]}
    )  # fmt: skip
    kept = frame[frame["rank"] >= least] if least else frame
    return kept.sort_values(["rank", "id"], ascending=[False, True], ignore_index=True)


def _nearest(rows: Floats, records: Floats, coded: Bools, width: Floats, count: int) -> Floats:
    """(n, count) the distances to the nearest records, nearest first."""
    out = np.empty((len(rows), count))
    step = max(1, _MEMORY // max(1, records.size))
    for start in range(0, len(rows), step):
        part = rows[start : start + step, None]
        with np.errstate(invalid="ignore"):
            away = np.abs(part - records[None]) / width
        away = np.where(coded, (part != records[None]).astype(np.float64), away)
        gone, also = np.isnan(part), np.isnan(records[None])
        away = np.where(gone | also, (gone != also).astype(np.float64), away)
        far = away.mean(axis=2)
        out[start : start + step] = np.sort(np.partition(far, count - 1, axis=1)[:, :count], axis=1)
    return out


def _width(known: Floats) -> Floats:
    """(d,) the range of each column of the records; 1 where there is none."""
    with np.errstate(invalid="ignore"):
        low = np.nanmin(np.where(np.isnan(known).all(axis=0), 0.0, known), axis=0)
        high = np.nanmax(np.where(np.isnan(known).all(axis=0), 0.0, known), axis=0)
    return np.where(high > low, high - low, 1.0)


def _coded(records: Dataset, d: int) -> Bools:
    if records.schema is None:
        return np.zeros(d, dtype=bool)
    return np.array([f.kind == "category" for f in records.schema.features])
