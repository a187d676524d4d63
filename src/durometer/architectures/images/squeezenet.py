"""SqueezeNet-like (Iandola et al. 2016): few 1x1 channels, expanded by 1x1 and 3x3 side by side.

For small images: stride 1 at the entry, and batch normalisation, without which it trains poorly.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, relu


class Fire(nn.Module):
    """Squeeze to an eighth, expand by two kinds of convolution."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        thin, half = max(1, after // 8), after // 2
        self.squeeze = nn.Sequential(nn.Conv2d(before, thin, 1), nn.BatchNorm2d(thin), nn.ReLU())
        self.small, self.large = nn.Conv2d(thin, half, 1), nn.Conv2d(thin, half, 3, padding=1)
        self.norm = nn.BatchNorm2d(2 * half)

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) -> (n, after, h, w)."""
        x = self.squeeze(x)
        return relu(self.norm(torch.cat([self.small(x), self.large(x)], dim=1)))


class SqueezeNet(nn.Module):
    """A small SqueezeNet with batch normalisation for small images (Iandola et al., 2016).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first fire modules; later ones have 2, 3 and 4 times as many.

    >>> SqueezeNet(43, width=16)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(self, classes: int = 10, channels: int = 3, width: int = 128) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width // 2, 3, padding=1),
            nn.BatchNorm2d(width // 2),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
        ]
        before = width // 2
        for k in range(1, 5):
            layers += [Fire(before, k * width), Fire(k * width, k * width)]
            before = k * width
            if k in (1, 2):
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(before, classes, 1)  # the published network has no linear layer

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = adaptive_avg_pool2d(self.head(self.body(x)), 1).flatten(1)
        return logits
