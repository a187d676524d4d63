"""What a laboratory asks, on one page: which decisions are unsure, which instrument to improve, and
how much noise or drift a decision bears. All of it with both ends of what is known.

What a reader would get wrong: gains and levels are of the least certain records alone, which are
the ones that a better instrument is bought for; the first part is of all records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.report.page import charts
from durometer.report.page.section import Section, beside, render, table

if TYPE_CHECKING:
    import pandas as pd

_MOST = 12


def nature_page(
    title: str,
    under: str,
    share: float,
    screened: pd.DataFrame,
    gains: pd.DataFrame,
    noise: pd.DataFrame,
    drift: pd.DataFrame,
    picture: Markup | None,
) -> str:
    """`screened` of all records; the others of the least certain ones, by id."""
    counts = {name: int((screened["stays"] == name).sum()) for name in ("yes", "no", "open")}
    said = (
        f"{counts['yes']:,} of {len(screened):,} decisions stay with a probability of {share:.0%} "
        f"or more when the record is measured again, {counts['no']:,} do not; "
        f"{counts['open']:,} are open."
    )
    parts = [
        _screening(screened, counts, share),
        _instruments(gains, share),
        _levels(noise, drift, share),
        None if picture is None else Section("regions", "The least certain record", picture),
    ]
    return render(title, said, f"Noise: {under}.", parts)


def _screening(screened: pd.DataFrame, counts: dict[str, int], share: float) -> Section:
    named = {"yes": "stays", "no": "does not", "open": "not known"}
    known = {named[k]: v for k, v in counts.items()}
    chart = charts.bars(known, "Records by what is known", "records")
    rows = [
        (str(i), float(r["low"]), float(r["high"]), named[str(r["stays"])])
        for i, r in screened.head(_MOST).iterrows()
    ]
    worst = table(("id", "at least", "at most", f"with {share:.0%}?"), rows)
    text = "How likely each answer is to stay; the least certain records first."
    return Section("screening", "Which decisions are unsure", beside(chart, worst), text)


def _instruments(gains: pd.DataFrame, share: float) -> Section:
    names = [str(f) for f in gains["low"]]
    low, high = (gains[end].to_numpy(float).mean(axis=0) for end in ("low", "high"))
    order = np.argsort(-low, kind="stable")
    rows = [(names[f], float(low[f]), float(high[f])) for f in order[: 2 * _MOST]]
    sure = {names[f]: round(100 * max(float(low[f]), 0.0), 2) for f in order[:_MOST]}
    chart = charts.bars(sure, "Certain gain by feature", "points of probability")
    head = ("feature, read exactly", "gain at least", "gain at most")
    text = (
        f"What the probability of staying would gain, on average over the {len(gains)} least "
        "certain records, if one feature were read without error. Bars: the gain that is certain."
    )
    body = beside(chart, table(head, rows))
    return Section("instruments", "Which instrument to improve", body, text)


def _levels(noise: pd.DataFrame, drift: pd.DataFrame, share: float) -> Section:
    def said(value: object) -> float | str:
        level = float(str(value))
        return "none asked" if np.isinf(level) else level

    rows = [
        (str(i), said(noise.loc[i, "low"]), said(noise.loc[i, "high"]),
         said(drift.loc[i, "low"]), said(drift.loc[i, "high"]))
        for i in noise.index
    ]  # fmt: skip
    head = ("id", "noise: stays up to", "falls at", "drift: stays up to", "falls at")
    text = (
        f"Noise, as a multiple of today's, and drift of all features at once, in standard "
        f"deviations of it, up to which a decision stays with {share:.0%}; 0: not even at the "
        "smallest level asked."
    )
    return Section("levels", "How much a decision bears", table(head, rows), text)
