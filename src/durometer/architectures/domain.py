"""Domain: a classifier in three parts, for defences that match features: encoder, predictor and
discriminator (DANN).

`domain_lenet` is the network of Chen et al. 2022 for MNIST (A.4.1; one input channel, as in the
code), `domain_mlp` a small one for tables. The discriminator is no part of the classifier.
"""

from __future__ import annotations

from torch import Tensor, nn


class Domain(nn.Module):
    """A classifier in three parts, for defences that match features of two domains, such as `DANN`.

    Args:
        encoder: Maps inputs to features.
        predictor: Maps features to class logits.
        discriminator: Maps features to two logits, one per domain; no part of the classifier
            itself.

    >>> import torch
    >>> import durometer as du
    >>> net = du.architectures.Domain(
    ...     torch.nn.Linear(4, 2), torch.nn.Linear(2, 3), torch.nn.Linear(2, 2)
    ... )
    >>> net(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    def __init__(self, encoder: nn.Module, predictor: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.encoder, self.predictor, self.discriminator = encoder, predictor, discriminator

    def forward(self, x: Tensor) -> Tensor:
        """Inputs -> class logits."""
        logits: Tensor = self.predictor(self.encoder(x))
        return logits


class Shift(nn.Module):
    """(x - mean) / deviation with fixed numbers: data in raw units as a network wants them."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape, in standard units."""
        return ((x - self.mean) / self.deviation).to(self.mean.dtype)


def domain_lenet(
    classes: int = 10, channels: int = 1, width: int = 64, depth: tuple[int, int, int] = (2, 3, 5)
) -> Domain:
    """The network of Chen et al. (2022) for 28 x 28 images, as a `Domain`.

    Args:
        classes: Number of classes.
        channels: Channels of the images.
        width: Channels of the first convolution; 64 as published.
        depth: Numbers of 3x3 layers in the encoder, the predictor and the discriminator.

    >>> import torch
    >>> domain_lenet(width=4, depth=(0, 0, 0))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    wide = 2 * width

    def block(normal: bool) -> list[nn.Module]:
        layer: list[nn.Module] = [nn.Conv2d(wide, wide, 3, padding=1)]
        return [*layer, nn.BatchNorm2d(wide), nn.ReLU()] if normal else [*layer, nn.ReLU()]

    def blocks(count: int, normal: bool) -> list[nn.Module]:
        return [part for _ in range(count) for part in block(normal)]

    encoder = nn.Sequential(
        nn.Conv2d(channels, width, 5),
        nn.BatchNorm2d(width),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(width, wide, 5),
        nn.BatchNorm2d(wide),
        nn.Dropout2d(0.5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        *blocks(depth[0], True),
    )
    hidden = 4 * width
    predictor = nn.Sequential(
        *blocks(depth[1], True),
        nn.Flatten(),
        nn.Linear(wide * 16, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )
    discriminator = nn.Sequential(
        *blocks(depth[2], False),
        nn.Flatten(),
        nn.Linear(wide * 16, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 2),
    )
    return Domain(encoder, predictor, discriminator)


def domain_mlp(mean: Tensor, deviation: Tensor, classes: int = 2, width: int = 64) -> Domain:
    """A small `Domain` network for tables in raw units.

    Args:
        mean: Mean of each feature in the training data.
        deviation: Standard deviation of each feature in the training data.
        classes: Number of classes.
        width: Hidden units per layer.

    >>> import torch
    >>> import durometer as du
    >>> du.architectures.domain_mlp(torch.zeros(4), torch.ones(4), width=8).eval()(
    ...     torch.zeros(5, 4)
    ... ).shape
    torch.Size([5, 2])
    """
    encoder = nn.Sequential(
        Shift(mean, deviation),
        nn.Linear(len(mean), width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
    )
    predictor = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))
    discriminator = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))
    return Domain(encoder, predictor, discriminator)
