"""The largest of several numbers: max pooling, `amax`, `max` along an axis, the larger of two.

Each number of the result has a row of places in a table; the largest lower bound is a bound from
below, and the value itself where it is above everybody else's upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.aten.program import Bound, Operation, reduced


@dataclass(frozen=True, eq=False)
class Maximum(Operation):
    """Number j of the result is the largest of the numbers `table[j]` of the input."""

    source: tuple[int, ...]
    table: Tensor  # (numbers of the result, most of them); -1: none

    def picked(self, x: Tensor) -> Tensor:
        """(n, numbers, k): minus infinity where there is none."""
        out = x.flatten(1)[:, self.table.clamp_min(0)]
        return torch.where(self.table < 0, -torch.inf, out)

    def interval(self, *taken: Bound) -> Bound:
        low, high = (self.picked(t).amax(2).reshape(len(t), *self.shape) for t in taken[0])
        return low, high

    def chosen(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """(n, numbers): the place of the surest, and whether it is the largest everywhere."""
        down, up = self.picked(low), self.picked(high)
        best, at = down.max(2, keepdim=True)
        others = up.scatter(2, at, -torch.inf).amax(2)
        place = self.table[None].expand(len(low), -1, -1).gather(2, at)[..., 0]
        return place, others <= best[..., 0]

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        return None

    def rows(self, *ids: Tensor) -> Tensor:
        held = torch.where(self.table < 0, -1, ids[0].flatten()[self.table.clamp_min(0)])
        return reduced(self.place, held, (1,)).reshape(self.shape)
