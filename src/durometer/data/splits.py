"""Splits: the parts of one data set, and how stored arrays become a `Dataset`.

A data set's split is part of its identity: it is fixed, stored or computed from the file alone,
never drawn anew. Ids name the row (or the file) of the original set, so a record in a report can
be traced to its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError

if TYPE_CHECKING:
    from durometer.data.dataset import Dataset


@dataclass(frozen=True)
class Splits:
    """The parts of a data set; the split is fixed.

    Args:
        train: Rows for training.
        test: Rows for testing.
        val: Rows for validation. None where the source has no third part.

    >>> import durometer as du
    >>> splits = du.datasets.pima()
    >>> len(splits.train), len(splits.test)
    (614, 154)
    """

    train: Dataset
    test: Dataset
    val: Dataset | None = None


@dataclass(frozen=True)
class TestOnly:
    """The parts of a data set without training rows; asking for those raises an error that says
    where to get them.

    Args:
        test: Rows for testing.
        why: What the error says.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    test: Dataset
    why: str

    @property
    def train(self) -> Dataset:
        """Not there: raises, with what to do about it."""
        raise DurometerError(self.why)

    val = train


def images(
    pixels: NDArray[np.uint8],
    y: NDArray[Any],
    ids: NDArray[Any],
    classes: Sequence[str],
    name: str,
) -> Dataset:
    """Images (n, h, w) or (n, h, w, 3) in bytes as float32 in [0, 1], channels first."""
    from durometer.data.dataset import Dataset

    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise DurometerError(
            f"{name}: images of dtype {pixels.dtype} and shape {pixels.shape}; expected uint8, "
            "(n, height, width) or (n, height, width, 3)"
        )
    planes = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    x = np.ascontiguousarray(planes, dtype=np.float32) / np.float32(255)
    return Dataset(x, y.astype(np.int64), ids=ids, classes=tuple(classes), name=name)
