"""Sentences before and after, word by word, and which replacements did the harm.

A replacement is counted in the successes that hold it. What a reader would get wrong: in a sentence
with three changed words all three are counted, though one may have sufficed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

    from durometer.data.dataset import Dataset

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


def frame(table: pd.DataFrame, data: Dataset, inputs: np.ndarray) -> pd.DataFrame:
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
