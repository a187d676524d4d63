"""DOA training (Wu, Tong & Vorobeychik, ICLR 2020): adversarial training with a sticker.

A rectangle at the place where it hurts most, printed by signed gradient steps; the network learns
from the images with the sticker only. Robust to patches of any kind, eyeglasses among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import torch
from torch import Tensor

from durometer.attacks.doa import DOA
from durometer.core.validation import noun
from durometer.spaces.rectangle import Rectangle
from durometer.training.adversarial import Adversarial, CraftBy
from durometer.training.loop import Batch


@noun
class DOATraining:
    """The sticker covers `share` of each side: 70 of 224 pixels as published.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy((1, 8, 8))
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).double()
    ... )
    >>> history = du.training.fit(
    ...     net, data, du.training.DOATraining(attack=du.DOA(2, stride=2)), epochs=2
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
