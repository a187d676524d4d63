"""Corruptions of images in [0, 1]: what a camera and the weather do, in five severities.

After Hendrycks & Dietterich (2019), whose CIFAR-10-C is a set of files; these are functions of
their own, so figures are of the same kind and not the same numbers. Each is a pure function of
(images, severity, seed).

>>> import torch
>>> corrupted(torch.full((2, 3, 8, 8), 0.5), "contrast", 3).shape
torch.Size([2, 3, 8, 8])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from durometer.core.errors import DurometerError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from durometer.data.dataset import Dataset


def corrupted(x: Tensor, kind: str, severity: int = 3, seed: int = 0) -> Tensor:
    """Images under one corruption, after Hendrycks & Dietterich (2019); not the files of
    CIFAR-10-C.

    Args:
        x: Images (n, c, h, w) in [0, 1].
        kind: "noise", "shot", "impulse", "blur", "pixelate", "contrast", "brightness" or "fog".
        severity: From 1 to 5.
        seed: Seed of the random corruptions.

    Returns:
        Images of the same shape, in [0, 1].

    Raises:
        DurometerError: There is no such corruption or severity.

    >>> import torch
    >>> x = torch.tensor([0.2, 0.8]).repeat(1, 1, 8, 4)
    >>> [round(float(corrupted(x, "contrast", s).std()), 2) for s in (1, 3, 5)]
    [0.23, 0.12, 0.05]
    """
    if kind not in CORRUPTIONS:
        raise DurometerError(f"no corruption '{kind}'{nearest(kind, CORRUPTIONS)}")
    if severity not in range(1, 6):
        raise DurometerError(f"severity={severity!r}: expected 1..5")
    change, sizes = CORRUPTIONS[kind]
    return change(x, sizes[severity - 1], seed).clamp(0, 1)


def stream(
    data: Dataset,
    kinds: list[str] | None = None,
    severity: int = 3,
    order: str = "continual",
    mixing: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Rows as a stream of corruptions, in the orders that test-time methods are tested in.

    Args:
        data: Images in [0, 1].
        kinds: The corruptions. None: all.
        severity: From 1 to 5.
        order: "continual" (one corruption after the other, each on all rows), "mixed" (each row
            once, under a corruption of its own) or "correlated" (each row once, uncorrupted, in
            runs of classes).
        mixing: For "correlated": concentration of the Dirichlet shares; lower is more correlated.
        seed: Seed of all draws.

    Returns:
        The stream, as a data set.

    Raises:
        DurometerError: There is no such order or corruption.

    >>> from durometer.datasets import mnist
    >>> stream(mnist().test.sample(10), ["noise", "blur"]).ids[[0, 10]].tolist()
    ['2206/noise', '2206/blur']
    """
    import numpy as np
    import torch

    kinds = list(CORRUPTIONS) if kinds is None else kinds
    rng = np.random.default_rng(seed)
    if order == "continual":
        x = torch.cat([corrupted(data.x, kind, severity, seed) for kind in kinds])
        ids = np.concatenate([[f"{i}/{kind}" for i in data.ids] for kind in kinds])
        return replace(data, x=x, y=data.y.repeat(len(kinds)), ids=ids)
    if order == "mixed":
        own = rng.integers(0, len(kinds), len(data))
        x = data.x.clone()
        for k, kind in enumerate(kinds):
            rows = torch.as_tensor(np.flatnonzero(own == k))
            x[rows] = corrupted(data.x[rows], kind, severity, seed)
        return replace(data, x=x)
    if order != "correlated":
        raise DurometerError(f"order={order!r}: expected 'continual', 'mixed' or 'correlated'")
    classes = np.unique(data.y.numpy())
    slots = max(1, len(classes))
    places = np.zeros(len(data))
    for c in classes:
        mine = np.flatnonzero(data.y.numpy() == c)
        shares = rng.dirichlet(np.full(slots, mixing))
        slot = np.repeat(np.arange(slots), rng.multinomial(len(mine), shares))
        places[mine] = slot + (c + rng.random(len(mine))) / (len(classes) + 1)
    return data.take(np.argsort(places, kind="stable"))


def _noise(x: Tensor, size: float, seed: int) -> Tensor:
    return x + size * _normal(x, seed)


def _shot(x: Tensor, size: float, seed: int) -> Tensor:
    """Photons: noise that grows with the square root of the light."""
    return x + (x / size).sqrt() * _normal(x, seed)


def _impulse(x: Tensor, size: float, seed: int) -> Tensor:
    import torch

    drawn = torch.special.ndtr(_normal(x, seed))
    return torch.where(drawn < size / 2, 0.0, torch.where(drawn > 1 - size / 2, 1.0, x))


def _blur(x: Tensor, size: float, seed: int) -> Tensor:
    import torch
    from torch.nn.functional import conv2d, pad

    reach = max(1, round(3 * size))
    line = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=x.dtype) / size).square())
    line = (line / line.sum()).expand(x.shape[1], 1, 1, -1)
    wide = pad(x, (reach, reach, reach, reach), mode="replicate")
    blurred: Tensor = conv2d(wide, line, groups=x.shape[1])
    return conv2d(blurred, line.transpose(2, 3), groups=x.shape[1])


def _pixelate(x: Tensor, size: float, seed: int) -> Tensor:
    """Towards blocks of four by four pixels, `size` of the way."""
    from torch.nn.functional import interpolate

    small = interpolate(x, scale_factor=0.25, mode="area")
    return x + size * (interpolate(small, size=x.shape[2:], mode="nearest") - x)


def _contrast(x: Tensor, size: float, seed: int) -> Tensor:
    middle = x.mean((2, 3), keepdim=True)
    return (x - middle) * size + middle


def _brightness(x: Tensor, size: float, seed: int) -> Tensor:
    return x + size


def _fog(x: Tensor, size: float, seed: int) -> Tensor:
    """Light that varies slowly over the picture, and less contrast under it."""
    from torch.nn.functional import interpolate

    cloud = interpolate(_normal(x[:, :1, :4, :4], seed), size=x.shape[2:], mode="bicubic")
    cloud = cloud - cloud.amin((2, 3), keepdim=True)
    return (x + size * cloud) / (1 + size * cloud.amax((2, 3), keepdim=True))


def _normal(x: Tensor, seed: int) -> Tensor:
    import torch

    from durometer.core.streams import Stream

    rows = torch.arange(len(x))
    drawn = Stream(seed, rows).normal(rows, x[0].numel(), x.dtype)
    return drawn.reshape(x.shape)


CORRUPTIONS: dict[str, tuple[Callable[[Tensor, float, int], Tensor], tuple[float, ...]]] = {
    "noise": (_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot": (_shot, (500.0, 250.0, 100.0, 75.0, 50.0)),
    "impulse": (_impulse, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "blur": (_blur, (0.4, 0.6, 0.8, 1.0, 1.4)),
    "pixelate": (_pixelate, (0.2, 0.4, 0.6, 0.8, 1.0)),
    "contrast": (_contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "brightness": (_brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "fog": (_fog, (0.1, 0.2, 0.3, 0.4, 0.6)),
}
