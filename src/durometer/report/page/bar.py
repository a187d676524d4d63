"""What is known of the rows, as one bar at the top of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.page import svg
from durometer.report.verdicts import verdicts

if TYPE_CHECKING:
    from durometer.report.report import Report


def bar(report: Report) -> Markup:
    """The bar with its legend; empty where no row was played."""
    counts = verdicts(report)
    if not any(n for _, n in counts.values()):
        return Markup("")
    return svg.verdicts(counts, ", ".join(f"{n} {name}" for name, n in counts.values()))
