"""What attacks changed: of each broken row the features, or of a sentence the words.

The point handed in is the nearest one where the attack looked for it (`Exact(minimise=...)`): then
`distance_low` is filled in, and no valid change as small as that flips the row.

What a reader would get wrong: in a sentence with three changed words all three are counted as a
replacement, though one may have sufficed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from durometer.core.errors import DurometerError
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.data.dataset import Dataset
    from durometer.report.report import Report

Replaced = tuple[tuple[str, str, int], ...]  # before, after, in how many successes


def pairs(before: np.ndarray, after: np.ndarray) -> list[tuple[str, str]]:
    """The words of a row before and after, place by place."""
    rows = token_ids.tokens(torch.from_numpy(np.stack([before, after])))
    return list(zip(*rows, strict=True))


def mark_changes(before: np.ndarray, after: np.ndarray) -> str:
    """The sentence with its changes in brackets.

    >>> x = token_ids.encode(["a good film", "a fine film"]).numpy()
    >>> mark_changes(x[0], x[1])
    'a [good -> fine] film'
    """
    return " ".join(a if a == b else f"[{a} -> {b}]" for a, b in pairs(before, after))


def text_frame(table: pd.DataFrame, data: Dataset, inputs: np.ndarray) -> pd.DataFrame:
    """The sentences that an attack has changed, before and after, by id."""
    import pandas as pd

    at = np.nonzero(table["success"].to_numpy() & (table["winner"] != "clean").to_numpy())[0]
    ids = table["id"].to_numpy()[at]
    places = {i: k for k, i in enumerate(data.ids.tolist())}
    before, after = data.x[[places[i] for i in ids]].cpu().numpy(), inputs[at]
    changed = [", ".join(f"{a} -> {b}" for a, b in pairs(x, z) if a != b)
               for x, z in zip(before, after, strict=True)]  # fmt: skip
    return pd.DataFrame(
        {
            "text": token_ids.sentences(torch.from_numpy(before)),
            "adversarial": token_ids.sentences(torch.from_numpy(after)),
            "changed": changed,
            "distance": table["distance"].to_numpy()[at],
        },
        index=ids,
    )


def _changes(before: np.ndarray, after: np.ndarray) -> Iterator[tuple[str, str]]:
    """Each changed word once for each row it was changed in, as it is in lower case."""
    row, place = np.nonzero(before != after)
    found = np.unique(np.stack([row, before[row, place], after[row, place]], axis=1), axis=0)
    for _, old, new in found.tolist():
        a, b = (token_ids.strip_punctuation(token_ids.word_of(i))[1].lower() for i in (old, new))
        yield (a, b) if a != b else (token_ids.word_of(old), token_ids.word_of(new))


def replaced(before: np.ndarray, after: np.ndarray, most: int) -> Replaced:
    """The `most` replacements that stand in the largest number of these rows."""
    counts = Counter(_changes(before, after))
    return tuple((a, b, n) for (a, b), n in counts.most_common(most))


def join_changes(parts: list[Replaced], most: int) -> Replaced:
    """The counts of several runs together."""
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        counts.update({(a, b): n for a, b, n in part})
    return tuple((a, b, n) for (a, b), n in counts.most_common(most))


def minimal_changes(report: Report, by: str = "row") -> pd.DataFrame:
    """One line per row and changed feature; by="feature": one line per feature."""
    import pandas as pd

    if by not in ("row", "feature"):
        raise DurometerError(f"minimal_changes(by={by!r}): expected 'row' or 'feature'")
    data, inputs = report.data, report.records.adversarial
    if data is not None and token_ids.is_token_ids(data.x):
        raise DurometerError(
            "minimal_changes() compares numbers, and these are texts: use "
            "report.adversarial_frame()"
        )
    if data is None or inputs is None:
        raise DurometerError(
            "minimal_changes() compares rows with what they were, and a report that was read from "
            "a folder does not hold the data; give it: dataclasses.replace(report, data=data)"
        )
    t = report.table
    at = np.flatnonzero(t["success"].to_numpy(bool) & (t["winner"] != "clean").to_numpy(bool))
    places = {i: k for k, i in enumerate(data.ids.tolist())}
    ids = t["id"].to_numpy()[at]
    was = data.x[[places[i] for i in ids]].double().flatten(1).cpu().numpy()
    now = np.asarray(inputs[at], dtype=np.float64).reshape(len(at), -1)
    names = list(data.columns.names) if data.columns is not None else _numbered(was.shape[1])
    row, column = np.nonzero((was != now) & ~(np.isnan(was) & np.isnan(now)))
    width = _widths(report, names)
    frame = pd.DataFrame(
        {
            "id": ids[row], "feature": np.array(names, object)[column],
            "was": was[row, column], "now": now[row, column],
            "change": now[row, column] - was[row, column],
            "share": np.abs(now[row, column] - was[row, column]) / width[column],
            "distance": t["distance"].to_numpy(float)[at][row],
            "distance_low": t["distance_low"].to_numpy(float)[at][row],
        }
    )  # fmt: skip
    if by == "row":
        return frame.sort_values(["distance", "id", "feature"], ignore_index=True)
    grouped = frame.groupby("feature")
    made = pd.DataFrame(
        {
            "rows": grouped["id"].nunique(),
            "of_flips": grouped["id"].nunique() / max(1, len(at)),
            "median_change": grouped["change"].median(),
            "smallest": grouped["share"].min(),
        }
    )
    return made.sort_values(["rows", "smallest"], ascending=[False, True])


def _numbered(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


def _widths(report: Report, names: list[str]) -> np.ndarray:
    """The range of each feature, where there is a schema: a change is shown as a share of it."""
    schema = None if report.data is None else report.data.schema
    if schema is None:
        return np.ones(len(names))
    ranges = np.array([f.range[1] - f.range[0] for f in schema.features], dtype=float)
    return np.where(ranges > 0, ranges, 1.0)
