"""The networks of `lp_strength.py`. `Cascade` was tuned on "adversarial" and "digits".

All are trained on the bundled samples, on the first call (some CPU minutes), and read on the next:

    standard, adversarial    CNN on MNIST, as usual and against PGD in Linf 0.1, 0.2, 0.3 in turn
    resnet, mobilenet        on CIFAR-10's sample, against PGD in Linf 4/255 and 8/255
    digits                   two hidden layers on scikit-learn's 8 x 8 digits, against Linf 0.15

Those of `UNTUNED` played no part in any tuning (see `untuned.py` for what they are):

    kwta jpeg thermometer softmax30    on "adversarial", behind or before what spoils gradients
    distilled fgsm pairing vit mixer   MNIST, each trained in its own way
    halves pairs                       two and a hundred classes
    groupnorm gtsrb                    a ResNet on CIFAR-10's sample; 43 traffic signs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import untuned
from sklearn.datasets import load_digits
from torch import nn

import durometer as du
from durometer.architectures.images.mobilenet import MobileNet
from durometer.architectures.images.resnet import ResNet
from durometer.training import Adversarial, CraftBy, Recipe, Standard, fit, fresh


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
    base: str = ""  # trained as this one, then wrapped by `make`
    recipe: Recipe | None = None  # how it is trained, where not by `eps`
    rate: float = 1e-3


MNIST = (du.Linf(0.2), du.Linf(0.3), du.L2(1.5))
CIFAR = (du.Linf(8 / 255), du.L2(0.5))
SUBJECTS = {
    "standard": Subject(cnn, "mnist", 10, (0.0,), MNIST),
    "adversarial": Subject(cnn, "mnist", 10, (0.1, 0.2, 0.3), MNIST),
    "resnet": Subject(lambda: ResNet((1, 1, 1), width=16), "cifar10", 4, (4 / 255, 8 / 255), CIFAR),
    "mobilenet": Subject(lambda: MobileNet(10, width=8), "cifar10", 4, (4 / 255, 8 / 255), CIFAR),
    "digits": Subject(mlp, "digits", 30, (0.15,), (du.Linf(0.15), du.L2(0.6))),
}


SMALL = (du.Linf(0.1), du.L2(1.0), du.L1(5.0))
HARD = (du.Linf(0.2), du.L2(1.5), du.L1(8.0))
SIGNS = (du.Linf(2 / 255), du.L2(0.25), du.L1(4.0))
CRAFT = CraftBy(du.FGSM(), du.Linf(0.2))
UNTUNED = {
    "kwta": Subject(cnn, "mnist", 10, (), HARD, "adversarial"),
    "jpeg": Subject(cnn, "mnist", 10, (), HARD, "adversarial"),
    "softmax30": Subject(cnn, "mnist", 10, (), HARD, "adversarial"),
    "thermometer": Subject(untuned.Thermometer, "mnist", 10, (0.0,), SMALL),
    "distilled": Subject(untuned.Distilled, "mnist", 10, (0.0,), SMALL),
    "fgsm": Subject(cnn, "mnist", 10, (0.2,), HARD, recipe=Adversarial(CRAFT)),
    "pairing": Subject(cnn, "mnist", 10, (0.2,), HARD, recipe=untuned.Pairing(CRAFT)),
    "vit": Subject(untuned.ViT, "mnist", 10, (0.0,), SMALL),
    "mixer": Subject(untuned.Mixer, "mnist", 10, (0.0,), SMALL),
    "halves": Subject(lambda: nn.Sequential(cnn(), nn.Linear(10, 2)), "halves", 10, (0.1,), SMALL),
    "pairs": Subject(untuned.wide, "pairs", 15, (0.0,), SMALL),
    "groupnorm": Subject(untuned.groupnorm, "cifar10", 8, (0.0,), SIGNS),
    "gtsrb": Subject(untuned.signs, "gtsrb", 15, (0.0,), SIGNS),
}


def splits(name: str) -> tuple[du.Dataset, du.Dataset]:
    """Training and test rows."""
    if name in untuned.DATA:
        return untuned.DATA[name]()
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
    subject = SUBJECTS.get(name) or UNTUNED[name]
    if subject.base:
        wrapped = untuned.wrap(name, network(subject.base, cache, small, seed))
        return wrapped.eval().requires_grad_(False)
    train, _ = splits(subject.data)
    epochs = 1 if small else subject.epochs
    if small:
        train = train.take(slice(64))
    net = fresh(subject.make, seed)
    other = f"-seed{seed}" if seed else ""
    cache.mkdir(parents=True, exist_ok=True)
    for part, eps in enumerate(subject.eps):
        how = Adversarial(CraftBy(du.PGD(5, step=0.5), du.Linf(eps))) if eps else Standard()
        how = subject.recipe or how
        file = cache / f"{name}-{epochs}-{part}{other}.pt"
        fit(net, train, how, epochs=epochs, seed=10 * seed + part, checkpoint=file,
            rate=subject.rate)  # fmt: skip
    return net.eval().requires_grad_(False)
