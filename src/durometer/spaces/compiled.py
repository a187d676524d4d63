"""Steps, projections and membership of Lp balls, compiled: one pass over a row instead of thirty.

The same in torch stands in `projections` and `ball`, for accelerators, for half precision, for
whoever wants a gradient through it, and where no compiled library is; tests compare the two.

What a reader would get wrong: the two agree up to rounding, not to the bit. Each row's level is
found in double precision here and by itself, whatever rows stand beside it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from durometer.core.devices import is_cpu
from durometer.kernels.native import Kernel, built
from durometer.kernels.threads import threads_for

NAMES = {torch.float32: "float32", torch.float64: "float64"}


def serves(*tensors: Tensor) -> bool:
    """Whether these can be handed to a kernel: on the host, of one usual type, and no gradient."""
    first = tensors[0]  # of the box: one for all rows, or one for each
    return (
        built()
        and is_cpu(first.device)
        and first.dtype in NAMES
        and all(t.dtype == first.dtype and not t.requires_grad for t in tensors)
    )


@cache
def _kernel(name: str, kind: str, *read: str) -> Kernel:
    shapes = {"low": f"{kind}[boxes, d]", "high": f"{kind}[boxes, d]", "step": f"{kind}[n]"}
    numbers = {"p": "int64", "threads": "int64", "eps": "float64"}
    if name == "sparse_step":
        numbers["rounding"] = "float64"
    arrays = {r: shapes.get(r, f"{kind}[n, d]") for r in read}
    return Kernel(f"{name}_{kind}", n="size", d="size", boxes="size", **numbers, **arrays,
                  out=f"out {kind}[n, d]")  # fmt: skip


def _call(name: str, p: float, numbers: tuple[float, ...], **read: Tensor) -> Tensor:
    first = read["z"]
    out = torch.empty_like(first, memory_format=torch.contiguous_format)
    arrays: list[Any] = [t.contiguous() for t in read.values()]
    _kernel(name, NAMES[first.dtype], *read)(int(p), threads_for(first), *numbers, *arrays, out)
    return out


def project(z: Tensor, origin: Tensor, low: Tensor, high: Tensor, p: float, eps: float) -> Tensor:
    """The nearest points (n, D) of ball and box; p is 1 or 2."""
    return _call("project", p, (eps,), z=z, origin=origin, low=low, high=high)


@cache
def _inside(kind: str) -> Kernel:
    box, points = f"{kind}[boxes, d]", f"{kind}[rows, d]"
    return Kernel(f"inside_{kind}", n="size", rows="size", d="size", boxes="size", p="int64",
                  threads="int64", places="int64[n]", x=points, origin=points, low=box, high=box,
                  reach="float64[rows]", within="out bool[n]")  # fmt: skip


def inside(
    places: Tensor, x: Tensor, origin: Tensor, low: Tensor, high: Tensor, p: float, reach: Tensor
) -> Tensor:
    """(n,) bool: do the points at these places lie in the box and within `reach` (N,)?"""
    within = torch.empty(len(places), dtype=torch.bool)
    arrays = [t.contiguous() for t in (places, x, origin, low, high, reach)]
    norm = 0 if p == math.inf else int(p)
    _inside(NAMES[x.dtype])(norm, threads_for(x), *arrays, within)
    return within


def sparse_step(
    z: Tensor, grad: Tensor, step: Tensor, origin: Tensor, low: Tensor, high: Tensor, p: float,
    eps: float,
) -> Tensor:  # fmt: skip
    """z moved by `step` (n,) along few features; p is 1 or 0."""
    unit = torch.finfo(z.dtype).eps
    return _call("sparse_step", p, (eps, unit), z=z, grad=grad, step=step, origin=origin, low=low,
                 high=high)  # fmt: skip
