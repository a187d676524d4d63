"""Windows: the part of a map that a number behind convolutions depends on, and weights on it alone.

A number of a convolution's result looks at a few places of the map before it. Walking back, its
weights stay on a window that grows by the kernel at each convolution, until it is the whole map
(Xu et al. 2020, "patches"). All windows of a walk have one size; each row has numbers of its own.

    curve          lines where the window lies
    convolution    a transposed one, without padding: origin * stride - padding
    sum of two     the smallest window that holds both

Channels are last in memory, so that a convolution is one matrix product and an addition of runs
(`kernels/native/proofs/windows.cpp`). Weights outside the map are 0 at all times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.kernels.native import Kernel
from durometer.kernels.threads import threads_for
from durometer.proofs.aten.affine import Convolution
from durometer.proofs.aten.program import Bound, Operation

_PRODUCTS = 1 << 18  # numbers of a matrix product at a time: they stay in the cache

_relax = Kernel(
    "relax_windows", n="size", m="size", P="size", Q="size", C="size", H="size", W="size",
    threads="int64", origin="int64[n, m, 2]", upper="float64[n, H, W, C]",
    upper_bias="float64[n, H, W, C]", lower="float64[n, H, W, C]",
    lower_bias="float64[n, H, W, C]", weight="out float64[n, m, P, Q, C]",
    constant="out float64[n, m]",
)  # fmt: skip
_fold = Kernel(
    "fold_windows", n="size", p="size", q="size", h="size", w="size", C="size", P="size", Q="size",
    threads="int64", H="int64", W="int64", stride_y="int64", stride_x="int64", dilation_y="int64",
    dilation_x="int64", start="int64[n, 2]", origin="int64[n, 2]",
    products="float64[n, p, q, h, w, C]", out="out float64[n, P, Q, C]",
)  # fmt: skip


def is_map(shape: tuple[int, ...]) -> bool:
    """One row of channels in two dimensions: what windows are for."""
    return len(shape) == 4 and shape[0] == 1


@dataclass(frozen=True, eq=False)
class Lines:
    """Two lines for every number of a map, channels last: (n, H, W, C)."""

    upper: Tensor
    upper_bias: Tensor
    lower: Tensor
    lower_bias: Tensor

    @classmethod
    def of(cls, upper: Tensor, upper_bias: Tensor, lower: Tensor, lower_bias: Tensor) -> Lines:
        """From numbers (n, 1, C, H, W), or of any other shape as one place of many channels."""
        return cls(*(_last(t) for t in (upper, upper_bias, lower, lower_bias)))


def _last(t: Tensor) -> Tensor:
    if t.ndim == 5 and t.shape[1] == 1:
        return t[:, 0].permute(0, 2, 3, 1).contiguous()
    return t.reshape(len(t), 1, 1, -1).contiguous()


@dataclass(frozen=True, eq=False)
class Window:
    """Weights (n, m, P, Q, C) at places `origin` (n, m, 2) of maps with `shape` (1, C, H, W)."""

    weight: Tensor
    origin: Tensor
    shape: tuple[int, ...]

    @classmethod
    def seeds(cls, places: Tensor, signs: Tensor, shape: tuple[int, ...]) -> Window:
        """`signs` (m,) times single numbers (n, m) of a map."""
        _, channels, _, wide = shape
        of = places % (shape[2] * wide)
        weight = torch.zeros(*places.shape, channels, dtype=torch.float64)
        weight.scatter_(
            2, (places // (shape[2] * wide))[..., None], signs.expand_as(places)[..., None]
        )
        return cls(weight[:, :, None, None], torch.stack([of // wide, of % wide], 2), shape)

    @classmethod
    def whole(cls, weight: Tensor, shape: tuple[int, ...]) -> Window:
        """Weights (n, m, 1, C, H, W) on the whole map."""
        origin = torch.zeros(*weight.shape[:2], 2, dtype=torch.int64)
        return cls(weight[:, :, 0].permute(0, 1, 3, 4, 2).contiguous(), origin, shape)

    @property
    def covers(self) -> bool:
        """Is it the whole map?"""
        return tuple(self.weight.shape[2:4]) == self.shape[2:]

    def dense(self) -> Tensor:
        """(n, m, 1, C, H, W)."""
        weight = self.weight
        if not self.covers:
            zero = torch.zeros_like(self.origin)
            weight = _framed(self.weight, self.origin, zero, self.shape, self.shape[2:])
        return weight.permute(0, 1, 4, 2, 3)[:, :, None]

    def sums(self) -> Tensor:
        """(n, m, C)."""
        return self.weight.sum((2, 3))

    def sizes(self) -> Tensor:
        """(n, m, C): of absolute weights."""
        found: Tensor = torch.linalg.vector_norm(self.weight, 1, dim=(2, 3))
        return found

    def __add__(self, other: Window) -> Window:
        first = torch.minimum(self.origin, other.origin)
        ends = [w.origin + torch.tensor(w.weight.shape[2:4]) for w in (self, other)]
        # all windows of a walk lie alike, so that one size holds for all
        first, size = _frame(
            first, (torch.maximum(*ends) - first).amax((0, 1)).tolist(), self.shape
        )
        total = None
        for w in (self, other):
            same = tuple(w.weight.shape[2:4]) == tuple(size)
            part = w.weight if same else _framed(w.weight, w.origin, first, w.shape, size)
            total = part if total is None else total + part
        assert total is not None
        return Window(total, first, self.shape)

    def times(self, factor: Tensor) -> Window:
        """Times a number for each channel."""
        return Window(self.weight * factor, self.origin, self.shape)

    def relaxed(self, lines: Lines, constant: Tensor) -> Window:
        """Through the lines; `constant` (n, m) is added to. The weights themselves are changed."""
        weight = self.weight.contiguous()
        _relax(
            threads_for(weight), self.origin.contiguous(), lines.upper, lines.upper_bias,
            lines.lower, lines.lower_bias, weight, constant,
        )  # fmt: skip
        return Window(weight, self.origin, self.shape)

    def unpadded(self, padding: tuple[int, int], shape: tuple[int, ...]) -> Window:
        """Weights on a map of this shape that zeros have been put around."""
        start = self.origin - torch.tensor(padding)
        origin, size = _frame(start, tuple(self.weight.shape[2:4]), shape)
        return Window(_framed(self.weight, start, origin, shape, size), origin, shape)

    def before(self, op: Convolution) -> Window:
        """Weights on what goes into a convolution."""
        n, m, p, q, channels = self.weight.shape
        _, into, high, wide = op.source
        h, w = op.weight.shape[2:]
        stride, padding = torch.tensor(op.stride), torch.tensor(op.padding)
        start = self.origin * stride - padding
        reach = [
            (a - 1) * s + d * (k - 1) + 1
            for a, s, d, k in zip((p, q), op.stride, op.dilation, (h, w), strict=True)
        ]
        origin, size = _frame(start, reach, op.source)
        kernel = op.weight.permute(0, 2, 3, 1).reshape(channels, -1)
        flat = self.weight.reshape(n * m, p * q, channels)
        out = torch.empty(n * m, *size, into, dtype=torch.float64)
        starts, origins = start.reshape(-1, 2).contiguous(), origin.reshape(-1, 2).contiguous()
        if p == q == 1 and size == reach and max(op.dilation) == 1:  # nothing is added up
            out = _cleared((flat[:, 0] @ kernel).reshape(n * m, h, w, into), starts, op.source)
            return Window(out.reshape(n, m, h, w, into), origin, op.source)
        each = max(1, _PRODUCTS // (p * q * kernel.shape[1]))
        for at in range(0, n * m, each):
            some = slice(at, at + each)
            products = (flat[some].reshape(-1, channels) @ kernel).reshape(-1, p, q, h, w, into)
            _fold(
                threads_for(products), high, wide, *op.stride, *op.dilation, starts[some],
                origins[some], products, out[some],
            )  # fmt: skip
        return Window(out.reshape(n, m, *size, into), origin, op.source)


def _frame(start: Tensor, size: Sequence[int], shape: tuple[int, ...]) -> tuple[Tensor, list[int]]:
    """Where windows lie and how large they are: never larger than the map."""
    origin, found = start.clone(), list(size)
    for axis in (0, 1):
        if found[axis] >= shape[2 + axis]:
            origin[..., axis], found[axis] = 0, shape[2 + axis]
    return origin, found


def _cleared(out: Tensor, origin: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Weights (k, P, Q, C) at origins (k, 2), 0 outside the map."""
    for axis in (0, 1):
        at = origin[:, axis, None] + torch.arange(out.shape[1 + axis])
        inside = (at >= 0) & (at < shape[2 + axis])
        if not bool(inside.all()):
            out *= inside[:, :, None, None] if axis == 0 else inside[:, None, :, None]
    return out


