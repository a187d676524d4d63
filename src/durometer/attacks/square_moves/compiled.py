"""The moves of Square, compiled: one pass over a row instead of thirty operations on all."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from durometer.kernels.native import Kernel
from durometer.kernels.threads import threads_for
from durometer.spaces.ball import LpRegion
from durometer.spaces.compiled import NAMES, serves

__all__ = ["bumps", "corners", "serves"]

Layout = tuple[int, int, int, int, int]  # channels, height, width, side, flat
_CANVAS = {"c": "int64", "h": "int64", "w": "int64", "side": "int64", "flat": "int64"}


@cache
def _corners(kind: str) -> Kernel:
    ends = {name: f"{kind}[n, d]" for name in ("z", "low", "high")}
    return Kernel(f"square_corners_{kind}", n="size", d="size", numbers="size", **_CANVAS,
                  threads="int64", **ends, u="float64[n, numbers]",
                  out=f"out {kind}[n, d]")  # fmt: skip


@cache
def _bumps(kind: str) -> Kernel:
    numbers = {"threads": "int64", "p": "int64", "eps": "float64"}
    arrays = {
        "z": "n, d", "origin": "n, d", "low": "boxes, d", "high": "boxes, d", "bump": "cells, cells"
    }  # fmt: skip
    return Kernel(f"square_bumps_{kind}", n="size", d="size", numbers="size", boxes="size",
                  cells="size", **_CANVAS, **numbers,
                  **{name: f"{kind}[{shape}]" for name, shape in arrays.items()},
                  u="float64[n, numbers]", out=f"out {kind}[n, d]")  # fmt: skip


def corners(canvas: Layout, z: Tensor, low: Tensor, high: Tensor, u: Tensor) -> Tensor:
    """z (n, D) with one square of each row at the ends `low` and `high` of the ball."""
    return _call(_corners, (*canvas, threads_for(z)), z, low, high, u)


def bumps(canvas: Layout, region: LpRegion, z: Tensor, bump: Tensor, u: Tensor) -> Tensor:
    """z (n, D) with one square of each row raised by a bump and another one emptied."""
    numbers = (*canvas, threads_for(z), int(region.p), region.eps)
    return _call(_bumps, numbers, z, region.origin, region.low, region.high, bump, u)


def _call(kernel: Any, numbers: tuple[float, ...], z: Tensor, *read: Tensor) -> Tensor:
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    arrays = [t.contiguous() for t in (z, *read)]
    kernel(NAMES[z.dtype])(*numbers, *arrays, out)
    return out
