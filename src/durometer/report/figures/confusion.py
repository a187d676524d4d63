"""What attacks made of each class: true class against the class after the attack.

Rows that were wrong before any attack are left out: no attack made them so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from durometer.report.report import Report


@dataclass(frozen=True, eq=False)
class Confusion:
    """Successes by true class (rows) and class after the attack (columns).

    Args:
        sources: True classes, by index.
        ends: Classes after the attack, by index.
        counts: Successes, shape (sources, ends).
    """

    sources: tuple[int, ...]
    ends: tuple[int, ...]
    counts: np.ndarray


def confusion(report: Report, most: int) -> Confusion | None:
    """The counts of the `most` frequent classes of either side; None where no attack succeeded."""
    t = report.table
    won = t.loc[t["success"] & (t["winner"] != "clean"), ["y", "final"]]
    if not len(won):
        return None
    sources, ends = (
        won[c].value_counts().index[:most].sort_values().to_numpy() for c in ("y", "final")
    )
    y, final = won["y"].to_numpy(), won["final"].to_numpy()
    counts = np.array([[int(((y == s) & (final == e)).sum()) for e in ends] for s in sources])
    return Confusion(tuple(map(int, sources)), tuple(map(int, ends)), counts)
