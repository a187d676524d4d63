"""Small models to try things on: trained on a bundled data set in seconds, the same every time.

They are for demonstrations and examples: good enough to be worth attacking, and not robust. Seeds
are fixed and the caller's random numbers are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from durometer.architectures.domain import Shift
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.data.dataset import Dataset
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard


def _trained(
    make: Callable[[], nn.Module], data: Dataset, epochs: int, batch: int = 128
) -> nn.Module:
    """Adam with a rate that falls to nothing, from first weights that are always the same."""
    net = fresh(make)
    fall = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=epochs)
    fit(net, data, Standard(), epochs=epochs, batch=batch, rate=2e-3, schedule=fall, progress=False)
    return net


def mnist() -> nn.Module:
    """A small convolutional network on 4,000 digits."""
    from durometer.datasets import mnist as load

    return _trained(lambda: SmallCNN(10, channels=1), load().train, epochs=4)


def gtsrb() -> nn.Module:
    """A small convolutional network on 1,892 traffic signs, each stretched to full contrast."""
    from durometer.datasets import gtsrb as load

    return _trained(lambda: nn.Sequential(Contrast(), SmallCNN(43)), load().train, epochs=12)


def orl() -> nn.Module:
    """A small convolutional network on 280 faces."""
    from durometer.datasets import orl as load

    def make() -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(2), Contrast(), SmallCNN(40, channels=1))

    return _trained(make, load().train, epochs=30, batch=40)


class Contrast(nn.Module):
    """Every picture with mean 0 and deviation 1: many signs were photographed in the dark."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((1, 2, 3), keepdim=True)
        return (x - mean) / (x.std((1, 2, 3), keepdim=True) + 0.02)


def url() -> Any:
    """A random forest on web addresses, in the raw units of its 63 features."""
    from sklearn.ensemble import RandomForestClassifier

    from durometer.datasets import url as load

    train = load().train
    forest = RandomForestClassifier(60, min_samples_leaf=3, random_state=0)
    return forest.fit(train.x.numpy(), train.y.numpy())


def url_net() -> nn.Module:
    """A small network on the same addresses; it standardises the raw features itself."""
    from durometer.datasets import url as load

    train = load().train
    x = train.x.float()

    def make() -> nn.Module:
        scaled = Shift(x.mean(0), x.std(0).clamp_min(1e-6))
        return nn.Sequential(scaled, nn.Linear(63, 64), nn.ReLU(), nn.Linear(64, 2))

    return _trained(make, replace(train, x=x), epochs=8)


MODELS: dict[str, Callable[[], Any]] = {
    "gtsrb": gtsrb,
    "mnist": mnist,
    "orl": orl,
    "url": url,
    "url_net": url_net,
}
