"""Domain: the inputs a bound must hold for, as a box, a ball in it and codes, row by row.

Its one question is what a linear function can reach (`highest`). A ball is measured in scaled
coordinates; coordinates without a scale (one-hot codes, which pay otherwise) are held by the box
alone. A block is a code of which exactly one is on: a linear function takes its largest weight.

`rounded` is how far what the network sees may be from a point of the ball: inputs are rounded to
the network's own type, and a ball knows nothing of that. The box is wider by it already.

What a reader would get wrong: a part of the box (`within`) need not hold the centre any more, so
ball and part are then bounded apart and the smaller bound counts. Both hold, so does the smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from durometer.proofs.search.interval_max import interval_max


@dataclass(frozen=True, eq=False)
class Domain:
    """Coordinates u (n, D) in [low, high], near `centre` in the p norm of (u - centre) / scale."""

    centre: Tensor  # (n, D) float64
    low: Tensor
    high: Tensor
    p: float
    eps: Tensor  # (n, 1)
    scale: Tensor  # (D,): what counts as 1; infinite: not measured
    step: Tensor  # (D,): whole numbers are this far apart; 0: any number
    blocks: tuple[Tensor, ...] = ()  # columns of each one-hot code
    inner: tuple[Tensor, Tensor] | None = None  # a part of the box: (n, D) low and high
    rounded: Tensor | None = None  # (n, D): what rounding of the inputs moves; None: nothing

    def take(self, rows: Tensor) -> Domain:
        """These rows (indices, repeats allowed)."""
        inner = self.inner and (self.inner[0][rows], self.inner[1][rows])
        rounded = None if self.rounded is None else self.rounded[rows]
        return replace(
            self, centre=self.centre[rows], low=self.low[rows], high=self.high[rows],
            eps=self.eps[rows], inner=inner, rounded=rounded,
        )  # fmt: skip

    def within(self, low: Tensor, high: Tensor) -> Domain:
        """The part of it between these bounds."""
        return replace(self, inner=(low, high))

    @property
    def box(self) -> tuple[Tensor, Tensor]:
        """(n, D) lowest and highest values."""
        return self.inner if self.inner is not None else (self.low, self.high)

    def highest(self, weight: Tensor) -> Tensor:
        """(n, m): the most that weights (n, m, D) can reach."""
        n, m, size = weight.shape
        code = torch.zeros(size, dtype=torch.bool)
        for places in self.blocks:
            code[places] = True
        total = weight.new_zeros(n, m)
        low, high = (side[:, None] for side in self.box)
        for places in self.blocks:
            w, can = weight[..., places], high[..., places] > 0.5
            total = total + w.masked_fill(~can.expand_as(w), -torch.inf).amax(2)
        free = weight[..., ~code]
        low, high = low[..., ~code], high[..., ~code]
        boxed = (free.clamp_min(0) * high + free.clamp_max(0) * low).sum(2)
        if self.p == math.inf:
            return total + boxed
        ball = self._ball(free, ~code)
        if self.rounded is not None:
            ball = ball + (free.abs() * self.rounded[:, None, ~code]).sum(2)
        return total + boxed.minimum(ball)

    def _ball(self, weight: Tensor, of: Tensor) -> Tensor:
        """(n, m): over the whole box and the ball, whatever part is looked at."""
        n, m, _ = weight.shape
        centre, low, high = (t[:, of] for t in (self.centre, self.low, self.high))
        scale = self.scale[of]
        near = scale.isfinite()
        apart = weight[..., ~near]
        top = (apart.clamp_min(0) * high[:, None, ~near]).sum(2)
        top = top + (apart.clamp_max(0) * low[:, None, ~near]).sum(2)
        c, lo, hi = ((t[:, near] - centre[:, near]) / scale[near] for t in (centre, low, high))
        w = (weight[..., near] * scale[near]).reshape(n * m, -1)
        with torch.no_grad():  # at the highest point its place does not matter to the slope
            c, lo, hi, eps = (t.repeat_interleave(m, dim=0) for t in (c, lo, hi, self.eps))
            change = interval_max(w, c, lo, hi, self.p, eps)
        at_centre = (weight[..., near] * centre[:, None, near]).sum(2)
        return top + at_centre + (w * change).sum(1).reshape(n, m)

    def reachable(self) -> Tensor:
        """(n,) bool: does the part hold any point of the ball?"""
        if self.inner is None or self.p in (0.0, math.inf):
            return torch.ones(len(self.centre), dtype=torch.bool)
        near = self.scale.isfinite()
        nearest = self.centre.maximum(self.inner[0]).minimum(self.inner[1])
        away = (nearest - self.centre).abs()
        if self.rounded is not None:
            away = (away - self.rounded).clamp_min(0)
        off = (away / self.scale)[:, near]
        far: Tensor = torch.linalg.vector_norm(off, self.p, dim=1)
        return far <= self.eps[:, 0] * (1 + 1e-9)
