"""Rows whose gradients mislead: recognised one by one, where the gradient attacks have ended.

At a row's best point z, with g the gradient of the margin m there, eight random steps d_k as long
as the ball (signs that are constant on blocks of pixels, projected into the region) are asked:

    ratio = || m(z + d_k) - m(z) || / || g . d_k ||      over k

Above 1.5 the margin moves more than its gradient says: the gradient is that of a ripple, of a flat
piece or of a kink, not that of the surface an attacker walks on. A gradient that is exactly 0 says
nothing at all.

With few features an ordinary network may have its best point on top of a hill, where the gradient
is small as well. There rows above are looked at again, with the steeper of the slopes at both ends
of each step in place of g . d_k: wherever the margin is convex or concave along a step it moves at
most as much as that says. Not so with many features: the hills are gone, and a steep squashing of
the inputs would pass.

What a reader would get wrong: the ratio has one side. Ordinary networks saturate, so their margin
moves *less* than the gradient says. And it must be taken at the best point: at the clean input a
steep squashing of the inputs still looks linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from durometer import losses
from durometer.attacks.base import ball, compact, start
from durometer.attacks.square import Canvas
from durometer.core.devices import widest
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion

_RATIO = 1.5  # at most 1.24 on nine ordinary networks that were kept apart
_STEPS = 8
_FEW = 100  # features: below, ordinary networks have hills within the ball
_BLOCKS = 7  # across an image: 4 x 4 pixels where it has 28 or 32


@dataclass(frozen=True, eq=False)
class Signs:
    """What gradients say about rows of a batch."""

    misled: Tensor  # (n,) bool: the margin moves more than its gradient says
    flat: Tensor  # (n,) bool: the gradient is exactly 0
    looked: Tensor  # (n,) bool: rows that had the budget to be looked at, and stayed open

    @property
    def either(self) -> Tensor:
        """(n,) bool: rows that need another attack than one by gradients."""
        return self.misled | self.flat


def look(problem: Problem) -> Signs:
    """Look at the gradients of all open rows: nine queries each; with few features as many again,
    with gradients, for rows that seem misled."""
    problem = problem.aim(label="Probe")  # its random steps may break a row by themselves
    looked, misled, flat = (torch.zeros_like(problem.solved) for _ in range(3))
    rows = problem.open
    ratio = _ratio(problem, rows, both=False)
    looked[rows] = True
    if problem.regions.origin.shape[1] < _FEW:
        rows = rows[ratio > _RATIO]
        ratio = _ratio(problem, rows, both=True)
    flat[rows] = ratio == torch.inf
    misled[rows] = (ratio > _RATIO) & (ratio < torch.inf)
    still = torch.zeros_like(looked)
    still[problem.open] = True  # broken by now, or without a budget: nobody attacks them
    return Signs(misled & still, flat & still, looked & still)


def _ratio(problem: Problem, rows: Tensor, both: bool) -> Tensor:
    """(m,): how many times more the margin moves than its gradient says.

    Infinite where all gradients are exactly 0; 0 where it cannot be told: the budget ended, or
    nothing moved. With `both`, a step is foretold by the steeper of the slopes at its two ends.
    """
    kind = widest(rows.device)
    ratio = torch.zeros(len(rows), dtype=kind, device=rows.device)
    at = torch.arange(len(rows), device=rows.device)
    if not len(rows):
        return ratio
    z = start(problem, rows, "best")
    value, grad = problem.value_and_grad(rows, z, losses.margin)
    zero = (grad == 0).all(1)
    moved = torch.zeros_like(ratio)
    foretold = moved.clone()
    for _ in range(_STEPS):
        state = (rows, at, z, value, grad, zero, moved, foretold)
        rows, at, z, value, grad, zero, moved, foretold = compact(problem.alive(rows), *state)
        if not len(rows):
            return ratio
        region = ball(problem, rows)
        there = region.project(z + _step(region, problem, rows))
        slope = ((there - z) * grad).to(kind).sum(1).abs()
        if both:
            end, other = problem.value_and_grad(rows, there, losses.margin)
            zero = zero & (other == 0).all(1)
            slope = slope.maximum(((there - z) * other).to(kind).sum(1).abs())
        else:
            end = problem.value(rows, there, losses.margin)
        moved = moved + (end - value).to(kind).square()
        foretold = foretold + slope.square()
    found = (moved / foretold).sqrt().nan_to_num(0.0)
    ratio[at] = torch.where(zero, torch.inf, found.clamp_max(1e30))
    return ratio


def _step(region: LpRegion, problem: Problem, rows: Tensor) -> Tensor:
    """(n, D): random signs, the same within a block of pixels, of the ball's size."""
    canvas = Canvas.of(region)
    c, h, w = canvas.shape
    side = 1 if canvas.flat else max(1, min(h, w) // _BLOCKS)
    down, across = -(-h // side), -(-w // side)
    drawn = problem.random.sign(rows, c * down * across, region.origin.dtype)
    signs = drawn.reshape(-1, c, down, across)
    signs = signs.repeat_interleave(side, 2).repeat_interleave(side, 3)[:, :, :h, :w]
    d = signs.flatten(1)
    length: Tensor = torch.linalg.vector_norm(d, region.p, dim=1, keepdim=True)
    return d * (region.eps / length)
