"""Class weights: what a mistake on each class costs while learning.

"balanced" weighs a class by 1 / (classes * its share of the training data), for two classes the
same as the CAA paper's 1 - share. The mean is taken over the weights, so that the size of the loss,
and with it the learning rate, does not change with them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from durometer.core.errors import DurometerError
from durometer.training.loop import Batch

Weights = tuple[float, ...] | str | None


def cross_entropy(logits: Tensor, batch: Batch, weights: Weights = None) -> Tensor:
    """The (weighted) mean cross entropy of the batch's rows."""
    if weights is None:
        return functional.cross_entropy(logits, batch.y)
    classes = logits.shape[1]
    given = balanced(batch.data.y, classes) if weights == "balanced" else weights
    if isinstance(given, str) or len(given) != classes:
        raise DurometerError(
            f'weights={weights!r}; expected None, "balanced" or one number for each of the '
            f"{classes} classes"
        )
    return functional.cross_entropy(logits, batch.y, torch.tensor(given, dtype=logits.dtype))


def balanced(y: Tensor, classes: int) -> tuple[float, ...]:
    """Class weights that give every class the same total weight.

    Args:
        y: True classes (n,).
        classes: Number of classes.

    Returns:
        One weight per class, n / (classes x rows of the class); 0 for a class without rows.

    >>> balanced(torch.tensor([0, 0, 0, 1]), 2)
    (0.6666666666666666, 2.0)
    """
    counts = torch.bincount(y, minlength=classes).tolist()
    return tuple(len(y) / (classes * n) if n else 0.0 for n in counts)
