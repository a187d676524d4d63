"""ShuffleNet-like (Ma et al. 2018, V2): half of the channels are worked on, then all are shuffled.

What a reader would get wrong: without the shuffle the halves would never meet.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d


def shuffle(x: Tensor) -> Tensor:
    """Channels of the two halves in turn: a1 b1 a2 b2 ..."""
    n, channels, h, w = x.shape
    return x.view(n, 2, channels // 2, h, w).transpose(1, 2).reshape(n, channels, h, w)


def branch(before: int, after: int, stride: int) -> nn.Sequential:
    """1x1, 3x3 on each channel alone, 1x1."""
    return nn.Sequential(
        nn.Conv2d(before, after, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, stride, 1, groups=after, bias=False),
        nn.BatchNorm2d(after),
        nn.Conv2d(after, after, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


class Unit(nn.Module):
    """One half passes, one half is worked on; with stride 2 both halves come from everything."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        half = after // 2
        self.stride = stride
        self.work = branch(before if stride == 2 else half, half, stride)
        self.skip = branch(before, half, 2) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) -> (n, after, h / stride, w / stride)."""
        kept, worked = (x, x) if self.stride == 2 else x.chunk(2, dim=1)
        return shuffle(torch.cat([self.skip(kept), self.work(worked)], dim=1))


class ShuffleNet(nn.Module):
    """A small ShuffleNetV2 for small images (Ma et al., 2018).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage, an even number; each of the next two doubles them.
        blocks: Number of units of each stage.

    >>> ShuffleNet(43, width=16)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(
        self,
        classes: int = 10,
        channels: int = 3,
        width: int = 116,
        blocks: tuple[int, int, int] = (4, 8, 4),
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(channels, 24, 3, padding=1, bias=False),
            nn.BatchNorm2d(24),
            nn.ReLU(),
        ]
        before = 24
        for k, count in enumerate(blocks):
            after = width * 2**k
            layers.append(Unit(before, after, 2))
            layers += [Unit(after, after, 1) for _ in range(count - 1)]
            before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return logits
