"""VGG-like (Simonyan & Zisserman 2015): stages of 3x3 convolutions, each ended by pooling.

For small images, as is usual there: batch normalisation, and one linear layer in place of three.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d


class VGG(nn.Module):
    """A VGG with batch normalisation and one linear layer, for small images (Simonyan & Zisserman,
    2015).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; they double up to 8 times it.
        stages: Number of convolutions of each stage; each stage ends in pooling.

    >>> import torch
    >>> VGG(43, width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        width: int = 64,
        stages: Sequence[int] = (1, 1, 2, 2, 2),
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = channels
        for k, count in enumerate(stages):
            after = width * min(2**k, 8)
            for _ in range(count):
                layers += [
                    nn.Conv2d(before, after, 3, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(),
                ]
                before = after
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return logits
