"""The two inner loops of a table region, compiled: z to a record, and a gradient to a direction.

`rounded` writes the numbers of a record: moved by (z - z0) * width, whole ones rounded, within the
bounds. `tangent` takes out of a gradient what cannot be followed: for a sum with coefficients a (in
z) it leaves g - l a on the coordinates free to move that way, with the l that keeps the sum, which
is a projection on the cone of feasible directions. As tensors both are a dozen passes over memory.
(kernels/native/tables/rounding.cpp)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from durometer.kernels.arrays import Ints
from durometer.kernels.native import Kernel, Layout
from durometer.kernels.threads import threads_for

COORDINATES = Layout(
    numbers="size",
    features="size",
    numeric="int64[numbers]",
    width="float64[numbers]",
    whole="bool[features]",
)
SUMS = Layout(
    ends="size",
    terms="size",
    starts="int64[ends]",
    places="int64[terms]",
    weights="float64[terms]",
)
_round_records = Kernel(
    "round_records",
    coordinates=COORDINATES,
    n="size",
    features="size",
    coordinate="size",
    threads="int64",
    lift="float64",
    z0="float64[n, coordinate]",
    z="float64[n, coordinate]",
    low="float64[n, features]",
    high="float64[n, features]",
    x="out float64[n, features]",
)
_keep_sums = Kernel(
    "keep_sums",
    sums=SUMS,
    n="size",
    d="size",
    threads="int64",
    z="float64[n, d]",
    low="float64[n, d]",
    high="float64[n, d]",
    grad="out float64[n, d]",
)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Which features are numbers, and what a unit of their search coordinate is."""

    numeric: Tensor  # (k,) positions of the features
    width: Tensor  # (k,)
    whole: Tensor  # (d,) bool


class Sums(NamedTuple):
    """Linear equalities in search coordinates, one behind the other."""

    starts: Ints  # (sums + 1,) first term of each
    places: Tensor  # (terms,)
    weights: Tensor  # (terms,)


def rounded(
    x0: Tensor, z0: Tensor, z: Tensor, low: Tensor, high: Tensor,
    coordinates: Coordinates, lift: float,
) -> Tensor:  # fmt: skip
    """(n, d) records; `lift` is what a step of a whole number is lifted by before it is floored."""
    out = x0.clone(memory_format=torch.contiguous_format)
    read = (t.contiguous() for t in (z0, z, low, high))
    _round_records(COORDINATES.pack(coordinates), threads_for(z), lift, *read, out)
    return out


def tangent(
    grad: Tensor, z: Tensor, low: Tensor, high: Tensor, sums: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """(n, D) the part of `grad` that leads neither out of [low, high] nor off the sums."""
    inside = torch.where(grad > 0, z < high, z > low)
    out = torch.where(inside, grad, 0.0)
    if sums:
        flat = Sums(
            np.cumsum([0, *(len(places) for places, _ in sums)]),
            torch.cat([places for places, _ in sums]),
            torch.cat([weights for _, weights in sums]),
        )
        read = (t.contiguous() for t in (z, low.expand_as(z), high.expand_as(z)))
        _keep_sums(flat, threads_for(z), *read, out)
    return out
