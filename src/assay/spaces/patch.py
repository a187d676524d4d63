"""Patch and Rectangle: any colour, but only somewhere. What can be printed, worn or stuck on.

`Patch(mask)` changes the pixels of a fixed mask (eyeglasses on an aligned face). `Rectangle(h, w)`
changes one window of that size, wherever it hurts most: the sticker of Wu et al. (ICLR 2020).

What a reader would get wrong: there is no eps. Inside the mask every value of the box is allowed,
so the size that steps are measured in is the width of the box itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.errors import AssayError, nearest
from assay.spaces.masks import eyeglasses
from assay.spaces.region import per_row
from assay.streams import Stream

MASKS: dict[str, Callable[[int, int], np.ndarray]] = {"eyeglasses": eyeglasses}


def _boxed(x: Tensor, low: float, high: float, what: str) -> None:
    if x.ndim != 4:
        raise AssayError(f"{what} needs images (n, channels, h, w); got x of {tuple(x.shape)}")
    if not low < high:
        raise AssayError(f"{what}: low={low} must lie below high={high}")
    if bool((x < low).any()) or bool((x > high).any()):
        raise AssayError(
            f"inputs lie in [{float(x.min()):g}, {float(x.max()):g}], outside the box "
            f"[{low:g}, {high:g}]; give the box of your data: {what}(..., low=, high=)"
        )


@dataclass(frozen=True, eq=False)
class Patch:
    """Images that differ from the clean one inside `mask` only, by any colour in [low, high].

    `mask` is an array (h, w) or (channels, h, w), the name "eyeglasses", or a function (h, w) ->
    array.

    >>> Patch("eyeglasses")
    Patch('eyeglasses')
    """

    mask: Any = "eyeglasses"
    low: float = 0.0
    high: float = 1.0

    def __repr__(self) -> str:
        name = getattr(self.mask, "__name__", None) or self.mask
        if not isinstance(name, str):
            name = f"{int(np.asarray(self.mask).astype(bool).sum())} pixels"
        box = "" if (self.low, self.high) == (0.0, 1.0) else f", low={self.low}, high={self.high}"
        return f"Patch({name!r}{box})"

    @property
    def in_words(self) -> str:
        """The threat as a sentence."""
        worn = isinstance(self.mask, str) and self.mask == "eyeglasses"
        inside = "the frame of a pair of eyeglasses" if worn else "a patch"
        return f"The attacker may change {inside} to any colours."

    def _mask(self, x: Tensor) -> Tensor:
        mask = self.mask
        if isinstance(mask, str):
            if mask not in MASKS:
                raise AssayError(f"no mask '{mask}'{nearest(mask, MASKS)}")
            mask = MASKS[mask]
        if callable(mask):
            mask = mask(*x.shape[2:])
        held = torch.as_tensor(np.asarray(mask)).bool().to(x.device)
        try:
            return held.expand(x.shape[1:]).reshape(1, -1)
        except RuntimeError:
            raise AssayError(
                f"Patch: the mask has shape {tuple(held.shape)}, the images {tuple(x.shape[1:])}; "
                "expected (h, w) or (channels, h, w)"
            ) from None

    def check(self, x: Tensor) -> None:
        _boxed(x, self.low, self.high, "Patch")
        if not bool(self._mask(x[:1]).any()):
            raise AssayError("Patch: the mask is empty, so nothing may change")

    def around(self, x: Tensor) -> PatchRegion:
        return PatchRegion(
            x.reshape(len(x), -1), tuple(x.shape[1:]), self._mask(x), self.low, self.high
        )


@dataclass(frozen=True, eq=False)
class PatchRegion:
    """The images that a mask allows, row by row; z is x, flattened."""

    origin: Tensor  # (n, D)
    shape: tuple[int, ...]
    mask: Tensor  # (1, D) bool
    low: float
    high: float
    p: float = math.inf
    constrained: bool = False

    @property
    def eps(self) -> float:
        return self.high - self.low

    def decode(self, z: Tensor) -> Tensor:
        return torch.where(self.mask, z, self.origin).reshape(len(z), *self.shape)

    def encode(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), -1)

    def project(self, z: Tensor) -> Tensor:
        return torch.where(self.mask, z.clamp(self.low, self.high), self.origin)

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        return z + per_row(step, z) * grad.sign() * self.mask

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        drawn = stream.uniform(rows, self.origin.shape[1], self.origin.dtype)
        return self.project(self.low + self.eps * drawn)

    def penalty(self, z: Tensor) -> Tensor:
        return z.new_zeros(len(z))

    def contains(self, x: Tensor) -> Tensor:
        z = self.encode(x)
        inside = (z >= self.low) & (z <= self.high)
        return (torch.where(self.mask, inside, z == self.origin)).all(1)

    def distance(self, x: Tensor) -> Tensor:
        return (self.encode(x).double() - self.origin.double()).abs().amax(1)

    def take(self, rows: Tensor) -> PatchRegion:
        return replace(self, origin=self.origin[rows])
