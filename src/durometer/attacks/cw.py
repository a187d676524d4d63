"""CW-L2 (Carlini & Wagner 2017): the nearest success, by gradient descent on distance plus margin.

    minimise |z - z0|^2 + c relu(kappa - margin(z)),   z = low + (high - low)(tanh(w) + 1) / 2

over the free variable w by Adam; c, the exchange rate, is sought by bisection for each row. The
margin is the goal's own: best class inside the targets minus best class outside.

What a reader would get wrong: at a pixel of exactly 0 or 1 tanh is flat and w infinite, so the
start is drawn a little into the box (`nudge`), or such pixels could hardly ever move. A feature
whose box is open on a side needs no tanh: there w is z itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.attacks.base import ball, compact, overwrite
from durometer.core.devices import widest
from durometer.core.validation import noun
from durometer.losses import margin
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion

_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8  # Adam's


@noun
class CW:
    """The Carlini-Wagner attack in L2: minimises distance plus a margin loss by Adam (Carlini &
    Wagner, 2017).

    A row ends when a success lies inside the region.

    Args:
        steps: Adam steps per value of c.
        searches: Values of c to try per row, by bisection.
        c: First weight of the margin loss against the squared distance.
        lr: Learning rate of Adam, in the units of the change of variables.
        kappa: Margin that a success must have, in logits.
        early_abort: Whether a row gives up on a value of c when a tenth of the steps did not lower
            its objective.
        nudge: How far the start is moved into the box, as a share; at a pixel of exactly 0 or 1 the
            change of variables has no gradient.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.L2(0.5), attack=du.CW(20, searches=2)).metric(
    ...     "robust"
    ... ).value
    0.9375
    """

    steps: int = 1000
    searches: int = 9
    c: float = 1e-3
    lr: float = 0.01
    kappa: float = 0.0
    early_abort: bool = True
    nudge: float = 1e-3

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True, norms=(2.0,))

    def __call__(self, problem: Problem) -> None:
        c = torch.full_like(problem.y, self.c, dtype=widest(problem.y.device))
        low, high = torch.zeros_like(c), torch.full_like(c, math.inf)
        found = _Found.of(problem)
        for _ in range(self.searches):
            rows = problem.open
            if not len(rows):
                return
            reached = self._descend(problem, rows, c, found)
            found.hand_in(problem)
            high = torch.where(reached, c.minimum(high), high)
            low = torch.where(reached, low, c.maximum(low))
            c = torch.where(high.isfinite(), (low + high) / 2, c * 10)

    def _descend(self, problem: Problem, rows: Tensor, c_of: Tensor, found: _Found) -> Tensor:
        """Adam at each row's c; (n,) which rows reached the goal, however far off."""
        reached = torch.zeros(len(problem.y), dtype=torch.bool, device=rows.device)
        box = _Box.of(ball(problem, rows), self.nudge)
        w = box.inverse(ball(problem, rows).origin)
        m, v, before = torch.zeros_like(w), torch.zeros_like(w), w.new_full((len(w),), math.inf)
        patience = max(1, self.steps // 10)
        for k in range(1, self.steps + 1):
            region = ball(problem, rows)
            z = box.forward(w)
            gain, grad = problem.value_and_grad(rows, z, margin)
            reached[rows] |= gain > self.kappa
            c = c_of[rows].to(w.dtype)
            short = (self.kappa - gain).relu().to(w.dtype)
            d = z - region.origin
            length = d.square().sum(1)
            found.note(rows, z, length.masked_fill(gain <= 0, math.inf))
            cost = length + c * short
            pull = 2 * d - (c * (short > 0))[:, None] * grad
            g = pull * box.slope(w)
            m = _BETA1 * m + (1 - _BETA1) * g
            v = _BETA2 * v + (1 - _BETA2) * g.square()
            rate = self.lr * math.sqrt(1 - _BETA2**k) / (1 - _BETA1**k)
            w = w - rate * m / (v.sqrt() + _TINY)
            alive = problem.alive(rows)
            if self.early_abort and k % patience == 0:
                alive &= cost <= 0.9999 * before
                before = cost
            rows, w, m, v, before = compact(alive, rows, w, m, v, before)
            if not len(rows):
                break
        else:
            problem.submit(rows, box.forward(w))
        return reached


@dataclass(frozen=True, eq=False)
class _Found:
    """The nearest point of each row that reaches the goal, inside the region or not."""

    z: Tensor  # (n, D)
    length: Tensor  # (n,), squared

    @classmethod
    def of(cls, problem: Problem) -> _Found:
        origin = problem.regions.origin
        return cls(origin.clone(), origin.new_full((len(origin),), math.inf))

    def note(self, rows: Tensor, z: Tensor, length: Tensor) -> None:
        so_far = self.length[rows]
        held = self.z.index_select(0, rows)
        overwrite(held, length < so_far, z)
        self.z.index_copy_(0, rows, held)
        self.length.index_copy_(0, rows, length.minimum(so_far))

    def hand_in(self, problem: Problem) -> None:
        """What tanh leaves between the nearest point and the region is bridged by a projection."""
        rows = problem.open
        rows = rows[self.length[rows].isfinite()]
        if len(rows):
            problem.submit(rows, problem.region(rows).project(self.z[rows]))


@dataclass(frozen=True, eq=False)
class _Box:
    """The change of variables between z in the box and w anywhere."""

    low: Tensor  # (1, D)
    high: Tensor
    middle: Tensor
    half: Tensor
    closed: Tensor  # features bounded on both sides
    nudge: float

    @classmethod
    def of(cls, region: LpRegion, nudge: float) -> _Box:
        closed = region.low.isfinite() & region.high.isfinite()
        middle = torch.where(closed, (region.high + region.low) / 2, 0.0)
        half = torch.where(closed, (region.high - region.low) / 2, 1.0)
        return cls(region.low, region.high, middle, half, closed, nudge)

    def inverse(self, z: Tensor) -> Tensor:
        scaled = (z - self.middle) / self.half.clamp_min(torch.finfo(z.dtype).tiny)
        return torch.where(self.closed, (scaled * (1 - self.nudge)).atanh(), z)

    def forward(self, w: Tensor) -> Tensor:
        z = torch.where(self.closed, self.middle + self.half * w.tanh(), w)
        return z.clamp(self.low, self.high)

    def slope(self, w: Tensor) -> Tensor:
        return torch.where(self.closed, self.half * (1 - w.tanh().square()), 1.0)
