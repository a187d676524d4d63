"""What each column of a table is: kind, bounds, gaps, one-hot groups; with the reason for it.

Text with few values is a category, dates are whole days (or real ones, where hours differ), 0/1 and
true/false are boolean, cells that are missing are said to be. Columns that tell rows apart (texts
that hardly ever repeat, whole numbers called "id" that never do) are no features and are left out.

What a reader would get wrong: bounds are those of the data. The next record may well lie outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.columns import DAYS, Column, as_frame
from durometer.tables.discovery.pairs import tokens
from durometer.tables.feature import Feature, Kind

_FEW = 50  # texts that are few enough for a category, whatever the number of rows


@dataclass(frozen=True)
class Found:
    """The features, why they are what they are, and the columns that are none."""

    features: tuple[Feature, ...]
    reasons: dict[str, str]
    left_out: dict[str, str]


def kinds(table: Any) -> Found:
    """What the columns of a table are."""
    frame = as_frame(table)
    if frame is None or not len(frame):
        raise DurometerError("expected a DataFrame with at least one row")
    found: list[Feature] = []
    reasons: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in frame.columns:
        column = Column.of(str(name), frame[name])
        why = _no_feature(column, frame[name])
        if why:
            left_out[str(name)] = why
            continue
        f, reasons[str(name)] = _feature(column, frame[name])
        found.append(f)
    if not found:
        raise DurometerError(f"no column is a feature: {left_out}")
    grouped = _grouped(found, frame)
    reasons |= {f.name: f"one of the one-hot group '{f.group}'" for f in grouped if f.group}
    return Found(tuple(grouped), reasons, left_out)


def _no_feature(column: Column, series: Any) -> str:
    """Why a column is none; empty where it is one."""
    known = series.dropna()
    if not len(known):
        return "all its cells are missing"
    different = int(known.nunique())
    if column.kind == "label" and different > max(_FEW, len(known) // 10):
        return f"{different} different texts in {len(known)} rows: a name or an id"
    named = set(tokens(column.name.lower())) & {"id", "uuid", "key", "index", "number", "row"}
    if column.kind == "integer" and named and different == len(known) > 20:
        return "a different whole number in each row, and its name says id"
    return ""


def _feature(column: Column, series: Any) -> tuple[Feature, str]:
    gaps = int(series.isna().sum())
    said = f"; {gaps} of {len(series)} cells are missing" if gaps else ""
    missing = bool(gaps)
    if column.kind == "label":
        values = tuple(v if isinstance(v, int | float) else str(v) for v in column.values)
        seen = f"{len(values)} different values"
        made = Feature(column.name, "category", values=values, missing=missing)
        return made, seen + said
    numbers = column.encode(series)
    numbers = numbers[~np.isnan(numbers)]
    if np.isinf(numbers).any():
        raise DurometerError(f"column '{column.name}' holds infinite values; drop or replace them")
    low, high = float(numbers.min()), float(numbers.max())
    if column.kind == "boolean" or set(np.unique(numbers)) <= {0.0, 1.0}:
        return Feature(column.name, "boolean", low, high, missing=missing), "0 and 1 only" + said
    whole = bool((numbers == np.round(numbers)).all())
    kind: Kind = "integer" if whole else "real"
    unit = DAYS if column.kind == "date" else ""
    seen = "dates, as days" if unit else "whole numbers" if whole else "numbers"
    return Feature(column.name, kind, low, high, unit=unit, missing=missing), seen + said


def _grouped(found: list[Feature], table: Any) -> list[Feature]:
    """0/1 columns whose names begin alike and of which exactly one is 1 in every row."""
    flags = [
        f for f in found if f.kind == "boolean" and f.low == 0 and f.high == 1 and not f.missing
    ]
    groups: dict[str, list[str]] = {}
    for f in flags:
        words = tokens(f.name)
        for cut in range(len(words) - 1, 0, -1):
            groups.setdefault("_".join(words[:cut]), []).append(f.name)
    member: dict[str, str] = {}
    for prefix, names in sorted(groups.items(), key=lambda g: -len(g[1])):
        if len(names) >= 2 and not any(n in member for n in names):
            total = sum(table[n].to_numpy(dtype=np.float64) for n in names)
            if bool((total == 1).all()):
                member |= dict.fromkeys(names, prefix)
    return [
        replace(f, group=member[f.name], low=None, high=None) if f.name in member else f
        for f in found
    ]
