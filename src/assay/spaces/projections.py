"""Projections onto a ball and a box at once: how far a feature may go, and the level that fits."""

from __future__ import annotations

import torch
from torch import Tensor


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


def shrink_l1(size: Tensor, room: Tensor, boxed: Tensor, eps: float) -> Tensor:
    """clip(size - t, 0, room) of sum eps: the sum is piecewise linear in t, so solved exactly."""
    over = boxed.sum(1) > eps
    if not bool(over.any()):
        return boxed
    a, c = size[over].double(), boxed[over].double()
    # Going down in t, a feature starts to count at t = a and stops growing at t = a - c.
    ends = torch.cat([a, (a - c)], dim=1)
    slope = torch.cat([torch.ones_like(a), -torch.ones_like(a)], dim=1)
    ends, order = ends.sort(dim=1, descending=True)
    slope = slope.gather(1, order).cumsum(1)
    rise = slope[:, :-1] * (ends[:, :-1] - ends[:, 1:])
    total = torch.cat([torch.zeros_like(rise[:, :1]), rise.cumsum(1)], dim=1)  # sum at t = ends
    place = (total < eps).sum(1, keepdim=True).clamp(1, ends.shape[1] - 1) - 1
    t = ends.gather(1, place) - (eps - total.gather(1, place)) / slope.gather(1, place).clamp_min(1)
    shrunk = boxed.clone()
    shrunk[over] = (a - t.clamp_min(0)).clamp_min(0).minimum(c).to(size.dtype)
    return shrunk
