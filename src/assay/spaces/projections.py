"""Projections onto a ball and a box at once: how far a feature may go, and the level that fits."""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 60  # halvings down to the last bit; Newton's steps are a handful


def room_to(z: Tensor, sign: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How far each feature can move in its direction until it meets the box; 0 where sign is 0."""
    far = torch.add(z, sign, alpha=1e30).clamp(low, high)
    return far.sub_(z).abs_()


def level(rate: Tensor, room: Tensor, need: Tensor, weight: Tensor | None = None) -> Tensor:
    """t (n, 1) with sum weight * min(t rate, room) = need; past all room where that is too little.

    The sum is concave and piecewise linear in t, so Newton from t = 0 never overshoots and ends at
    the exact t, after a handful of rounds and without sorting.
    """
    gain = rate if weight is None else weight * rate
    t, free = torch.zeros_like(need), torch.empty_like(room)
    for _ in range(room.shape[1] + 1):
        wanted = t * rate
        torch.lt(wanted, room, out=free)
        slope = free.mul_(gain).sum(1, keepdim=True)
        size = wanted.minimum(room)
        lacking = need - (size if weight is None else size.mul_(weight)).sum(1, keepdim=True)
        short = (lacking > 1e-6 * need) & (slope > 0)
        if not bool(short.any()):
            break
        t = torch.where(short, t + lacking / slope, t)
    return t


def shrink_l2(size: Tensor, room: Tensor, boxed: Tensor, eps: float) -> Tensor:
    """min(s * size, room) of norm <= eps; squared, that is a level to be found."""
    if not bool((torch.linalg.vector_norm(boxed, dim=1) > eps).any()):
        return boxed
    need = torch.full_like(size[:, :1], eps**2)
    scale = level(size.square(), room.square(), need).sqrt_().clamp_max_(1.0)
    return (size * scale).minimum(room)


def shrink_l1(size: Tensor, boxed: Tensor, eps: float) -> Tensor:
    """clip(size - t, 0, boxed) of sum eps, by Newton's method inside a bracket.

    The sum is piecewise linear and falling in t, so a step from the right piece is exact; where a
    step would leave the bracket it is cut in half instead. A row that is done is left alone, or
    its last digits would depend on the rows it is projected with.
    """
    over = (boxed.sum(1) > eps).nonzero()[:, 0]
    if not len(over):
        return boxed
    a, c = size.index_select(0, over), boxed.index_select(0, over)
    low = torch.zeros_like(a[:, :1])
    high, t = a.amax(1, keepdim=True), low
    for _ in range(_ROUNDS):
        left = a - t
        free = ((left > 0) & (left < c)).sum(1, keepdim=True)
        excess = left.clamp_min_(0).minimum(c).sum(1, keepdim=True) - eps
        off = excess.abs() > 2e-6 * eps
        if not bool(off.any()):
            break
        low, high = torch.where(excess > 0, t, low), torch.where(excess > 0, high, t)
        step = t + excess / free
        outside = ~((step > low) & (step < high))
        t = torch.where(off, torch.where(outside, (low + high) / 2, step), t)
    return boxed.index_copy(0, over, (a - t).clamp_min_(0).minimum(c))
