"""Small models to try things on: trained on a bundled data set in seconds, the same every time.

They are for demonstrations and examples: good enough to be worth attacking, and not robust. Seeds
are fixed and the caller's random numbers are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from assay.data import Dataset
from assay.streams import seeded


def convnet(channels: int, classes: int, side: int) -> nn.Sequential:
    """Two convolutions and two dense layers for `channels` x `side` x `side` images."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, classes),
    )  # fmt: skip


def fit(
    net: nn.Module, data: Dataset, epochs: int, rate: float = 2e-3, batch: int = 128
) -> nn.Module:
    """Adam with a falling rate (one cycle), shuffled by a generator of its own."""
    shuffle = torch.Generator().manual_seed(0)
    steps = epochs * -(-len(data) // batch)
    adam = torch.optim.Adam(net.parameters(), rate)
    cycle = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=steps)
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(data), generator=shuffle).split(batch):  # type: ignore[no-untyped-call]
            loss: Tensor = nn.functional.cross_entropy(net(data.x[rows]), data.y[rows])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            cycle.step()
    return net.eval()


def mnist() -> nn.Module:
    """A small convolutional network on 4,000 digits."""
    from assay.datasets import mnist as load

    with seeded(0):
        net = convnet(1, 10, 28)
    return fit(net, load().train, epochs=6)


def gtsrb() -> nn.Module:
    """A small convolutional network on 1,892 traffic signs, each stretched to full contrast."""
    from assay.datasets import gtsrb as load

    with seeded(0):
        net = nn.Sequential(Contrast(), convnet(3, 43, 32))
    return fit(net, load().train, epochs=20)


def orl() -> nn.Module:
    """A small convolutional network on 280 faces."""
    from assay.datasets import orl as load

    with seeded(0):
        net = nn.Sequential(nn.AvgPool2d(2), Contrast(), convnet(1, 40, 32))
    return fit(net, load().train, epochs=30, batch=40)


class Contrast(nn.Module):
    """Every picture with mean 0 and deviation 1: many signs were photographed in the dark."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((1, 2, 3), keepdim=True)
        return (x - mean) / (x.std((1, 2, 3), keepdim=True) + 0.02)


def url() -> Any:
    """A random forest on web addresses, in the raw units of its 63 features."""
    from sklearn.ensemble import RandomForestClassifier

    from assay.datasets import url as load

    train = load().train
    forest = RandomForestClassifier(60, min_samples_leaf=3, random_state=0)
    return forest.fit(train.x.numpy(), train.y.numpy())


def url_net() -> nn.Module:
    """A small network on the same addresses; it standardises the raw features itself."""
    from assay.datasets import url as load

    train = load().train
    x = train.x.float()
    with seeded(0):
        net = nn.Sequential(
            Standardised(x.mean(0), x.std(0)), nn.Linear(63, 64), nn.ReLU(), nn.Linear(64, 2)
        )
    return fit(net, replace(train, x=x), epochs=8)


class Standardised(nn.Module):
    """Features with mean 0 and deviation 1, by the figures of the training data."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation.clamp_min(1e-6))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


MODELS: dict[str, Callable[[], Any]] = {
    "gtsrb": gtsrb,
    "mnist": mnist,
    "orl": orl,
    "url": url,
    "url_net": url_net,
}
