"""Softmax and its logarithm along an axis: bounds of the results from bounds of the inputs.

Each share is least where its own score is lowest and all others are highest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.aten.program import OWN, Bound, Boxed, least, reduced


@dataclass(frozen=True, eq=False)
class Softmax(Boxed):
    """exp x / sum exp x along an axis (counted from the end), or its logarithm."""

    axis: int
    log: bool

    def interval(self, *taken: Bound) -> Bound:
        side, dim = taken[0], self.axis
        low, high = ((t - side[1].amax(dim, keepdim=True)).exp() for t in side)
        down = low / (low + (high.sum(dim, keepdim=True) - high).clamp_min(0)).clamp_min(1e-300)
        up = high / (high + (low.sum(dim, keepdim=True) - low).clamp_min(0)).clamp_min(1e-300)
        down, up = (down * (1 - 1e-12)).clamp(0, 1), (up * (1 + 1e-12)).clamp(0, 1)
        if not self.log:
            return down, up
        far = side[0] - side[1].amax(dim, keepdim=True) - math.log(side[0].shape[dim])
        near = torch.minimum(up.clamp_min(1e-300).log() + 1e-12, torch.zeros_like(up))
        return far.maximum(down.log()) - 1e-12, near

    def rounding(self, taken: list[Bound], found: Bound) -> Tensor | None:
        low, high = taken[0]
        reach = high.amax(self.axis, keepdim=True) - low.amin(self.axis, keepdim=True)
        terms = low.shape[self.axis] + 30
        if self.log:
            size = 1 + torch.maximum(low.abs(), high.abs()) + reach
            return ((terms + 8) * self.unit + 8 * terms * OWN) * size
        share = (terms + 2 * reach.clamp_max(110.0)) * (self.unit + 8 * OWN)
        return share * found[1] + least(self.unit)

    def hard(self, taken: list[Bound], found: Bound) -> Bound:
        if self.log:
            return found
        return found[0].clamp_min(0), found[1]

    def rows(self, *ids: Tensor) -> Tensor:
        return reduced(self.place, ids[0], (self.axis,), True).expand(self.shape)
