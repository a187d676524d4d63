"""SmallCNN: three strided convolutions and a linear layer, for 32 x 32 signs and 64 x 64 faces.

Small enough to be trained adversarially in minutes on one core; with batch normalisation, without
which free adversarial training of so few layers does not get off the ground.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Three strided convolutions with batch normalisation and a linear layer; trains adversarially
    in minutes on one core.

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first convolution; the next two double them.
        grid: Height and width that features are pooled to before the linear layer.

    >>> SmallCNN(43, channels=3)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(self, classes: int, channels: int = 3, width: int = 24, grid: int = 4) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before, kernel = channels, 5
        for k in range(3):
            after = width * 2**k
            layers += [
                nn.Conv2d(before, after, kernel, stride=2, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
            before, kernel = after, 3
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(grid)
        self.head = nn.Linear(before * grid * grid, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(torch.flatten(self.pool(self.body(x)), 1))
        return logits
