"""METRICS: every figure of a report, as a function of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.report.stats import Estimate, bootstrap, wilson

if TYPE_CHECKING:
    import pandas as pd


def _rate(rows: pd.DataFrame, hits: Any) -> Estimate:
    return wilson(int(np.asarray(hits).sum()), len(rows))


def _played(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["skipped"] == ""]


def _attacked(rows: pd.DataFrame) -> pd.DataFrame:
    rows = _played(rows)
    return rows[rows["winner"] != "clean"]


def middle(rows: pd.DataFrame) -> np.ndarray:
    """The middle of each record's bounds, NaN where it has none."""
    return (rows["probability_low"] + rows["probability_high"]).to_numpy(float) / 2


def _mean(rows: pd.DataFrame, column: str) -> Estimate:
    values = rows[column].dropna()
    return bootstrap(values.to_numpy(), rows.loc[values.index, "id"].to_numpy())


METRICS: dict[str, tuple[str, Callable[[Any], Estimate]]] = {
    "clean": (
        "clean accuracy",
        lambda t: _rate(t, t["clean"] == t["y"]),
    ),
    "clean_played": (
        "clean accuracy of the rows played",
        lambda t: _rate(_played(t), _played(t)["clean"] == _played(t)["y"]),
    ),
    "proven": (
        "robust accuracy, at least (proven)",
        lambda t: _rate(_played(t), _played(t)["verdict"] == "proven"),
    ),
    "robust": (
        "robust accuracy, at most (attacked)",
        lambda t: _rate(_played(t), ~_played(t)["success"]),
    ),
    "broken": (
        "broken",
        lambda t: _rate(_played(t), _played(t)["verdict"] == "broken"),
    ),
    "open": (
        "open: neither proven nor broken",
        lambda t: _rate(_played(t), _played(t)["verdict"] == "open"),
    ),
    "success": (
        "attack success (of rows attacked)",
        lambda t: _rate(_attacked(t), _attacked(t)["success"]),
    ),
    "valid": ("valid share", lambda t: _rate(t, t["valid"])),
    "blocked": (
        "flipped, but only by invalid inputs",
        lambda t: _rate(_attacked(t), _attacked(t)["blocked"]),
    ),
    "distance": (
        "distance of successes",
        lambda t: _mean(_attacked(t)[_attacked(t)["success"]], "distance"),
    ),
    "forwards": ("forward passes per row attacked", lambda t: _mean(_attacked(t), "forwards")),
    "backwards": ("backward passes per row attacked", lambda t: _mean(_attacked(t), "backwards")),
    "seconds": ("seconds per row attacked", lambda t: _mean(_attacked(t), "seconds")),
}
