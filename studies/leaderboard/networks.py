"""Networks that several rows share, each trained from fixed first weights in seconds."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

import durometer as du
from durometer.demo.models import Contrast


def sign_net() -> nn.Module:
    """A small convolutional network on signs, before training."""
    from durometer.architectures.images.smallcnn import SmallCNN

    return nn.Sequential(Contrast(), SmallCNN(43))


def fitted(net: nn.Module, train: du.Dataset, recipe: object, epochs: int) -> nn.Module:
    """Adam with a rate that falls to nothing."""

    def fall(optimiser: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)

    du.training.fit(net, train, recipe, epochs=epochs, rate=2e-3, schedule=fall, progress=False)
    return net.eval()


@cache
def digits() -> nn.Module:
    """Two convolutions with batch normalisation, trained against PGD in Linf 0.2."""

    def make() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2, padding=2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip

    craft = du.training.CraftBy(du.PGD(5), du.Linf(0.2))
    recipe = du.training.Adversarial(craft)
    return fitted(du.training.fresh(make), du.datasets.mnist().train.sample(1500), recipe, 5)
