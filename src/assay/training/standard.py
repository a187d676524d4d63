"""Standard training: cross entropy on the data as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from assay.training.loop import Batch


@dataclass(frozen=True)
class Standard:
    """No adversary."""

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        yield cross_entropy(net(batch.x), batch.y)
