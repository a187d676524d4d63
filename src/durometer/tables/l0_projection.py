"""L0 in a table: at most eps *features* changed; a category or a one-hot group is one feature.

In search coordinates a category is a block of 0/1, and so is a one-hot group: to change it, two
coordinates must move together. A projection that keeps the eps largest *coordinates* moves one of
them, and the snap puts it back: with eps 1 no category would ever change.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def keep_largest(
    z: Tensor, origin: Tensor, low: Tensor, high: Tensor, blocks: Sequence[Tensor], eps: float
) -> Tensor:
    """(n, D): of all changes from `origin` the `eps` largest features', within the box.

    `blocks` are the coordinates of each one-hot code. A code counts as changed where another of its
    coordinates is the largest now; it is set to that one, and how far ahead it is, is its size.
    """
    boxed = z.maximum(low).minimum(high)
    size = (boxed - origin).abs()
    codes = []
    for places in blocks:
        home = origin[:, places].argmax(1)
        pick = z[:, places].argmax(1)
        at_home = z[:, places].gather(1, home[:, None])[:, 0]
        ahead = z[:, places].amax(1) - at_home
        pick = torch.where(ahead > 0, pick, home)  # ties go to the original
        one = origin[:, places].amax(1, keepdim=True)  # a 1 as the encoding writes it
        code = torch.nn.functional.one_hot(pick, len(places)).to(z.dtype) * one
        codes.append((places, code, ahead.clamp_min(0.0)))
        size = size.index_fill(1, places, -1.0)  # they do not count one by one
    total = torch.cat([size, *(a[:, None] for _, _, a in codes)], dim=1)
    count = min(int(eps), total.shape[1])
    kept = torch.zeros_like(total, dtype=torch.bool)
    kept.scatter_(1, total.topk(count, dim=1).indices, True)
    kept &= total > 0
    out = torch.where(kept[:, : z.shape[1]], boxed, origin)
    for k, (places, code, _) in enumerate(codes, z.shape[1]):
        out[:, places] = torch.where(kept[:, k, None], code, origin[:, places])
    return out
