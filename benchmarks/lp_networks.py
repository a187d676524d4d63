"""The networks of `lp_strength.py`. `Cascade` was tuned on "adversarial" and "digits".

All are trained on the bundled samples, on the first call (some CPU minutes), and read on the next:

    standard, adversarial    CNN on MNIST, as usual and against PGD in Linf 0.1, 0.2, 0.3 in turn
    resnet, mobilenet        on CIFAR-10's sample, against PGD in Linf 4/255 and 8/255
    digits                   two hidden layers on scikit-learn's 8 x 8 digits, against Linf 0.15
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import durometer as du
from durometer.architectures.images.mobilenet import MobileNet
from durometer.architectures.images.resnet import ResNet
from durometer.training import Adversarial, CraftBy, Standard, fit, fresh


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


@dataclass(frozen=True)
class Subject:
    """A network, the data it is asked about, and the threats."""

    make: Callable[[], nn.Module]
    data: str
    epochs: int  # for each eps in turn
    eps: tuple[float, ...]  # trained against; 0: as usual
    threats: tuple[object, ...]


MNIST = (du.Linf(0.2), du.Linf(0.3), du.L2(1.5))
CIFAR = (du.Linf(8 / 255), du.L2(0.5))
SUBJECTS = {
    "standard": Subject(cnn, "mnist", 10, (0.0,), MNIST),
    "adversarial": Subject(cnn, "mnist", 10, (0.1, 0.2, 0.3), MNIST),
    "resnet": Subject(lambda: ResNet((1, 1, 1), width=16), "cifar10", 4, (4 / 255, 8 / 255), CIFAR),
    "mobilenet": Subject(lambda: MobileNet(10, width=8), "cifar10", 4, (4 / 255, 8 / 255), CIFAR),
    "digits": Subject(mlp, "digits", 30, (0.15,), (du.Linf(0.15), du.L2(0.6))),
}


def splits(name: str) -> tuple[du.Dataset, du.Dataset]:
    """Training and test rows."""
    if name != "digits":
        both = getattr(du.datasets, name)()
        return both.train, both.test
    x, y = load_digits(return_X_y=True)
    images = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    data = du.Dataset(images, y, name="digits")
    return data.take(slice(1000)), data.take(slice(1000, None))


def network(name: str, cache: Path, small: bool, seed: int = 0) -> nn.Module:
    """In eval mode and frozen: whoever attacks it computes no gradients of its weights.

    `seed` is the training's: another one is another network of the same kind.
    """
    subject = SUBJECTS[name]
    train, _ = splits(subject.data)
    epochs = 1 if small else subject.epochs
    if small:
        train = train.take(slice(64))
    net = fresh(subject.make, seed)
    other = f"-seed{seed}" if seed else ""
    cache.mkdir(parents=True, exist_ok=True)
    for part, eps in enumerate(subject.eps):
        how = Adversarial(CraftBy(du.PGD(5, step=0.5), du.Linf(eps))) if eps else Standard()
        file = cache / f"{name}-{epochs}-{part}{other}.pt"
        fit(net, train, how, epochs=epochs, seed=10 * seed + part, checkpoint=file)
    return net.eval().requires_grad_(False)
