"""Expected harm: what a row costs, on average, where confusions have prices (`Group(cost=)`).

A report of prices is that of "anything that costs", and one beside it for each dearer price
(`report.also`). What a row costs lies between the dearest confusion that somebody reached and the
dearest that nobody proved out of reach; under noise its expectation is the sum, price by price, of
the step to that price times the probability of reaching it.

What a reader would get wrong: the mean is over all rows of the data. A row whose class is the
source of nothing costs 0 and counts, or the figure would not be a cost per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from durometer.core.records import Records
from durometer.goals.group import Group
from durometer.report.stats import Estimate, bootstrap

if TYPE_CHECKING:
    from durometer.report.report import Report

Floats = NDArray[np.float64]


def figures(report: Report) -> dict[str, tuple[str, Estimate]]:
    """Name -> (title, estimate), for a goal with prices; empty where it is one level of several."""
    table = report.spec.goal or {}
    if table.get("least") is not None:
        return {}
    group = Group(cost=table["cost"])
    c = report.records.columns
    named = report.spec.classes or ()
    matrix = _matrix(group, c, named)
    kept = c["skipped"] != "invalid"
    ids = c["id"][kept]
    answered = matrix[c["y"], np.maximum(c["clean"], 0)] * (c["clean"] >= 0)
    found = {"harm_clean": ("cost per row, before anything moves", bootstrap(answered[kept], ids))}
    parts = [(group.prices_named[0], report.records)]
    for other in report.also.values():
        goal = other.spec.goal or {}
        if goal.get("cost") == table["cost"] and goal.get("least") is not None:
            parts.append((float(goal["least"]), other.records))
    played = {level for level, _ in parts}
    present = matrix[np.unique(c["y"])]
    if any((present >= v).any() and v not in played for v in group.prices_named):
        return found  # stopped half-way: what was not played is not known
    if np.isfinite(c["probability_low"]).any():
        least, most = (_expected(parts, report.records, end)[kept] for end in ("high", "low"))
        ends = bootstrap(least, ids), bootstrap(most, ids)
        middle = float((least + most).mean() / 2)
        estimate = Estimate(middle, ends[0].low, ends[1].high, int(kept.sum()))
        return found | {"harm": ("expected cost per row", estimate)}
    least, most = (part[kept] for part in _bounds(parts, report.records, matrix))
    found["harm"] = ("cost per row, at least (attacked)", bootstrap(least, ids))
    if report.spec.game_type == "Static":
        found["harm_most"] = ("cost per row, at most (proven)", bootstrap(most, ids))
    return found


def _matrix(group: Group, c: dict[str, np.ndarray], named: tuple[str, ...]) -> Floats:
    seen = max(int(c[name].max(initial=0)) for name in ("y", "clean", "final"))
    if named:  # a reject class is one more, and costs nothing
        return group.prices(max(len(named), 1 + seen), named)
    said = group.cost or ()
    classes = [seen, len(said) - 1] if not isinstance(said, dict) else [
        seen, *(int(s) for s in said), *(int(t) for line in said.values() for t in line)
    ]  # fmt: skip
    return group.prices(1 + max(classes))


def _places(mine: Records, theirs: Records) -> NDArray[np.int64]:
    """Where each of my rows stands in the other records; -1: nowhere."""
    known = {
        key: k
        for k, key in enumerate(zip(theirs.columns["id"], theirs.columns["run"], strict=True))
    }
    keys = zip(mine.columns["id"], mine.columns["run"], strict=True)
    return np.array([known.get(key, -1) for key in keys], dtype=np.int64)


def _bounds(
    parts: list[tuple[float, Records]], rows: Records, matrix: Floats
) -> tuple[Floats, Floats]:
    """(least, most) that each row costs: reached, and not proven out of reach."""
    y = rows.columns["y"]
    least, cap = np.zeros(len(y)), np.full(len(y), np.inf)
    for level, records in parts:
        at = _places(rows, records)
        c = records.columns
        final = np.maximum(c["final"], 0)
        cost = np.where(c["success"], matrix[c["y"], final], 0.0)
        least = np.where(at >= 0, np.maximum(least, cost[at]), least)
        proven = (c["verdict"] == "proven")[at] & (at >= 0)
        cap = np.where(proven, np.minimum(cap, level), cap)
    prices = matrix[y]
    most = np.where(prices < cap[:, None], prices, 0.0).max(axis=1)
    return least, np.maximum(most, least)


def _expected(parts: list[tuple[float, Records]], rows: Records, end: str) -> Floats:
    """The expected cost of each row, from one end of the probabilities that it stays out."""
    total, below = np.zeros(len(rows)), 0.0
    for level, records in sorted(parts, key=lambda part: part[0]):
        at = _places(rows, records)
        stays = records.columns[f"probability_{end}"][at]
        reached = np.where((at >= 0) & np.isfinite(stays), 1 - stays, 0.0)
        total += (level - below) * reached
        below = level
    return total
