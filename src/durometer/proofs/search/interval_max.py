"""The highest value of a linear function on an Lp ball in a box, in closed form, row by row.

With rooms r_i (how far feature i can go in the direction of its weight) the best change is

    Linf  min(eps, r)                        L2  min(t |w|, r), t such that the norm is eps
    L1    r for the largest |w| first,       L0  r for the eps largest |w| r
          until the sum is eps
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.spaces.projections import level, room_to


def interval_max(w: Tensor, x: Tensor, low: Tensor, high: Tensor, p: float, eps: Tensor) -> Tensor:
    """(n, d) the change of x (n, d) within the ball and the box that raises w x (n, d) most.

    `eps` (n, 1). `low` and `high` bound x + change.
    """
    room = room_to(x, w.sign(), low, high)
    size = w.abs()
    if p == math.inf:
        best = room.minimum(eps)
    elif p == 2.0:
        t = level(size.square(), room.square(), eps.square().expand(len(w), 1)).sqrt()
        best = (t * size).minimum(room)
    elif p == 1.0:
        order = size.argsort(dim=1, descending=True)
        sorted_room = room.gather(1, order)
        before = sorted_room.cumsum(1) - sorted_room
        part = (eps - before).clamp_min(0.0).minimum(sorted_room)
        best = torch.zeros_like(room).scatter_(1, order, part)
    else:
        count = min(int(eps.max()), w.shape[1])
        chosen = (size * room).topk(count, dim=1).indices
        best = torch.zeros_like(room).scatter_(1, chosen, room.gather(1, chosen))
    return best * w.sign()
