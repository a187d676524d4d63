"""The two inner loops of a table region, compiled: z to a record, and a gradient to a direction.

`rounded` writes the numbers of a record: moved by (z - z0) * width, whole ones rounded, within the
bounds. `tangent` takes out of a gradient what cannot be followed: for a sum with coefficients a (in
z) it leaves g - l a on the coordinates free to move that way, with the l that keeps the sum, which
is a projection on the cone of feasible directions. As tensors both are a dozen passes over memory.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from assay.kernels.compile import kernel

_ROUNDS = 6  # of finding out which coordinates are free


def rounded(
    x0: Tensor, z0: Tensor, z: Tensor, low: Tensor, high: Tensor,
    numeric: Tensor, width: Tensor, whole: Tensor, lift: float,
) -> Tensor:  # fmt: skip
    """(n, d) records; `lift` is what a step of a whole number is lifted by before it is floored."""
    out = x0.clone(memory_format=torch.contiguous_format)
    _round(
        out.numpy(), z0.numpy(), z.numpy(), low.numpy(), high.numpy(),
        numeric.numpy(), width.numpy(), whole.numpy(), lift,
    )  # fmt: skip
    return out


@kernel
def _round(x, z0, z, low, high, numeric, width, whole, lift):  # type: ignore[no-untyped-def]
    for row in range(len(x)):
        for k in range(len(numeric)):
            i = numeric[k]
            was = x[row, i]
            value = was + (z[row, k] - z0[row, k]) * width[k]
            if whole[i]:
                step = value - was
                value = was + math.copysign(math.floor(abs(step) + lift), step)
            x[row, i] = min(max(value, low[row, i]), high[row, i])


def tangent(
    grad: Tensor, z: Tensor, low: Tensor, high: Tensor, sums: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """(n, D) the part of `grad` that leads neither out of [low, high] nor off the sums."""
    inside = torch.where(grad > 0, z < high, z > low)
    out = torch.where(inside, grad, 0.0)
    if sums:
        starts = np.cumsum([0, *(len(places) for places, _ in sums)])
        places = torch.cat([places for places, _ in sums]).numpy()
        weights = torch.cat([weights for _, weights in sums]).to(z.dtype).numpy()
        _keep(out.numpy(), z.numpy(), low.numpy(), high.numpy(), starts, places, weights)
    return out


@kernel
def _keep(grad, z, low, high, starts, places, weights):  # type: ignore[no-untyped-def]
    free = np.empty(len(places), dtype=np.bool_)
    moved = np.empty(len(places))
    for row in range(len(grad)):
        for s in range(len(starts) - 1):
            free[:] = True
            for _ in range(_ROUNDS):
                top, bottom = 0.0, 1e-300
                for t in range(starts[s], starts[s + 1]):
                    if free[t]:
                        top += weights[t] * grad[row, places[t]]
                        bottom += weights[t] * weights[t]
                same = True
                for t in range(starts[s], starts[s + 1]):
                    at = places[t]
                    moved[t] = grad[row, at] - top / bottom * weights[t]
                    can = z[row, at] < high[row, at] if moved[t] > 0 else z[row, at] > low[row, at]
                    same &= can == free[t]
                    free[t] = can
                if same:
                    break
            for t in range(starts[s], starts[s + 1]):
                grad[row, places[t]] = moved[t] if free[t] else 0.0
