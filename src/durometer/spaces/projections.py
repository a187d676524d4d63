"""Projections onto a ball and a box at once: how far a feature may go, and the level that fits."""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.core.devices import is_cpu

_ROUNDS = 60  # halvings down to the last bit; Newton's steps are a handful
_UNSEEN = 16  # rounds on an accelerator, where looking whether they are enough would cost more


def room_to(z: Tensor, sign: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How far each feature can move in its direction until it meets the box; 0 where sign is 0."""
    far = torch.add(z, sign, alpha=1e30).clamp(low, high)
    return far.sub_(z).abs_()


def level(rate: Tensor, room: Tensor, need: Tensor, weight: Tensor | None = None) -> Tensor:
    """t (n, 1) with sum weight * min(t rate, room) = need; past all room where that is too little.

    The sum is concave and piecewise linear in t, so Newton from t = 0 never overshoots and ends at
    the exact t, after a handful of rounds and without sorting. Ended early, it is a little short.
    """
    look = is_cpu(room.device)
    gain = rate if weight is None else weight * rate
    t, free = torch.zeros_like(need), torch.empty_like(room)
    for _ in range(room.shape[1] + 1 if look else _UNSEEN):
        wanted = t * rate
        torch.lt(wanted, room, out=free)
        slope = free.mul_(gain).sum(1, keepdim=True)
        size = wanted.minimum(room)
        lacking = need - (size if weight is None else size.mul_(weight)).sum(1, keepdim=True)
        short = (lacking > 1e-6 * need) & (slope > 0)
        if look and not bool(short.any()):
            break
        t = torch.where(short, t + lacking / slope, t)
    return t


def shrink_l2(size: Tensor, room: Tensor, boxed: Tensor, eps: float) -> Tensor:
    """min(s * size, room) of norm <= eps; squared, that is a level to be found."""
    out = torch.linalg.vector_norm(boxed, dim=1, keepdim=True) > eps
    if is_cpu(size.device) and not bool(out.any()):
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
    if not is_cpu(size.device):
        t = torch.where(boxed.sum(1, keepdim=True) > eps, _l1_level(size, boxed, eps), 0.0)
        return (size - t).clamp_min_(0).minimum(boxed)
    over = (boxed.sum(1) > eps).nonzero()[:, 0]
    if not len(over):
        return boxed
    a, c = size.index_select(0, over), boxed.index_select(0, over)
    return boxed.index_copy(0, over, (a - _l1_level(a, c, eps)).clamp_min_(0).minimum(c))


def _l1_level(a: Tensor, c: Tensor, eps: float) -> Tensor:
    """t (n, 1) with sum clip(a - t, 0, c) = eps, for rows where t = 0 gives more."""
    look = is_cpu(a.device)
    low = torch.zeros_like(a[:, :1])
    high, t = a.amax(1, keepdim=True), low
    above, below = torch.empty_like(a), torch.empty_like(a)
    for _ in range(_ROUNDS if look else _UNSEEN):
        left = a - t
        torch.gt(left, 0.0, out=above)  # as numbers: booleans cost ten times as much
        free = torch.lt(left, c, out=below).mul_(above).sum(1, keepdim=True)
        excess = left.clamp_min_(0).minimum(c).sum(1, keepdim=True) - eps
        off = excess.abs() > 2e-6 * eps
        if look and not bool(off.any()):
            break
        low, high = torch.where(excess > 0, t, low), torch.where(excess > 0, high, t)
        step = t + excess / free
        outside = ~((step > low) & (step < high))
        t = torch.where(off, torch.where(outside, (low + high) / 2, step), t)
    return t if look else torch.where(off, high, t)  # unseen, so on the safe side
