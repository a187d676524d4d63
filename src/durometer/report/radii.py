"""Robust accuracy at every radius up to the run's own, from one run, from both sides.

A row that was broken at distance r is broken at every radius from r on; a row of which nothing as
near as s reaches the goal is robust up to s. So one run that looked for the nearest success
(`Exact(minimise="distance")`) has the whole curve in its records. Without it the curve is right but
loose: a point found at eps says nothing about smaller radii.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from durometer.core.errors import DurometerError
from durometer.core.number_format import flatten
from durometer.report.stats import Estimate, wilson

if TYPE_CHECKING:
    import pandas as pd

    from durometer.core.spec import Spec
    from durometer.report.report import Report

_POINTS = 24


def radius(report: Report) -> float | None:
    """The size of the run's own region (of several eps the largest); None where it has none."""
    space = report.spec.space
    size = space.get("eps", space.get("cost")) if isinstance(space, dict) else None
    return max(flatten(size)) if isinstance(size, int | float | list | tuple) else None


def is_priced(spec: Spec) -> bool:
    """Whether distances are money: of a table whose changes are limited by their cost alone."""
    space = spec.space
    if not isinstance(space, dict) or space.get("cost") is None:
        return False
    said = space.get("priced")
    return bool(said) if said is not None else space.get("eps") is None


def curve(report: Report, eps: Sequence[float] | None = None) -> pd.DataFrame:
    """One line per radius: robust accuracy at least (proven) and at most (not broken)."""
    import pandas as pd

    most = radius(report)
    if most is None or report.spec.game_type != "Static":
        raise DurometerError(
            "radii() is about a fixed model in a space with a size (eps or a cost)"
        )
    wanted = np.asarray(sampled(report) if eps is None else eps, dtype=float).reshape(-1)
    if not ((wanted >= 0) & (wanted <= most * (1 + 1e-9))).all():
        raise DurometerError(
            f"radii({eps!r}): this run says something about radii from 0 to {most:g}"
        )
    lines: list[dict[str, float | Estimate]] = []
    for at in wanted.tolist():
        least, highest = sides(report, at)
        lines.append({"eps": at, "at_least": least, "at_most": highest})
    return pd.DataFrame(lines).set_index("eps")


def sides(report: Report, eps: float) -> tuple[Estimate, Estimate]:
    """Robust accuracy at one radius: at least, at most."""
    t, most = report.table[report.table["skipped"] == ""], radius(report)
    assert most is not None
    broken = t["success"].to_numpy(bool)
    distance = np.where(t["winner"] == "clean", 0.0, t["distance"].to_numpy(float))
    distance = np.fmin(distance, most)  # the region let it in, whatever float32 made of its border
    low = t["distance_low"].to_numpy(float)
    sure = np.where(t["verdict"] == "proven", most, np.where(np.isnan(low), 0.0, low))
    slack = 1e-9 * most
    proven = ~(broken & (distance <= 0)) & (sure >= eps - slack) & ((sure > 0) | (eps == 0))
    held = ~(broken & (distance <= eps + slack))
    return wilson(int((proven & held).sum()), len(t)), wilson(int(held.sum()), len(t))


def sampled(report: Report) -> list[float]:
    """Radii worth a look: spread evenly, with 0 and the run's own."""
    most = radius(report) or 0.0
    norm = (report.spec.space or {}).get("p")
    if norm == 0 or (report.spec.space or {}).get("type") == "L0":
        return [float(k) for k in range(int(most) + 1)]
    return [most * k / _POINTS for k in range(_POINTS + 1)]


def minimised(report: Report) -> bool:
    """Did anybody look for the nearest success?"""
    t = report.table
    return radius(report) is not None and bool(
        (t["success"] & t["distance_low"].notna() & (t["winner"] != "clean")).any()
    )
