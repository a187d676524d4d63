"""An eps of its own for each channel of a picture, or each feature of a row.

A ball whose eps differ is a ball of one eps in other units: with s = eps / max(eps), a change d
is as large as the norm of d / s, and the ball's size is max(eps). So Linf allows |d_i| <= eps_i,
L2 sum (d_i / eps_i)^2 <= 1, and L1 sum |d_i| / eps_i <= 1. Search coordinates are z = x / s without
the features that may not change (eps 0); every attack and proof that works in a ball works there,
and distances are counted in the largest eps.

What a reader would get wrong: one number per channel belongs to the *first* axis of an input, not
to the last, as numpy would have it: a picture is (channels, height, width).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from durometer.core.devices import widest
from durometer.core.errors import DurometerError


def spread(value: Any, x: Tensor, name: str, dtype: torch.dtype | None = None) -> Tensor:
    """(1, D): a number, one number per channel or feature, or numbers in an input's own shape.

    >>> spread([1.0, 2.0], torch.zeros(1, 2, 1, 2), "eps")
    tensor([[1., 1., 2., 2.]])
    """
    shape = tuple(x.shape[1:])
    try:
        numbers = torch.as_tensor(value, dtype=dtype or x.dtype, device=x.device)
        if numbers.ndim == 1 and len(shape) > 1:
            if len(shape) < 3 or len(numbers) != shape[0]:
                raise ValueError
            numbers = numbers.reshape(-1, *[1] * (len(shape) - 1))
        # Contiguous: an expanded one is read element by element, four times slower.
        return numbers.expand(shape).reshape(1, -1).contiguous()
    except (RuntimeError, TypeError, ValueError):
        each = "no channels" if len(shape) == 2 else f"{shape[0] if shape else 0} "
        if len(shape) != 2:
            each += "features" if len(shape) < 2 else "channels"
        said = repr(value)
        raise DurometerError(
            f"{name}={said if len(said) < 120 else said[:117] + '...'}: expected one number, one "
            f"per channel or feature, or numbers of the shape {shape} of an input (it has {each})"
        ) from None


@dataclass(frozen=True, eq=False)
class Channels:
    """How the search coordinates of a ball are counted: x = z * scale, for the free features."""

    clean: Tensor  # (n, D): the rows in their own units
    shape: tuple[int, ...]  # of an input
    scale: Tensor  # (1, F): at most 1
    free: Tensor  # (F,): which features may change
    low: Tensor  # (1, D): the box in the inputs' own units
    high: Tensor

    @classmethod
    def of(cls, x: Tensor, eps: Tensor, low: Tensor, high: Tensor) -> Channels:
        """`eps` (1, D) in double precision, not all 0."""
        free = eps[0].nonzero()[:, 0]
        scale = (eps / eps.max())[:, free].to(x.dtype)
        return cls(x.reshape(len(x), -1), tuple(x.shape[1:]), scale, free, low, high)

    @property
    def canvas(self) -> tuple[int, ...]:
        """The shape of the free features: still a picture where whole channels are fixed."""
        if len(self.free) == self.clean.shape[1]:
            return self.shape
        pixels = math.prod(self.shape[1:])
        whole = self.free.reshape(-1, pixels) if len(self.free) % pixels == 0 else self.free[:0]
        first = whole[:, :1] if len(self.shape) == 3 else self.free[:0]
        steps = torch.arange(pixels, device=self.free.device)
        if len(first) and bool((whole == first + steps).all()) and not bool((first % pixels).any()):
            return (len(whole), *self.shape[1:])
        return (len(self.free),)

    def inwards(self, x: Tensor) -> Tensor:
        """(n, F): the search coordinates of flat inputs, or of a bound."""
        return x[:, self.free] / self.scale

    def outwards(self, z: Tensor, origin: Tensor) -> Tensor:
        """(n, D): the inputs; to the last bit the clean value where z is the origin's.

        Gradients pass straight through: only rounding is mended.
        """
        moved = z * self.scale
        with torch.no_grad():
            exact = moved.clamp(self.low[:, self.free], self.high[:, self.free])
            exact = torch.where(z == origin, self.clean[:, self.free], exact)
            mended = exact - moved
        moved = moved + mended
        if len(self.free) == self.clean.shape[1]:
            return moved
        return self.clean.index_copy(1, self.free, moved)

    def slope(self, gradient: Tensor) -> Tensor:
        """(n, F): a gradient by the inputs (n, D) as one by the search coordinates."""
        return gradient[:, self.free] * self.scale.to(gradient.dtype)

    def reached(self, z: Tensor) -> Tensor:
        """(n, D): inputs in double precision, as computed: for proofs."""
        moved = self._wide(self.clean).clone()
        moved[:, self.free] = self._wide(z) * self._wide(self.scale)
        return moved

    def apart(self, x: Tensor) -> Tensor:
        """(n, F): the change, in search units, as precisely as the device can."""
        change = self._wide(x) - self._wide(self.clean)
        return change[:, self.free] / self._wide(self.scale)

    def kept(self, x: Tensor) -> Tensor:
        """(n,) bool: inside the box, and what may not change did not."""
        boxed = ((x >= self.low) & (x <= self.high)).all(1)
        fixed = torch.ones(x.shape[1], dtype=torch.bool, device=x.device)
        fixed[self.free] = False
        return boxed & (x == self.clean)[:, fixed].all(1)

    def rounding(self, p: float) -> Tensor:
        """(n,): what the rounding of the inputs themselves can add to a distance."""
        unit = torch.finfo(self.clean.dtype).eps * self._wide(self.clean.abs().amax(1))
        each: Tensor = torch.linalg.vector_norm(1 / self._wide(self.scale), p, dim=1)
        return unit * each

    def box(self, eps: float, p: float) -> tuple[Tensor, Tensor]:
        """(n, D) lowest and highest values of any point of the ball, in the inputs' own units."""
        clean, scale = self._wide(self.clean), self._wide(self.scale)
        unit = torch.finfo(self.clean.dtype).eps * clean.abs().amax(1, keepdim=True)
        if p != math.inf:
            unit = self.rounding(p)[:, None] * scale
        reach = torch.zeros_like(clean)
        reach[:, self.free] = eps * (1 + 1e-6) * scale + unit
        low = self._wide(self.low).maximum(clean - reach).minimum(clean)
        return low, self._wide(self.high).minimum(clean + reach).maximum(clean)

    def _wide(self, x: Tensor) -> Tensor:
        return x.to(widest(x.device))

    def take(self, rows: Tensor) -> Channels:
        return replace(self, clean=self.clean[rows])
