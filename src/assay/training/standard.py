"""Standard training: cross entropy on the data as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from assay.training.loop import Batch
from assay.training.weights import Weights, cross_entropy


@dataclass(frozen=True)
class Standard:
    """No adversary. `weights` of the classes: numbers, "balanced", or None for equal ones."""

    weights: Weights = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        yield cross_entropy(net(batch.x), batch, self.weights)
