"""Linear layers, convolutions, sums, means, scaling, adding: fixed linear maps and a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from durometer.proofs.aten.program import Affine, join, reduced


@dataclass(frozen=True, eq=False)
class Linear(Affine):
    """x W' + b over the last axis."""

    weight: Tensor  # (out, in) float64
    bias: Tensor | None  # broadcast to `shape`

    def apply(self, *values: Tensor) -> Tensor:
        out = functional.linear(values[0], self.weight)
        return out if self.bias is None else out + self.bias

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (weight @ self.weight,)

    def constant(self) -> Tensor | None:
        return self.bias

    def magnitude(self, *sizes: Tensor) -> Tensor:
        out = functional.linear(sizes[0], self.weight.abs())
        return out if self.bias is None else out + self.bias.abs()

    def spread(self, *radii: Tensor) -> Tensor:
        return functional.linear(radii[0], self.weight.abs())

    @property
    def terms(self) -> int:
        return self.weight.shape[1] + 2

    def rows(self, *ids: Tensor) -> Tensor:
        return reduced(self.place, ids[0], (-1,), True).expand(self.shape)


@dataclass(frozen=True, eq=False)
class MatrixProduct(Affine):
    """M x, or x M, with a fixed matrix (or a stack of them) on one side."""

    matrix: Tensor  # (..., i, k) on the left, (..., k, j) on the right
    left: bool

    def _times(self, matrix: Tensor, value: Tensor) -> Tensor:
        return matrix @ value if self.left else value @ matrix

    def apply(self, *values: Tensor) -> Tensor:
        return self._times(self.matrix, values[0])

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (self._times(self.matrix.transpose(-1, -2), weight),)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return self._times(self.matrix.abs(), sizes[0])

    def spread(self, *radii: Tensor) -> Tensor:
        return self.magnitude(*radii)

    @property
    def terms(self) -> int:
        return self.matrix.shape[-1 if self.left else -2] + 2

    def rows(self, *ids: Tensor) -> Tensor:
        along = -2 if self.left else -1
        return reduced(self.place, ids[0], (along,), True).expand(self.shape)


