"""METRICS: every figure of a report, as a function of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from durometer.report.stats import Estimate, bootstrap, mean_of_sums, wilson

if TYPE_CHECKING:
    import pandas as pd


Mask = np.ndarray
SUMMED = ("n", "sum", "squares")  # what is known of a column whose rows are not held


def played(t: pd.DataFrame) -> Mask:
    """Rows that were not left out. A mask: a copy of the rows is a copy of every column."""
    return (t["skipped"] == "").to_numpy()


def _attacked(t: pd.DataFrame) -> Mask:
    return played(t) & (t["winner"] != "clean").to_numpy()


def _rate(t: pd.DataFrame, hits: pd.Series[bool], among: Mask | None = None) -> Estimate:
    won = np.asarray(hits, dtype=bool)
    among = np.ones(len(won), bool) if among is None else among
    if "rows" in t:  # counts of a run whose rows are not held: see totals.py
        rows = t["rows"].to_numpy()
        return wilson(int(rows[won & among].sum()), int(rows[among].sum()))
    return wilson(int((won & among).sum()), int(among.sum()))


def middle(rows: pd.DataFrame) -> np.ndarray:
    """The middle of each record's bounds, NaN where it has none."""
    return (rows["probability_low"] + rows["probability_high"]).to_numpy(float) / 2


def _mean(t: pd.DataFrame, column: str, among: Mask) -> Estimate:
    if "rows" in t:
        n, total, squares = (t[f"{column}_{k}"].to_numpy()[among].sum() for k in SUMMED)
        return mean_of_sums(int(n), float(total), float(squares))
    values = t[column].to_numpy(dtype=float)
    among = among & ~np.isnan(values)
    return bootstrap(values[among], t["id"].to_numpy()[among])


METRICS: dict[str, tuple[str, Callable[[pd.DataFrame], Estimate]]] = {
    "clean": (
        "clean accuracy",
        lambda t: _rate(t, t["clean"] == t["y"]),
    ),
    "clean_played": (
        "clean accuracy of the rows played",
        lambda t: _rate(t, t["clean"] == t["y"], played(t)),
    ),
    "proven": (
        "robust accuracy, at least (proven)",
        lambda t: _rate(t, t["verdict"] == "proven", played(t)),
    ),
    "robust": (
        "robust accuracy, at most (attacked)",
        lambda t: _rate(t, ~t["success"], played(t)),
    ),
    "broken": (
        "broken",
        lambda t: _rate(t, t["verdict"] == "broken", played(t)),
    ),
    "open": (
        "open: neither proven nor broken",
        lambda t: _rate(t, t["verdict"] == "open", played(t)),
    ),
    "success": (
        "attack success (of rows attacked)",
        lambda t: _rate(t, t["success"], _attacked(t)),
    ),
    "valid": ("valid share", lambda t: _rate(t, t["valid"])),
    "blocked": (
        "flipped, but only by invalid inputs",
        lambda t: _rate(t, t["blocked"], _attacked(t)),
    ),
    "distance": (
        "distance of successes",
        lambda t: _mean(t, "distance", _attacked(t) & t["success"].to_numpy()),
    ),
    "forwards": ("forward passes per row attacked", lambda t: _mean(t, "forwards", _attacked(t))),
    "backwards": (
        "backward passes per row attacked",
        lambda t: _mean(t, "backwards", _attacked(t)),
    ),
    "seconds": ("seconds per row attacked", lambda t: _mean(t, "seconds", _attacked(t))),
}