def _framed(
    weight: Tensor, start: Tensor, origin: Tensor, shape: tuple[int, ...], size: Sequence[int]
) -> Tensor:
    """The same weights in another frame."""
    n, m, p, q, channels = weight.shape
    out = torch.empty(n * m, *size, channels, dtype=torch.float64)
    _fold(
        threads_for(out), shape[2], shape[3], 1, 1, 1, 1, start.reshape(-1, 2).contiguous(),
        origin.reshape(-1, 2).contiguous(),
        weight.reshape(n * m, p, q, 1, 1, channels).contiguous(), out,
    )  # fmt: skip
    return out.reshape(n, m, *size, channels)


def per_channel(value: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """(C,) where a constant of a map is one number for each channel; None: it is not."""
    if value is None:
        return torch.zeros(shape[1], dtype=torch.float64)
    full = value.expand(shape)[0]
    first = full[:, :1, :1]
    return first.flatten() if bool((full == first).all()) else None


def backward_by_windows(op: Operation) -> bool:
    """Is it a convolution that windows go through?"""
    return (
        isinstance(op, Convolution)
        and not op.transposed
        and op.groups == 1
        and is_map(op.shape)
        and is_map(op.source)
    )


def widest(bounds: Bound) -> Tensor:
    """(n, C): of each channel of (n, 1, C, H, W), the largest absolute number."""
    return torch.maximum(bounds[0].abs(), bounds[1].abs()).amax((1, 3, 4))