@dataclass(frozen=True, eq=False)
class Convolution(Affine):
    """A convolution in one, two or three dimensions, or a transposed one."""

    source: tuple[int, ...]
    weight: Tensor  # float64
    bias: Tensor | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    output_padding: tuple[int, ...]

    def _run(self, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = value.reshape(-1, *self.source[1:])
        out = torch.convolution(
            flat, weight, bias, self.stride, self.padding, self.dilation, self.transposed,
            self.output_padding, self.groups,
        )  # fmt: skip
        return out.reshape(len(value), *self.shape)

    def apply(self, *values: Tensor) -> Tensor:
        return self._run(values[0], self.weight, self.bias)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        flat = weight.reshape(-1, *self.shape[1:])
        dims = range(len(self.stride))
        rest = [0] * len(self.stride)
        if not self.transposed:  # what the strides left over at the far end
            reach = [
                (self.shape[2 + d] - 1) * self.stride[d] - 2 * self.padding[d]
                + self.dilation[d] * (self.weight.shape[2 + d] - 1) + 1
                for d in dims
            ]  # fmt: skip
            rest = [self.source[2 + d] - reach[d] for d in dims]
        back = torch.convolution(
            flat, self.weight, None, self.stride, self.padding, self.dilation,
            not self.transposed, rest, self.groups,
        )  # fmt: skip
        return (back.reshape(len(weight), *self.source),)

    def constant(self) -> Tensor | None:
        if self.bias is None:
            return None
        return self.bias.reshape(-1, *[1] * len(self.stride)).expand(self.shape)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.abs()
        return self._run(sizes[0], self.weight.abs(), bias)

    def spread(self, *radii: Tensor) -> Tensor:
        return self._run(radii[0], self.weight.abs(), None)

    @property
    def terms(self) -> int:
        if not self.transposed:
            return self.weight[0].numel() + 2
        return self.weight.numel() // (self.weight.shape[1] * self.groups) + 2

    def rows(self, *ids: Tensor) -> Tensor:
        found = reduced(self.place, ids[0], tuple(range(1, ids[0].ndim)), True)
        return found.expand(self.shape)


@dataclass(frozen=True, eq=False)
class SpatialMap(Affine):
    """Pooling by means, bilinear upsampling: one matrix for every channel."""

    source: tuple[int, ...]
    matrix: Tensor  # (numbers of a channel, numbers of a channel of the result), none below 0
    axes: int  # of a channel
    places: int  # roundings of the weights themselves, whatever their size

    def apply(self, *values: Tensor) -> Tensor:
        return (values[0].flatten(-self.axes) @ self.matrix).reshape(len(values[0]), *self.shape)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        back = weight.flatten(-self.axes) @ self.matrix.T
        return (back.reshape(len(weight), *self.source),)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return self.apply(*sizes)

    def spread(self, *radii: Tensor) -> Tensor:
        return self.apply(*radii)

    @property
    def terms(self) -> int:
        return int((self.matrix != 0).sum(0).max()) + 6

    def rounding(self, taken: list[Any], found: Any) -> Tensor | None:
        error = super().rounding(taken, found)
        if error is None or not self.places:
            return error
        low, high = taken[0]
        size = torch.maximum(low.abs(), high.abs()).flatten(-self.axes).amax(-1)
        wide = size.reshape(*size.shape, *[1] * self.axes)
        return error + self.places * self.unit * wide

    def rows(self, *ids: Tensor) -> Tensor:
        axes = tuple(range(-self.axes, 0))
        return reduced(self.place, ids[0], axes, True).expand(self.shape)


@dataclass(frozen=True, eq=False)
class Sum(Affine):
    """The sum along axes (counted from the end), times `factor`."""

    source: tuple[int, ...]
    axes: tuple[int, ...]
    factor: float

    def apply(self, *values: Tensor) -> Tensor:
        out = values[0].sum(self.axes) * self.factor
        return out.reshape(len(values[0]), *self.shape)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        kept = [1 if d - len(self.source) in self.axes else s for d, s in enumerate(self.source)]
        back = (weight * self.factor).reshape(len(weight), *kept)
        return (back.expand(len(weight), *self.source),)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return self.apply(*sizes)

    def spread(self, *radii: Tensor) -> Tensor:
        return self.apply(*radii)

    def hard(self, taken: list[Any], found: Any) -> Any:
        low = torch.where(self._least(taken[0][0]), found[0].clamp_min(0), found[0])
        return low, found[1]

    def _least(self, low: Tensor) -> Tensor:
        """Where no number below 0 is added: then no computed sum is below 0."""
        return (low >= 0).all() if self.factor > 0 else torch.tensor(False)

    @property
    def terms(self) -> int:
        return math.prod(self.source[d] for d in self.axes) + 2

    def rows(self, *ids: Tensor) -> Tensor:
        return reduced(self.place, ids[0], self.axes).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """factor x + shift, number by number; `extra` is what else was rounded on the way."""

    factor: Tensor  # broadcast to `shape`, float64
    shift: Tensor | None
    extra: Tensor | None
    count: int

    def apply(self, *values: Tensor) -> Tensor:
        out = values[0] * self.factor
        return out if self.shift is None else out + self.shift

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (weight * self.factor,)

    def constant(self) -> Tensor | None:
        return None if self.shift is None else self.shift.expand(self.shape)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        out = sizes[0] * self.factor.abs()
        for part in (self.shift, self.extra):
            out = out if part is None else out + part.abs()
        return out

    def spread(self, *radii: Tensor) -> Tensor:
        return radii[0] * self.factor.abs()

    @property
    def terms(self) -> int:
        return self.count

    def rows(self, *ids: Tensor) -> Tensor:
        return ids[0].expand(self.shape)


@dataclass(frozen=True, eq=False)
class Add(Affine):
    """first a + second b, of values of one shape."""

    first: float
    second: float

    def apply(self, *values: Tensor) -> Tensor:
        return self.first * values[0] + self.second * values[1]

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return self.first * weight, self.second * weight

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return abs(self.first) * sizes[0] + abs(self.second) * sizes[1]

    def spread(self, *radii: Tensor) -> Tensor:
        return self.magnitude(*radii)

    @property
    def terms(self) -> int:
        return 3

    def rows(self, *ids: Tensor) -> Tensor:
        return join(self.place, *ids)


@dataclass(frozen=True, eq=False)
class Centre(Affine):
    """x minus its mean along the last axis, as normalisations do."""

    def apply(self, *values: Tensor) -> Tensor:
        return values[0] - values[0].mean(-1, keepdim=True)

    def adjoint(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (weight - weight.mean(-1, keepdim=True),)

    def magnitude(self, *sizes: Tensor) -> Tensor:
        return sizes[0] + sizes[0].mean(-1, keepdim=True)

    def spread(self, *radii: Tensor) -> Tensor:
        n = self.shape[-1]  # its own share counts once
        return radii[0] * (1 - 2 / n) + radii[0].mean(-1, keepdim=True) if n > 1 else radii[0] * 0

    @property
    def terms(self) -> int:
        return self.shape[-1] + 16

    def rows(self, *ids: Tensor) -> Tensor:
        return reduced(self.place, ids[0], (-1,), True).expand(self.shape)
