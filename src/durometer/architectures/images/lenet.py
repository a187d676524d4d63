"""LeNets of the transductive experiments: two convolutions, one hidden layer; for small images.

`LeNet` is the network of TADV (MNIST: 5x5-32, pool, 5x5-64, pool, 1024), `NormLeNet` the one of
RMC, with batch normalisation; both with a `width` to make them smaller.
"""

from __future__ import annotations

from torch import Tensor, nn


class LeNet(nn.Module):
    """A LeNet with two convolutions and one hidden layer; clamps its input to [0, 1] (TADV's
    network for MNIST, Chen et al., 2022).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        side: Height and width of the images, in pixels.
        width: Channels of the first convolution; 32 as published.

    >>> import torch
    >>> LeNet(width=4)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, classes: int = 10, channels: int = 1, side: int = 28, width: int = 32
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * (side // 4) ** 2, 32 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(32 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, side, side) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(self.body(x.clamp(0, 1)))
        return logits


class NormLeNet(nn.Module):
    """A LeNet with batch normalisation (RMC's network for MNIST, Wu et al., 2020).

    Args:
        classes: Number of classes.
        channels: Channels of the images: 1 for grey, 3 for colour.
        side: Height and width of the images, in pixels.
        width: Channels of the first convolution; 32 as published.

    >>> import torch
    >>> NormLeNet(width=4)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, classes: int = 10, channels: int = 1, side: int = 28, width: int = 32
    ) -> None:
        super().__init__()
        hidden = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 5, padding=2),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * (side // 4) ** 2, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, side, side) in [0, 1] -> logits (n, classes)."""
        logits: Tensor = self.head(self.body(x))
        return logits
