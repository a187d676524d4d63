"""Under noise: how the probabilities are spread, and which records are least certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.report.figures.noise import SURE, describe_noise
from durometer.report.page import axes, svg
from durometer.report.page.section import Section, beside, table
from durometer.report.page.sections.classes import namer

if TYPE_CHECKING:
    from durometer.report.report import Report

_MOST = 12


def probabilities(report: Report) -> Section | None:
    """The histogram, how the records were bounded, and the least certain ones."""
    t = report.table
    low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
    middle = (low + high) / 2
    if not np.isfinite(middle).any():
        return None
    axis = f"probability that {describe_noise(report)[0]} (line: {SURE})"
    left = axes.histogram(middle, "Histogram of probabilities", axis, mark=SURE)
    kinds = {str(k): int(v) for k, v in t["winner"].value_counts().items() if k}
    if kinds:
        left += Markup("<h3>How the bounds were found</h3>")
        left += svg.bars(kinds, "Records by the kind of their bounds", "records")
    name = namer(report)
    worst = np.argsort(middle, kind="stable")[: min(_MOST, int(np.isfinite(middle).sum()))]
    rows = [
        (
            str(t["id"].iloc[i]),
            name(t["y"].iloc[i]),
            name(t["clean"].iloc[i]),
            float(low[i]),
            float(high[i]),
        )
        for i in worst
    ]
    right = Markup("<h3>The least certain records</h3>") + table(
        ("id", "true class", "answer", "at least", "at most"), rows
    )
    text = f"For each record: how likely {describe_noise(report)[0]} when it is measured again."
    return Section("probability", "Under noise", beside(left, right), text)
