"""Standard training: cross entropy on the data as they are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from durometer.core.validation import noun
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy


@noun
class Standard:
    """No adversary. `weights` of the classes: numbers, "balanced", or None for equal ones.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> history = du.training.fit(net, data, du.training.Standard(), epochs=2)
    >>> len(history)
    2
    """

    weights: Weights = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        yield cross_entropy(net(batch.x), batch, self.weights)
