"""holdout(): rows kept out of training, to choose an epoch or a setting by.

What a reader would get wrong: the CAA authors' script chose the best epoch on the *test* set. Here
the rows come out of the training set, so that the test set stays unseen.
"""

from __future__ import annotations

import torch

from durometer.core.errors import DurometerError
from durometer.core.streams import Stream, keys
from durometer.data.dataset import Dataset


def holdout(data: Dataset, share: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Splits off rows for validation, a share of every class.

    Args:
        data: The training data.
        share: Share of the rows to hold out, between 0 and 1.
        seed: Seed of the draw, which depends on the seed and the ids only.

    Returns:
        The rest, and the rows held out.

    Raises:
        DurometerError: One part would be empty.

    >>> data = Dataset(torch.zeros(10, 2), [0] * 5 + [1] * 5)
    >>> [len(part) for part in holdout(data, 0.4)]
    [6, 4]
    """
    if not 0 < share < 1:
        raise DurometerError(f"holdout(share={share}): expected a number between 0 and 1")
    draws = Stream(seed, keys(data.ids), purpose="holdout").uniform(torch.arange(len(data)), 1)[
        :, 0
    ]
    held = torch.zeros(len(data), dtype=torch.bool)
    for c in data.y.unique():
        rows = (data.y == c).nonzero()[:, 0]
        order = rows[draws[rows].argsort()]
        held[order[: round(share * len(rows))]] = True
    if not bool(held.any()) or bool(held.all()):
        raise DurometerError(f"holdout(share={share}) of {len(data)} rows leaves one part empty")
    return data.take(~held), data.take(held)
