"""The smallest changes that flip: of each broken row what was changed, feature by feature.

The point handed in is the nearest one where the attack looked for it (`Exact(minimise=...)`): then
`distance_low` is filled in, and no valid change as small as that flips the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from durometer.core.errors import DurometerError
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report


def minimal_changes(report: Report, by: str = "row") -> pd.DataFrame:
    """One line per row and changed feature; by="feature": one line per feature."""
    import pandas as pd

    if by not in ("row", "feature"):
        raise DurometerError(f"minimal_changes(by={by!r}): expected 'row' or 'feature'")
    data, inputs = report.data, report.records.adversarial
    if data is not None and token_ids.is_token_ids(data.x):
        raise DurometerError(
            "minimal_changes() compares numbers, and these are texts: use "
            "report.adversarial_frame()"
        )
    if data is None or inputs is None:
        raise DurometerError(
            "minimal_changes() compares rows with what they were, and a report that was read from "
            "a folder does not hold the data; give it: dataclasses.replace(report, data=data)"
        )
    t = report.table
    at = np.flatnonzero(t["success"].to_numpy(bool) & (t["winner"] != "clean").to_numpy(bool))
    places = {i: k for k, i in enumerate(data.ids.tolist())}
    ids = t["id"].to_numpy()[at]
    was = data.x[[places[i] for i in ids]].double().flatten(1).cpu().numpy()
    now = np.asarray(inputs[at], dtype=np.float64).reshape(len(at), -1)
    names = list(data.columns.names) if data.columns is not None else _numbered(was.shape[1])
    row, column = np.nonzero((was != now) & ~(np.isnan(was) & np.isnan(now)))
    width = _widths(report, names)
    frame = pd.DataFrame(
        {
            "id": ids[row], "feature": np.array(names, object)[column],
            "was": was[row, column], "now": now[row, column],
            "change": now[row, column] - was[row, column],
            "share": np.abs(now[row, column] - was[row, column]) / width[column],
            "distance": t["distance"].to_numpy(float)[at][row],
            "distance_low": t["distance_low"].to_numpy(float)[at][row],
        }
    )  # fmt: skip
    if by == "row":
        return frame.sort_values(["distance", "id", "feature"], ignore_index=True)
    grouped = frame.groupby("feature")
    made = pd.DataFrame(
        {
            "rows": grouped["id"].nunique(),
            "of_flips": grouped["id"].nunique() / max(1, len(at)),
            "median_change": grouped["change"].median(),
            "smallest": grouped["share"].min(),
        }
    )
    return made.sort_values(["rows", "smallest"], ascending=[False, True])


def _numbered(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


def _widths(report: Report, names: list[str]) -> Any:
    """The range of each feature, where there is a schema: a change is shown as a share of it."""
    schema = getattr(report.data, "schema", None)
    if schema is None:
        return np.ones(len(names))
    ranges = np.array([f.range[1] - f.range[0] for f in schema.features], dtype=float)
    return np.where(ranges > 0, ranges, 1.0)
