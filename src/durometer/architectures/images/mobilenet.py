"""MobileNet-like (Sandler et al. 2018, V2): expand, filter each channel alone, narrow again.

The narrow ends are linear (no ReLU after them), and short cuts join them where shapes agree. For
small images: the first strides are 1.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d


class Inverted(nn.Module):
    """1x1 to `times` as many channels, 3x3 on each of them, 1x1 back."""

    def __init__(self, before: int, after: int, stride: int, times: int) -> None:
        super().__init__()
        wide = before * times
        self.path = nn.Sequential(
            nn.Conv2d(before, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) -> (n, after, h / stride, w / stride)."""
        out: Tensor = self.path(x)
        return x + out if self.short else out


class MobileNet(nn.Module):
    """A small MobileNetV2 for small images (Sandler et al., 2018).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; each of the next three doubles them.
        times: Expansion factor inside a block.

    >>> import torch
    >>> MobileNet(43, width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(
        self, classes: int = 10, channels: int = 3, width: int = 24, times: int = 6
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(),
        ]
        before = width
        for k in range(4):
            after = width * 2**k
            layers += [Inverted(before, after, 2 if k else 1, times)]
            layers += [Inverted(after, after, 1, times)]
            before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return logits
