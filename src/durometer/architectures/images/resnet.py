"""ResNets for 32 x 32 images (He et al. 2016), as the transductive experiments use them.

`resnet18` and `resnet34` have four stages of 64..512 channels (what the RMC experiments call
ResNet-32 is the 34-layer layout); `resnet20` and `resnet32` have three stages of 16..64.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, relu


class Block(nn.Module):
    """Two 3x3 convolutions and a short cut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.short = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) -> (n, after, h / stride, w / stride)."""
        return relu(self.path(x) + self.short(x))


class ResNet(nn.Module):
    """A ResNet for small images (He et al., 2016).

    Args:
        blocks: Number of blocks of each stage; each stage but the first halves the image and
            doubles the channels.
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage.

    >>> import torch
    >>> resnet18(classes=43, width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 43])
    """

    def __init__(
        self, blocks: tuple[int, ...], classes: int = 10, channels: int = 3, width: int = 64
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        before = width
        for stage, count in enumerate(blocks):
            for k in range(count):
                after = width * 2**stage
                layers.append(Block(before, after, 2 if stage and k == 0 else 1))
                before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return logits


def resnet18(classes: int = 10, channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet with 18 layers in four stages (used with URejectron and DANN on CIFAR-10).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; 64 as published.

    >>> import torch
    >>> import durometer as du
    >>> du.architectures.resnet18(10, width=4).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return ResNet((2, 2, 2, 2), classes, channels, width)


def resnet20(classes: int = 10, channels: int = 3, width: int = 16) -> ResNet:
    """A ResNet with 20 layers in three stages (used with TADV on CIFAR-10).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; 16 as published.

    >>> import torch
    >>> import durometer as du
    >>> du.architectures.resnet20(10, width=4).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return ResNet((3, 3, 3), classes, channels, width)


def resnet32(classes: int = 10, channels: int = 3, width: int = 16) -> ResNet:
    """A ResNet with 32 layers in three stages (He et al., 2016, for CIFAR-10).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; 16 as published.

    >>> import torch
    >>> import durometer as du
    >>> du.architectures.resnet32(10, width=4).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return ResNet((5, 5, 5), classes, channels, width)


def resnet34(classes: int = 10, channels: int = 3, width: int = 64) -> ResNet:
    """A ResNet with 34 layers in four stages (used with RMC on CIFAR-10).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        width: Channels of the first stage; 64 as published.

    >>> import torch
    >>> import durometer as du
    >>> du.architectures.resnet34(10, width=4).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return ResNet((3, 4, 6, 3), classes, channels, width)
