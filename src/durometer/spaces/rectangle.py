"""Rectangle: one opaque window of free place and content, the sticker of Wu et al. (ICLR 2020).

The region finds the place itself: `project` keeps the window that holds most of the change."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from durometer.core.devices import widest
from durometer.core.errors import DurometerError
from durometer.core.streams import Stream
from durometer.core.validation import SIGNED, noun
from durometer.spaces.images import ImageRegion, check_images
from durometer.spaces.region import per_row


@noun
class Rectangle:
    """Images that differ from the clean one inside one rectangular window of any place and content
    (Wu et al., ICLR 2020).

    Args:
        height: Height of the window, in pixels.
        width: Width of the window, in pixels.
        low: Lowest allowed value of a pixel.
        high: Highest allowed value of a pixel.

    >>> import torch
    >>> import durometer as du
    >>> region = du.Rectangle(1, 2).around(torch.zeros(1, 1, 2, 2))
    >>> tried = torch.tensor([[[[[1.0, 1], [0, 0]]]], [[[[1, 0], [0, 1]]]]])
    >>> [region.contains(x).item() for x in tried]
    [True, False]
    """

    height: int
    width: int
    low: float = field(default=0.0, metadata=SIGNED)
    high: float = field(default=1.0, metadata=SIGNED)
    norm: ClassVar[None] = None  # no ball: any colour

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        return (
            f"The attacker may change one window of {self.height} x {self.width} pixels, anywhere, "
            "to any colours."
        )

    def check(self, x: Tensor) -> None:
        check_images(x, self.low, self.high, "Rectangle")
        if not (1 <= self.height <= x.shape[2] and 1 <= self.width <= x.shape[3]):
            raise DurometerError(
                f"Rectangle({self.height}, {self.width}) does not fit into images of "
                f"{x.shape[2]} x {x.shape[3]}"
            )

    def around(self, x: Tensor) -> RectangleRegion:
        flat = x.reshape(len(x), -1)
        size = (self.height, self.width)
        return RectangleRegion(flat, tuple(x.shape[1:]), self.low, self.high, size)


@dataclass(frozen=True, eq=False)
class RectangleRegion(ImageRegion):
    """One free window per image. A row that has not changed yet has no window."""

    size: tuple[int, int]

    def energy(self, values: Tensor) -> Tensor:
        """(n, rows, columns): sum of squares of `values` (n, D) in the window at each corner."""
        planes = values.reshape(len(values), *self.shape).square().sum(1, keepdim=True)
        area = self.size[0] * self.size[1]
        return avg_pool2d(planes.to(widest(planes.device)), self.size, stride=1)[:, 0] * area

    def window(self, corner: Tensor) -> Tensor:
        """(n, D) bool: the window whose corner has this place among the corners of `energy`."""
        h, w = self.shape[1:]
        columns = w - self.size[1] + 1
        top, left = (corner // columns)[:, None], (corner % columns)[:, None]
        y, x = torch.arange(h, device=corner.device), torch.arange(w, device=corner.device)
        tall = (y >= top) & (y < top + self.size[0])
        wide = (x >= left) & (x < left + self.size[1])
        window = (tall[:, :, None] & wide[:, None, :])[:, None]
        return window.expand(-1, self.shape[0], -1, -1).reshape(len(corner), -1)

    def _strongest(self, values: Tensor) -> Tensor:
        return self.window(self.energy(values).flatten(1).argmax(1))

    def inside(self, change: Tensor) -> Tensor:
        """(n, D) bool: the window that holds most of a change."""
        return self._strongest(change)

    def project(self, z: Tensor) -> Tensor:
        """Keep the window that holds most of the change."""
        z = z.clamp(self.low, self.high)
        return torch.where(self._strongest(z - self.origin), z, self.origin)

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        """A step inside the row's window; a row without one gets that of the largest gradient."""
        change = z - self.origin
        where = self._strongest(torch.where((change != 0).any(1, keepdim=True), change, grad))
        return z + per_row(step, z) * grad.sign() * where

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        corners = math.prod(s - k + 1 for s, k in zip(self.shape[1:], self.size, strict=True))
        where = self.window(stream.integers(rows, 1, corners)[:, 0])
        drawn = stream.uniform(rows, self.origin.shape[1], self.origin.dtype)
        return torch.where(where, self.low + self.eps * drawn, self.origin)

    def contains(self, x: Tensor) -> Tensor:
        z = self.encode(x)
        boxed = ((z >= self.low) & (z <= self.high)).all(1)
        changed = (x.reshape(len(x), *self.shape) != self.decode(self.origin)).any(1)  # (n, h, w)
        return (
            boxed
            & (_extent(changed.any(2)) <= self.size[0])
            & (_extent(changed.any(1)) <= self.size[1])
        )

    def box(self) -> tuple[Tensor, Tensor]:
        """Every pixel may be the one that the window covers: all of them, wide open."""
        return tuple(  # type: ignore[return-value]
            self.decode(torch.full_like(self.origin, side)) for side in (self.low, self.high)
        )


def _extent(marks: Tensor) -> Tensor:
    """(n,): from the first mark of each row to the last, 0 without any."""
    place = torch.arange(marks.shape[1], device=marks.device)
    first = place.masked_fill(~marks, marks.shape[1]).amin(1)
    last = place.masked_fill(~marks, -1).amax(1)
    return (last - first + 1).clamp_min(0)
