"""Quantised: any image space, but only images that can be stored: 256 levels of brightness.

An attack searches as before; `decode` rounds to the nearest level, so the referee judges the image
that would really be handed in, and gradients pass straight through the rounding.

What a reader would get wrong: rounding to nearest can leave the region (an L2 ball, or an eps
between levels). Such rows are drawn towards the clean image until their rounded form is inside.
Rounding towards zero, the usual cure, costs up to a tenth of the successes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from durometer.core import serialization
from durometer.core.capabilities import description_of
from durometer.core.devices import is_cpu
from durometer.core.errors import DurometerError
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.spaces.region import Region, Space, per_row, widened

_SHRINK = (0.98, 0.95, 0.9, 0.8, 0.6, 0.3, 0.0)


@noun(eq=False)
class Quantised:
    """Another image space, restricted to images that can be stored with a few levels of brightness.

    Attacks search as in the inner space; every candidate is rounded to the nearest level before it
    is judged, and gradients pass through the rounding unchanged.

    Args:
        inner: The space before rounding, e.g. `Linf(8 / 255)`; its `low` and `high` must be single
            numbers.
        levels: Number of levels from `low` to `high`; 256 for 8-bit images. The clean inputs must
            lie on them.

    >>> import torch
    >>> import durometer as du
    >>> region = du.Quantised(du.Linf(8 / 255)).around(torch.zeros(1, 1, 1, 1))
    >>> [region.contains(torch.full((1, 1, 1, 1), v)).item() for v in (3 / 255, 3.5 / 255)]
    [True, False]
    """

    inner: Space
    levels: int = field(default=256, metadata={"least": 2})

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __repr__(self) -> str:
        levels = "" if self.levels == 256 else f", levels={self.levels}"
        return f"Quantised({self.inner!r}{levels})"

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        inner = description_of(self.inner) or ""
        return f"{inner} Pictures are stored with {self.levels} levels.".strip()

    @property
    def norm(self) -> float | None:
        """The p of the inner space."""
        return self.inner.norm

    @property
    def low(self) -> float:
        """The lowest level."""
        return self._end("low")

    @property
    def high(self) -> float:
        """The highest level."""
        return self._end("high")

    def _end(self, name: str) -> float:
        value = getattr(self.inner, name, None)
        if not isinstance(value, int | float):
            raise DurometerError(
                f"Quantised needs a space with one number for {name}=; got {self!r}"
            )
        return float(value)

    def check(self, x: Tensor) -> None:
        self.inner.check(x)
        if self.levels < 2:
            raise DurometerError(f"Quantised(levels={self.levels}): expected at least 2")
        off = (x != snap(x, self.low, self.high, self.levels)).flatten(1).any(1)
        if bool(off.any()):
            raise DurometerError(
                f"{int(off.sum())} of {len(x)} clean inputs are not on the grid of {self.levels} "
                f"levels from {self.low:g} to {self.high:g}; quantise the data first, e.g. "
                "(x * 255).round() / 255"
            )

    def around(self, x: Tensor) -> QuantisedRegion:
        return QuantisedRegion(self.inner.around(x), (self.low, self.high), self.levels)


def snap(x: Tensor, low: float, high: float, levels: int) -> Tensor:
    """The nearest level of every value."""
    scale = (levels - 1) / (high - low)
    if low == 0.0 and high == 1.0:
        return (x * (levels - 1)).round() / (levels - 1)  # as bytes / 255 are made: to the last bit
    return ((x - low) * scale).round() / scale + low


@dataclass(frozen=True, eq=False)
class QuantisedRegion:
    """Another region, seen through a grid."""

    inner: Region
    ends: tuple[float, float]  # of the grid
    levels: int

    def __getattr__(self, name: str) -> Any:
        """What only balls have and their attacks ask for: `shape`, the box, the corners."""
        if name in ("shape", "low", "high", "corners"):
            return getattr(self.inner, name)
        raise AttributeError(name)

    @property
    def origin(self) -> Tensor:
        return self.inner.origin

    @property
    def eps(self) -> float:
        return self.inner.eps

    @property
    def p(self) -> float:
        return self.inner.p

    @property
    def constrained(self) -> bool:
        return self.inner.constrained

    def decode(self, z: Tensor) -> Tensor:
        x = self.inner.decode(z)
        return x + (self._snapped(z.detach(), x.detach()) - x).detach()

    def _snapped(self, z: Tensor, x: Tensor) -> Tensor:
        q = snap(x, *self.ends, self.levels)
        outside = ~self.inner.contains(q)
        if not is_cpu(q.device):  # where asking which rows are outside costs more than all of it
            for share in _SHRINK:
                nearer = self.inner.decode(self.origin + share * (z - self.origin))
                nearer = snap(nearer, *self.ends, self.levels)
                q = torch.where(per_row(outside, q), nearer, q)
                outside = outside & ~self.inner.contains(nearer)
            return q
        for share in _SHRINK:
            if not bool(outside.any()):
                break
            rows = outside.nonzero()[:, 0]
            part = self.inner.take(rows)
            nearer = part.decode(part.origin + share * (z[rows] - part.origin))
            q[rows] = snap(nearer, *self.ends, self.levels)
            outside[rows] = ~part.contains(q[rows])
        return q

    def encode(self, x: Tensor) -> Tensor:
        return self.inner.encode(x)

    def project(self, z: Tensor) -> Tensor:
        return self.inner.project(z)

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        return self.inner.ascend(z, grad, step)

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        return self.inner.random(stream, rows)

    def penalty(self, z: Tensor) -> Tensor:
        return self.inner.penalty(z)

    def violation(self, x: Tensor) -> Tensor:
        return self.inner.violation(x)

    def contains(self, x: Tensor) -> Tensor:
        level = (x == snap(x, *self.ends, self.levels)).flatten(1).all(1)
        return level & self.inner.contains(x)

    def distance(self, x: Tensor) -> Tensor:
        return self.inner.distance(x)

    def box(self) -> tuple[Tensor, Tensor]:
        """The levels inside the inner region's box."""
        low, high = self.inner.box()
        start, step = self.ends[0], (self.ends[1] - self.ends[0]) / (self.levels - 1)
        inward = 1e-6  # of a level: what rounding may have added
        stored = 1.2e-7 * max(1.0, *map(abs, self.ends))  # levels of float32 pictures
        low = start + ((low - start) / step - inward).ceil() * step - stored
        high = start + ((high - start) / step + inward).floor() * step + stored
        origin = self.inner.decode(self.origin).double()
        return low.minimum(origin), high.maximum(origin)

    def wider(self) -> Region:
        """The inner region, wider where it knows how: between the levels, too."""
        return widened(self.inner)

    def take(self, rows: Tensor) -> QuantisedRegion:
        return replace(self, inner=self.inner.take(rows))
