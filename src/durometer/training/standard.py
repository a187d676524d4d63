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
    """Standard training: cross entropy on the data as they are.

    Args:
        weights: Class weights: one number per class, "balanced", or None for equal ones.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.Standard()
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    weights: Weights = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        yield cross_entropy(net(batch.x), batch, self.weights)
