"""Patch: any colour, but only inside a fixed mask. What can be printed and worn: eyeglasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core import serialization
from durometer.core.errors import DurometerError, nearest
from durometer.core.streams import Stream
from durometer.core.validation import SIGNED, noun
from durometer.spaces.images import ImageRegion, check_images
from durometer.spaces.masks import eyeglasses
from durometer.spaces.region import per_row

MASKS: dict[str, Callable[[int, int], np.ndarray]] = {"eyeglasses": eyeglasses}


@noun(eq=False)
class Patch:
    """Images that differ from the clean one inside a fixed mask only, by any colours.

    Args:
        mask: Where the image may change: an array (height, width) or (channels, height, width), the
            name "eyeglasses" (the frame of Sharif et al., 2016; see `masks.eyeglasses`), or a
            function of height and width that returns an array.
        low: Lowest allowed value of a pixel.
        high: Highest allowed value of a pixel.

    >>> import torch
    >>> import durometer as du
    >>> corner = du.Patch([[True, False], [False, False]])
    >>> region = corner.around(torch.zeros(1, 1, 2, 2))
    >>> tried = torch.tensor([[[[[1.0, 0], [0, 0]]]], [[[[0, 1], [0, 0]]]]])
    >>> [region.contains(x).item() for x in tried]
    [True, False]
    """

    mask: Any = "eyeglasses"
    low: float = field(default=0.0, metadata=SIGNED)
    high: float = field(default=1.0, metadata=SIGNED)
    norm: ClassVar[None] = None  # no ball: any colour

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __repr__(self) -> str:
        name = getattr(self.mask, "__name__", None) or self.mask
        if not isinstance(name, str):
            name = f"{int(np.asarray(self.mask).astype(bool).sum())} pixels"
        box = "" if (self.low, self.high) == (0.0, 1.0) else f", low={self.low}, high={self.high}"
        return f"Patch({name!r}{box})"

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        worn = isinstance(self.mask, str) and self.mask == "eyeglasses"
        inside = "the frame of a pair of eyeglasses" if worn else "a patch"
        return f"The attacker may change {inside} to any colours."

    def _mask(self, x: Tensor) -> Tensor:
        mask = self.mask
        if isinstance(mask, str):
            if mask not in MASKS:
                raise DurometerError(f"no mask '{mask}'{nearest(mask, MASKS)}")
            mask = MASKS[mask]
        if callable(mask):
            mask = mask(*x.shape[2:])
        held = torch.as_tensor(np.asarray(mask)).bool().to(x.device)
        try:
            return held.expand(x.shape[1:]).reshape(1, -1)
        except RuntimeError:
            raise DurometerError(
                f"Patch: the mask has shape {tuple(held.shape)}, the images {tuple(x.shape[1:])}; "
                "expected (h, w) or (channels, h, w)"
            ) from None

    def check(self, x: Tensor) -> None:
        check_images(x, self.low, self.high, "Patch")
        if not bool(self._mask(x[:1]).any()):
            raise DurometerError("Patch: the mask is empty, so nothing may change")

    def around(self, x: Tensor) -> PatchRegion:
        return PatchRegion(
            x.reshape(len(x), -1), tuple(x.shape[1:]), self.low, self.high, self._mask(x)
        )


@dataclass(frozen=True, eq=False)
class PatchRegion(ImageRegion):
    """The images that a mask allows."""

    mask: Tensor  # (1, D) bool

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(torch.where(self.mask, z, self.origin))

    def project(self, z: Tensor) -> Tensor:
        return torch.where(self.mask, z.clamp(self.low, self.high), self.origin)

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        return z + per_row(step, z) * grad.sign() * self.mask

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        drawn = stream.uniform(rows, self.origin.shape[1], self.origin.dtype)
        return self.project(self.low + self.eps * drawn)

    def contains(self, x: Tensor) -> Tensor:
        z = self.encode(x)
        inside = (z >= self.low) & (z <= self.high)
        return (torch.where(self.mask, inside, z == self.origin)).all(1)

    def inside(self, change: Tensor) -> Tensor:
        """(n, D) bool: where a change may be, whatever it is."""
        return self.mask.expand_as(change)

    def wider(self) -> PatchRegion:
        """All pictures."""
        return replace(self, mask=torch.ones_like(self.mask))

    def box(self) -> tuple[Tensor, Tensor]:
        low, high = (
            torch.where(self.mask, torch.full_like(self.origin, side), self.origin)
            for side in (self.low, self.high)
        )
        return self.decode(low), self.decode(high)
