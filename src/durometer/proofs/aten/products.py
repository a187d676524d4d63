"""Products of two varying values: a b, number by number, or a matrix times a matrix.

Between bounds with centres a', b' and radii r, s

    a b = b' a + a' b - a' b' + e,    |e| <= r s,

the average of McCormick's planes, and the same for sums of products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.aten.program import Bound, Product, join, reduced, share


@dataclass(frozen=True, eq=False)
class Multiply(Product):
    """Number by number, of values of one shape."""

    limit: float  # no exact result is farther from 0 (a normalised number)
    terms: int  # of a normalisation: roundings of its mean; a third input is what it normalises

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def adjoint(self, weight: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return weight * b, weight * a

    def interval(self, *taken: Bound) -> Bound:
        corners = torch.stack([u * v for u in taken[0] for v in taken[1]])
        if self.limit == math.inf:
            return corners.amin(0), corners.amax(0)
        off = 4 * self.terms * self.unit * torch.ones_like(corners[0])
        if len(taken) == 3:  # a mean that cancels: its rounding, in deviations
            size = torch.maximum(taken[2][0].abs(), taken[2][1].abs())
            size = size + size.mean(-1, keepdim=True)
            off = off + share(self.terms, self.unit, size) * taken[1][1].abs()
        most = torch.where(off < 0.25, self.limit * (1 + 2 * off) + 2 * off, math.inf)
        return corners.amin(0).maximum(-most), corners.amax(0).minimum(most)

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        sizes = [torch.maximum(low.abs(), high.abs()) for low, high in taken]
        return share(3, self.unit, sizes[0] * sizes[1])

    def rows(self, *ids: Tensor) -> Tensor:
        return join(self.place, *ids[:2])


@dataclass(frozen=True, eq=False)
class Matmul(Product):
    """(..., i, k) times (..., k, j)."""

    extra: int  # further roundings of a fused kernel

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    def adjoint(self, weight: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return weight @ b.transpose(-1, -2), a.transpose(-1, -2) @ weight

    def interval(self, *taken: Bound) -> Bound:
        (a, r), (b, s) = (((u + v) / 2, (v - u) / 2) for u, v in taken)
        at = a @ b
        off = a.abs() @ s + r @ b.abs() + r @ s
        return at - off, at + off

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        sizes = [torch.maximum(low.abs(), high.abs()) for low, high in taken]
        return share(sizes[0].shape[-1] + 2 + self.extra, self.unit, sizes[0] @ sizes[1])

    def rows(self, *ids: Tensor) -> Tensor:
        left = reduced(self.place, ids[0], (-1,), True)
        right = reduced(self.place, ids[1], (-2,), True)
        return join(self.place, left, right).expand(self.shape)
