"""Two runs side by side on the rows they share: paired differences and the tests that go with them.

What a reader would get wrong: two intervals that overlap do not mean that there is no difference.
The rows are the same in both runs, so the difference is tested row by row (McNemar for yes or no,
Wilcoxon's signed ranks for numbers) and its interval is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.report.page import charts
from durometer.report.page.report import namer
from durometer.report.page.section import Section, draw, render, table, written
from durometer.report.stats import Estimate, bootstrap, mcnemar, paired_difference, wilcoxon, wilson

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.comparison import Comparison
    from durometer.report.report import Report

_MOST = 300
_LONG = 12  # names longer than this are A and B in charts and tables
_SHOWN = ("model", "data", "space", "noise", "goal", "attack", "budget", "seed", "rows")


def page(
    first: Report,
    second: Report,
    names: tuple[str, str] = ("A", "B"),
    further: Sequence[Section] = (),
) -> str:
    """The comparison as one page; `further` sections stand at its end."""
    both = first.compare(second)
    tests = paired(both)
    verdict = both.sentence(names)
    n, a, b = len(both.first), len(first.records), len(second.records)
    threat = f"{n:,} rows were played in both runs (of {a:,} and {b:,})."
    if first.spec.data_hash != second.spec.data_hash:
        threat += " The data differ: rows are matched by id; make sure that ids mean the same."
    letters = names if max(map(len, names)) <= _LONG else ("A", "B")
    sections = [
        _sides(first, second, names, letters),
        _tests(tests, letters),
        _four(both, letters),
        _classes(both, first, letters),
        _rows(both, first, letters),
        _spec(first, second, letters),
        *further,
    ]
    return render(f"durometer: {names[0]} against {names[1]}", verdict, threat, sections)


Test = tuple[str, Estimate, Estimate, Estimate, float, str]


def paired(both: Comparison) -> list[Test]:
    """What can be compared: title, each side, the difference, p-value, test."""
    a, b = both.first, both.second
    tests: list[Test] = []

    def yes_no(title: str, of: Callable[[pd.DataFrame], pd.Series[bool]]) -> None:
        x, y = of(a).to_numpy(bool), of(b).to_numpy(bool)
        p = mcnemar(int((x & ~y).sum()), int((y & ~x).sum()))
        one, other = (wilson(int(v.sum()), len(v)) for v in (x, y))
        tests.append((title, one, other, paired_difference(x, y, both.ids), p, "McNemar"))

    def number(title: str, x: np.ndarray, y: np.ndarray) -> None:
        known = np.isfinite(x) & np.isfinite(y)
        if known.any():
            x, y, ids = x[known], y[known], both.ids[known]
            difference, p = paired_difference(x, y, ids), wilcoxon(x, y)
            tests.append((title, bootstrap(x, ids), bootstrap(y, ids), difference, p, "Wilcoxon"))

    if both.noisy:
        number("probability that the answer stays", *both.sides)
    else:
        decided = not any(v.open for v in both.verdicts)
        said = "robust accuracy" if decided else "robust accuracy, at most"
        yes_no(said, lambda t: ~t["success"])
        if any(both.proven):
            yes_no("of it proven", lambda t: t["verdict"] == "proven")
    yes_no("clean accuracy", lambda t: t["clean"] == t["y"])
    for column, title in (("forwards", "forward passes"), ("backwards", "backward passes")):
        x, y = a[column].to_numpy(float), b[column].to_numpy(float)
        if x.any() or y.any():
            number(title, x, y)
    fell = (a["success"] & b["success"]).to_numpy(bool)
    far = (np.where(fell, t["distance"].to_numpy(float), np.nan) for t in (a, b))
    number("distance, where both broke the row", *far)
    return tests


def _sides(
    first: Report, second: Report, names: tuple[str, str], letters: tuple[str, str]
) -> Section:
    titles = names if names == letters else [f"{a}: {n}" for a, n in zip("AB", names, strict=True)]
    cards = [
        (title, [(k, r.spec.text(k)) for k in _SHOWN if r.spec.text(k)])
        for title, r in zip(titles, (first, second), strict=True)
    ]
    found = {
        f"{name}: {kind}": r.metric(kind)
        for kind in ("clean", "robust")
        for name, r in zip(letters, (first, second), strict=True)
    }
    rates = {k: e for k, e in found.items() if e.n and e.low >= 0 and e.high <= 1}
    chart = charts.intervals(rates, "Both runs, each on all of its rows")
    return Section("sides", "Side by side", draw("pair", cards) + chart)


def _tests(tests: list[Test], names: tuple[str, str]) -> Section:
    rows = []
    for title, x, y, d, p, test in tests:
        rate = test == "McNemar"
        by = f"{d.value:+.4g} ({d.low:+.4g} to {d.high:+.4g})"
        if rate:
            low, value, high = (f"{100 * v:+.1f}" for v in (d.low, d.value, d.high))
            by = f"{value} points ({low} to {high})"
        sides = (written(e, rate)[0] for e in (x, y))
        rows.append((title, *sides, by, f"{p:.2g} ({test})", d.n))
    head = ("figure", names[0], names[1], "difference", "p", "rows")
    text = "On the rows played in both runs, each row compared with itself."
    return Section("tests", "Paired tests", table(head, rows), text)


def _four(both: Comparison, names: tuple[str, str]) -> Section:
    x, y = (t["success"].to_numpy(bool) for t in (both.first, both.second))
    counts = {
        "held in both": float((~x & ~y).sum()),
        f"broken in {names[0]} only": float((x & ~y).sum()),
        f"broken in {names[1]} only": float((y & ~x).sum()),
        "broken in both": float((x & y).sum()),
    }
    return Section("four", "Where they differ", charts.bars(counts, "Rows by outcome", "rows"),
                   wide=False)  # fmt: skip


def _classes(both: Comparison, first: Report, names: tuple[str, str]) -> Section | None:
    name = namer(first)
    found: dict[str, Estimate] = {}
    classes = sorted(both.first["y"].unique())
    if not 1 < len(classes) <= 30:
        return None
    for c in classes:
        for label, t in zip(names, (both.first, both.second), strict=True):
            rows = t[t["y"] == c]
            found[f"{name(c)}, {label}"] = wilson(int((~rows["success"]).sum()), len(rows))
    chart = charts.intervals(found, "Robust accuracy by class")
    return Section("classes", "Class by class", chart, wide=False)


def _rows(both: Comparison, first: Report, names: tuple[str, str]) -> Section | None:
    a, b, name = both.first, both.second, namer(first)
    differ = np.flatnonzero(a["success"].to_numpy(bool) != b["success"].to_numpy(bool))
    if not len(differ):
        return None

    def outcome(row: pd.Series) -> str:
        return f"{name(row['final'])} ({row['winner']})" if row["success"] else str(row["verdict"])

    rows = [
        (str(a.index[i][0]), name(a["y"].iloc[i]), outcome(a.iloc[i]), outcome(b.iloc[i]))
        for i in differ[:_MOST]
    ]
    control = draw("search", "differing", "search", ())
    text = "" if len(differ) <= _MOST else f"The first {_MOST} of {len(differ)}."
    body = control + table(("id", "true class", *names), rows, "differing")
    return Section("differ", "Rows with another outcome", body, text)


def _spec(first: Report, second: Report, names: tuple[str, str]) -> Section:
    a, b = first.spec, second.spec
    keys = a.differences(b)
    rows = [(k, *(s.text(k) or "–" for s in (a, b))) for k in keys]
    same = "Everything else that was asked is the same in both."
    if not keys:
        return Section("spec", "To reproduce", Markup(""), "Both runs were asked the same.")
    return Section("spec", "To reproduce", table(("setting", *names), rows), same)
