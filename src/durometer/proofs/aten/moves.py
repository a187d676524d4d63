"""Numbers that change places: views, slices, permutations, padding, joining. Nothing is computed.

An operation of this kind is executed once, on the places of its input instead of its numbers; what
comes out says where every number came from, whatever the arguments were.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from durometer.proofs.aten.program import Affine, Bound, join


@dataclass(frozen=True, eq=False)
class Move(Affine):
    """Abstract: exact, and free of arithmetic."""

    @property
    def terms(self) -> int:
        return 0

    def interval(self, *taken: Bound) -> Bound:
        return self.apply(*(t[0] for t in taken)), self.apply(*(t[1] for t in taken))


@dataclass(frozen=True, eq=False)
class Reshape(Move):
    """The same numbers in the same order."""

    source: tuple[int, ...]

    def apply(self, *values: Tensor) -> Tensor:
        return values[0].reshape(len(values[0]), *self.shape)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (weight.reshape(len(weight), *self.source),)

    def spread(self, *radii: Tensor) -> Tensor:
        return self.apply(*radii)

    def rows(self, *ids: Tensor) -> Tensor:
        return ids[0].reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Gather(Move):
    """Number j of the result is number `index[j]` of the input, or `fill` where that is -1."""

    source: tuple[int, ...]
    index: Tensor  # (numbers of the result,)
    fill: float

    @cached_property
    def padding(self) -> tuple[int, int] | None:
        """Zeros above and to the left, where it puts a map (1, C, H, W) between zeros."""
        if len(self.source) != 4 or len(self.shape) != 4 or self.fill:
            return None
        first = (self.index == 0).nonzero()[:, 0]
        if len(first) != 1 or self.source[:2] != self.shape[:2]:
            return None
        top, left = divmod(int(first) % (self.shape[2] * self.shape[3]), self.shape[3])
        rest = (self.shape[3] - left - self.source[3], self.shape[2] - top - self.source[2])
        places = torch.arange(len(self.index.new_empty(self.source).flatten())) + 1
        wanted = functional.pad(places.reshape(self.source), (left, rest[0], top, rest[1]))
        same = wanted.shape == self.shape and bool((wanted.flatten() - 1 == self.index).all())
        return (top, left) if same else None

    def apply(self, *values: Tensor) -> Tensor:
        flat = values[0].reshape(len(values[0]), -1)
        out = flat[:, self.index.clamp_min(0)]
        out = torch.where(self.index < 0, self.fill, out) if bool((self.index < 0).any()) else out
        return out.reshape(len(flat), *self.shape)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        flat = weight.reshape(len(weight), -1)
        there = self.index >= 0
        if not bool(there.all()):
            flat = flat[:, there]
        size = int(torch.tensor(self.source).prod())
        out = weight.new_zeros(len(weight), size).index_add(1, self.index[there], flat)
        return (out.reshape(len(weight), *self.source),)

    def constant(self) -> Tensor | None:
        if not self.fill or not bool((self.index < 0).any()):
            return None
        return torch.where(self.index < 0, self.fill, 0.0).double().reshape(self.shape)

    def spread(self, *radii: Tensor) -> Tensor:
        flat = radii[0].reshape(len(radii[0]), -1)
        out = torch.where(self.index < 0, 0.0, flat[:, self.index.clamp_min(0)])
        return out.reshape(len(flat), *self.shape)

    def rows(self, *ids: Tensor) -> Tensor:
        out = torch.where(self.index < 0, -1, ids[0].flatten()[self.index.clamp_min(0)])
        return out.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Concatenate(Move):
    """Several values side by side along an axis of theirs."""

    axis: int
    sizes: tuple[int, ...]

    def apply(self, *values: Tensor) -> Tensor:
        return torch.cat(values, self.axis + 1)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return torch.split(weight, list(self.sizes), self.axis + 1)

    def spread(self, *radii: Tensor) -> Tensor:
        return self.apply(*radii)

    def rows(self, *ids: Tensor) -> Tensor:
        return torch.cat(ids, self.axis)


@dataclass(frozen=True, eq=False)
class Constant(Move):
    """Numbers that do not depend on the input."""

    value: Tensor  # float64, of `shape`

    def apply(self, *values: Tensor) -> Tensor:
        return self.value[None]

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return ()

    def constant(self) -> Tensor | None:
        return self.value

    def interval(self, *taken: Bound) -> Bound:
        return self.value[None], self.value[None]

    def spread(self, *radii: Tensor) -> Tensor:
        return torch.zeros_like(self.value)[None]

    def rows(self, *ids: Tensor) -> Tensor:
        return torch.full(self.shape, -1)


@dataclass(frozen=True, eq=False)
class Cast(Affine):
    """Another floating type: rounded once, where it is a coarser one."""

    coarser: bool

    def apply(self, *values: Tensor) -> Tensor:
        return values[0]

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (weight,)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return sizes[0]

    def spread(self, *radii: Tensor) -> Tensor:
        return radii[0]

    @property
    def terms(self) -> int:
        return int(self.coarser)

    def interval(self, *taken: Bound) -> Bound:
        return taken[0]

    def rows(self, *ids: Tensor) -> Tensor:
        return join(self.place, *ids)
