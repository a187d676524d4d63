"""SST-5: 11,855 sentences of film reviews, from very negative to very positive.

Origin: R. Socher et al., "Recursive deep models for semantic compositionality over a sentiment
treebank" (EMNLP 2013), Stanford; sentences by B. Pang and L. Lee (2005), from Rotten Tomatoes.
Licence: none is stated; distributed by its authors for research. The whole set is bundled: tokens
joined by blanks, brackets and slashes as in the original text. Split: the official one,
8,544 / 1,101 / 2,210; ids are rows of the three parts in this order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from durometer.data.splits import Splits
from durometer.datasets import source

if TYPE_CHECKING:
    from durometer.goals.group import Group

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
ROWS = 11_855


@dataclass(frozen=True)
class Reviews(Splits):
    """The parts of SST-5, with attackers' goals.

    Args:
        train: Rows for training.
        test: Rows for testing.
        val: Rows for validation.
    """

    @staticmethod
    def goal(name: str) -> Group:
        """An attacker's goal: a relation between classes of sentiment (Lin et al., 2024).

        Args:
            name: "less positive" (positive reviews become neutral or negative), "less negative",
                "more positive" or "more negative".

        Raises:
            DurometerError: There is no such goal.

        >>> Reviews.goal("less positive").relation["positive"]
        ['very negative', 'negative', 'neutral']
        """
        from durometer.core.errors import DurometerError, nearest
        from durometer.goals.group import Group

        c = list(CLASSES)
        goals = {
            "less positive": {k: c[:3] for k in c[3:]},
            "less negative": {k: c[2:] for k in c[:2]},
            "more positive": {k: c[i + 1 :] for i, k in enumerate(c[:-1])},
            "more negative": {k: c[:i] for i, k in enumerate(c) if i},
        }
        if name not in goals:
            raise DurometerError(f"no goal '{name}' on sst5{nearest(name, goals)}")
        return Group(goals[name])


def sst5(path: str | os.PathLike[str] | None = None) -> Reviews:
    """SST-5: 11,855 sentences of film reviews in five classes of sentiment (Socher et al., 2013);
    all are bundled.

    Args:
        path: A CSV with the columns split (train, dev, test), label and text. None: the bundled
            ones.

    Returns:
        The `Splits`, as published.

    Raises:
        DurometerError: The file is missing, or does not hold what is expected.

    >>> data = sst5().test
    >>> len(data), data.classes
    (2210, ('very negative', 'negative', 'neutral', 'positive', 'very positive'))
    """
    from durometer.data.dataset import Dataset
    from durometer.spaces.token_ids import encode

    if path is None:
        stored = source.bundled("sst5")
        text = stored["text"].tobytes().decode().split("\n")
        label, split = stored["label"].astype(np.int64), stored["split"]
    else:
        frame = source.table(path, ("split", "label", "text"), ROWS)
        text = frame["text"].tolist()
        label = frame["label"].to_numpy(np.int64)
        split = frame["split"].map({"train": 0, "dev": 1, "test": 2}).to_numpy()
    parts = {}
    for k, name in enumerate(("train", "val", "test")):
        rows = np.flatnonzero(split == k)
        x = encode([text[i] for i in rows])
        parts[name] = Dataset(x, label[rows], ids=rows, classes=CLASSES, name=f"sst5/{name}")
    return Reviews(**parts)
