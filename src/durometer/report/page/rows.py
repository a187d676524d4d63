"""The table of all rows: worst first, filtered by any column, each to be opened as a whole.

The rows that are drawn are markup; all others stand in the page as text, a column at a time, so
that a hundred thousand of them are a few megabytes. What a click opens (the record, its row of the
data, what the attack changed) is kept for as many rows as fit, the worst ones first.

What a reader would get wrong: the changes are those of the point that was handed in. It is the
nearest one only where the attack looked for it; the text above the table says which.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.report import changes as text_changes
from durometer.report.examples import Examples
from durometer.report.figures.noise import SURE
from durometer.report.metrics import middle
from durometer.report.page import png
from durometer.report.page.section import Column, Section, Whole, draw, long_table
from durometer.report.radii import minimised

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report

ALL, SAMPLE = 100_000, 5_000  # from so many rows on, only so many of them, the worst, are shown
DRAWN = 200  # in the page before anybody searches
_CELLS, _PICTURES = 200_000, 1_500_000  # of whole records; bytes of pictures
_CHOICES = 60
_CLASS = ("y", "clean", "target", "final", "answer")
EARLY, LEFT_OUT = "wrong before any attack", "left out"


def rows(report: Report, name: Callable[[Hashable], str]) -> Section:
    """The records, the worst ones of a long run, to sort, filter, open and keep."""
    noise, n = report.spec.game_type == "Nature", len(report.table)
    t = worst_first(report.table, noise)
    t = t.head(SAMPLE) if n >= ALL else t
    numbers = ["distance", "margin", "forwards"]
    numbers = ["probability_low", "probability_high"] if noise else numbers
    named = {c: _named(t[c].to_numpy(), name) for c in ("y", "clean", "final")}
    columns = {
        "id": Column(t["id"].astype(str).tolist()),
        "true class": Column(named["y"]),
        "clean": Column(named["clean"]),
        "final": Column(named["final"]),
        "outcome": Column(outcomes(t, noise)),
        "by": Column([w or "–" for w in t["winner"].tolist()]),
        **{c.replace("_", " "): Column(t[c].tolist(), number=True) for c in numbers},
    }
    choices = [_choice(columns, "outcome"), _choice(columns, "true class")]
    e = report.examples
    if e is not None and (e.names or e.text):
        columns["changed"] = Column(_changed(e, t.index.tolist()))
        if e.names:
            often = np.argsort(-e.changed, kind="stable")[:_CHOICES]
            moved = tuple(e.names[i] for i in often.tolist() if e.changed[i])
            choices.append(("changed", [*columns].index("changed"), "has", moved))
    first = next((w for w in t["winner"] if w), "")
    example = f"search, e.g. by:{first} {numbers[0].replace('_', '-')}<0.1"
    control = draw("search", "rows", example, [c for c in choices if len(c[3]) > 1])
    whole = _whole(report, t, name)
    shown = long_table("rows", columns, DRAWN, whole)
    return Section("records", "Row by row", control + shown, _text(report, n, len(t), whole))


def _text(report: Report, n: int, shown: int, whole: Whole) -> str:
    parts = ["Worst first."]
    if shown < n:
        parts.append(f"The worst {shown:,} of {n:,}; all are in records.parquet and the viewer.")
    opened = len(whole.rows)
    of = "" if opened == shown else f" (the first {opened:,}; durometer view opens all)"
    parts.append(f"A click on an id opens the whole record{of}; the search knows its fields, too.")
    if report.examples is not None:
        near = "the nearest one there is" if minimised(report) else "not always the nearest"
        parts.append(f"The counterexample is the one that was handed in: {near}.")
    return " ".join(parts)


def worst_first(t: pd.DataFrame, noise: bool) -> pd.DataFrame:
    """Wrong before any attack, broken by little, almost broken, proven, left out."""
    if noise:
        return t.iloc[np.lexsort((middle(t), (t["skipped"] != "").to_numpy()))]
    broken, early = (t["success"].to_numpy(bool), (t["winner"] == "clean").to_numpy(bool))
    kind = np.select(
        [(t["skipped"] != "").to_numpy(bool), broken & early, broken,
         (t["verdict"] == "proven").to_numpy(bool)], [4, 0, 1, 3], 2,
    )  # fmt: skip
    near = np.where(broken, t["distance"].to_numpy(float), -t["margin"].to_numpy(float))
    return t.iloc[np.lexsort((np.where(np.isnan(near), np.inf, near), kind))]


def outcomes(t: pd.DataFrame, noise: bool) -> list[str]:
    """What came of each row, in the words of the bar of verdicts."""
    left_out = (t["skipped"] != "").to_numpy(bool)
    if noise:
        low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
        kinds = np.select([left_out, low >= SURE, high < SURE],
                          [LEFT_OUT, "stable", "not stable"], "undecided")  # fmt: skip
        return [str(k) for k in kinds]
    early = (t["success"] & (t["winner"] == "clean")).to_numpy(bool)
    said = t["verdict"].to_numpy(object)
    return [str(k) for k in np.select([left_out, early], [LEFT_OUT, EARLY], said)]


def _named(classes: np.ndarray, name: Callable[[Hashable], str]) -> list[str]:
    known = {c: "–" if c < 0 else name(c) for c in np.unique(classes).tolist()}
    return [known[c] for c in classes.tolist()]


def _choice(columns: Mapping[str, Column], name: str) -> tuple[str, int, str, tuple[str, ...]]:
    values = sorted(dict.fromkeys(map(str, columns[name].values)))
    found = tuple(values) if len(values) <= _CHOICES else ()
    return name, [*columns].index(name), "is", found


def _changed(e: Examples, places: Sequence[int]) -> list[str]:
    """What was changed in each row: features, or words; "–" where nothing was."""
    known, found = e.by_place, []
    for place in places:
        k = known.get(place)
        if k is None:
            found.append("–")
        elif e.text:
            pairs = text_changes.pairs(e.clean[k], e.adversarial[k])
            found.append(", ".join(f"{a} → {b}" for a, b in pairs if a != b))
        else:
            found.append(", ".join(e.name(i) for i in e.moved(k)))
    return found


def _whole(report: Report, t: pd.DataFrame, name: Callable[[Hashable], str]) -> Whole:
    """Everything that is known of the first rows; a field that is the same in all is said once."""
    data = report.rows
    width = len(t.columns) + (0 if data is None else len(data.columns))
    some = t.head(max(DRAWN, _CELLS // width))
    fields: dict[str, list[str]] = {}
    for column in some.columns:
        values = some[column]
        if column in _CLASS:
            named = _named(values.to_numpy(), name)
            fields[str(column)] = [
                "" if c < 0 else f"{c} ({n})" for c, n in zip(values.tolist(), named, strict=True)
            ]
        else:
            fields[str(column)] = [cell(v) for v in values.tolist()]
    if data is not None:
        lined = data.reindex(some["id"])
        for column in lined.columns:
            title = str(column) if str(column) not in fields else f"{column} (data)"
            fields[title] = [cell(v) for v in lined[column].tolist()]
    same = [(k, v[0]) for k, v in fields.items() if len(some) > 1 and len(set(v)) == 1]
    own = {k: v for k, v in fields.items() if len(some) == 1 or len(set(v)) > 1}
    lines = [list(line) for line in zip(*own.values(), strict=True)]
    return Whole([*own], lines, [(k, v) for k, v in same if v], _opened(report, some))


def cell(value: object) -> str:
    """A cell as text; "" where it is empty."""
    if value is None or value != value or value == "":
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _opened(report: Report, t: pd.DataFrame) -> dict[int, dict[str, object]]:
    """What the attack changed in the first rows, by their place in the table."""
    e, found, left = report.examples, dict[int, dict[str, object]](), _PICTURES
    if e is None:
        return found
    known = e.by_place
    for line, place in enumerate(t.index.tolist()):
        k = known.get(place)
        if k is None:
            continue
        if e.text:
            found[line] = {"words": text_changes.pairs(e.clean[k], e.adversarial[k])}
        elif e.is_image:
            shown = pictures(e, k)
            left -= sum(map(len, shown.values()))
            if left < 0:
                break
            found[line] = {"pictures": list(shown.items())}
        else:
            found[line] = {"changes": changed_cells(e, k)}
    return found


def changed_cells(e: Examples, k: int, most: int = 60) -> list[tuple[str, str, str, str, str]]:
    """The changed features of a success: name, before, after, unit, the rules that hold it."""
    bound = e.bound[k] if e.bound else {}
    before, after = e.clean[k].reshape(-1), e.adversarial[k].reshape(-1)
    return [
        (e.name(i), e.cell(i, before[i]), e.cell(i, after[i]), e.unit(i),
         "; ".join(bound.get(i, ())))
        for i in e.moved(k)[:most]
    ]  # fmt: skip


def pictures(e: Examples, k: int) -> dict[str, str]:
    """A picture before, after, and the signed difference: red is brighter, blue darker."""
    change = (e.adversarial[k].astype(float) - e.clean[k]).mean(0)
    largest = float(np.abs(change).max()) or 1.0
    share = change / largest
    fade = 1 - np.abs(share)
    red, blue = np.where(share > 0, 1.0, fade), np.where(share < 0, 1.0, fade)
    signed = np.stack([red, fade, blue])
    steps, pixels = 255 * largest, float(e.clean[k].min()) >= 0 and largest <= 1
    end = f"{steps:.3g}/255" if pixels else f"{largest:.3g}"
    return {
        "original": png.address(e.clean[k]),
        "attacked": png.address(e.adversarial[k]),
        f"difference (red +, blue −, up to {end})": png.address(signed),
    }


def cards(e: Examples, k: int, most: int = 10) -> Markup:
    """A success as a card shows it, with at most so many changes."""
    if e.text:
        return draw("text", text_changes.pairs(e.clean[k], e.adversarial[k]))
    if e.is_image:
        return draw("images", pictures(e, k))
    return draw("changes", changed_cells(e, k, most), len(e.moved(k)) - most)
