"""DOA training (Wu, Tong & Vorobeychik, ICLR 2020): adversarial training with a sticker.

A rectangle at the place where it hurts most, printed by signed gradient steps; the network learns
from the images with the sticker only. Robust to patches of any kind, eyeglasses among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from assay.attacks.doa import DOA
from assay.spaces.rectangle import Rectangle
from assay.training.adversarial import Adversarial, CraftBy
from assay.training.loop import Batch


@dataclass(frozen=True)
class DOATraining:
    """The sticker covers `share` of each side: 70 of 224 pixels as published.

    >>> import torch
    >>> import assay as ay
    >>> _, data = ay.testing.toy((1, 8, 8))
    >>> net = ay.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).double()
    ... )
    >>> history = ay.training.fit(
    ...     net, data, ay.training.DOATraining(attack=ay.DOA(2, stride=2)), epochs=2
    ... )
    >>> len(history)
    2
    """

    share: float = 70 / 224
    attack: DOA = field(default=DOA())
    clean: float = 0.0

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        size = [max(1, round(self.share * side)) for side in batch.x.shape[2:]]
        craft = CraftBy(self.attack, Rectangle(*size))
        return Adversarial(craft, self.clean).losses(net, batch)
