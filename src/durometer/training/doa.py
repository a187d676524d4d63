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
    """Adversarial training with an opaque rectangle at the most harmful place (Wu et al., ICLR
    2020).

    Args:
        share: Side of the rectangle, as a share of the image's; 70 of 224 pixels as published.
        attack: The attack that places and paints it.
        clean: Weight of the clean rows in the loss, from 0 to 1.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy((1, 8, 8))
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).double()
    ... )
    >>> recipe = du.training.DOATraining(attack=du.DOA(2, stride=2))
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    share: float = 70 / 224
    attack: DOA = field(default=DOA())
    clean: float = 0.0

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        size = [max(1, round(self.share * side)) for side in batch.x.shape[2:]]
        craft = CraftBy(self.attack, Rectangle(*size))
        return Adversarial(craft, self.clean).losses(net, batch)
