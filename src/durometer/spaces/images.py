"""What the spaces of pictures share: a box of colours, and a region that is the picture itself.

What a reader would get wrong: there is no eps. Where a picture may change at all, every value of
the box is allowed, so the size that steps are measured in is the width of the box itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor

from durometer.core.devices import widest
from durometer.core.errors import DurometerError


def check_images(x: Tensor, low: float, high: float, what: str) -> None:
    """Refuse inputs that are no pictures, or lie outside the box of colours."""
    if x.ndim != 4:
        raise DurometerError(f"{what} needs images (n, channels, h, w); got x of {tuple(x.shape)}")
    if not low < high:
        raise DurometerError(f"{what}: low={low} must lie below high={high}")
    if bool((x < low).any()) or bool((x > high).any()):
        raise DurometerError(
            f"inputs lie in [{float(x.min()):g}, {float(x.max()):g}], outside the box "
            f"[{low:g}, {high:g}]; give the box of your data: {what}(..., low=, high=)"
        )


@dataclass(frozen=True, eq=False)
class ImageRegion:
    """Pictures in a box, row by row; z is x, flattened. Where they may differ is the subclass'."""

    origin: Tensor  # (n, D)
    shape: tuple[int, ...]
    low: float
    high: float
    p: ClassVar[float] = math.inf
    constrained: ClassVar[bool] = False

    @property
    def eps(self) -> float:
        return self.high - self.low

    def decode(self, z: Tensor) -> Tensor:
        return z.reshape(len(z), *self.shape)

    def encode(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def penalty(self, z: Tensor) -> Tensor:
        return z.new_zeros(len(z))

    def violation(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))

    def distance(self, x: Tensor) -> Tensor:
        wide = widest(self.origin.device)
        return (self.encode(x).to(wide) - self.origin.to(wide)).abs().amax(1)

    def take(self, rows: Tensor) -> Self:
        return replace(self, origin=self.origin[rows])
