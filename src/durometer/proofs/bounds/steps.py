"""One step of a network as bounds see it, and how intervals pass the usual kinds.

affine      any fixed map L u + b: linear, convolution, batch norm (eval), average pooling,
            reshaping, adding, joining. Walking back needs no formula of its own: autograd of an
            affine map *is* its transpose
bent        one number at a time: ReLU and its kin exactly, smooth ones between two parallels
bilinear    a product of two varying parts, or a sum of such (`bilinear.py`)
pooled      the largest of several: at least the one that is surely large
interval    softmax: bounds of the outputs, from bounds of the inputs
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Bound = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Step:
    """One node: what it computes, from which nodes, and how bounds pass it."""

    name: str
    kind: str  # "input", "affine", "bent", "bilinear", "pooled", "interval"
    inputs: tuple[str, ...]
    call: Callable[..., Any]  # of the inputs' values
    interval: Callable[..., Bound]  # of the inputs' bounds
    curve: str = ""  # of a bent step
    slope: float = 0.0  # of a leaky ReLU
    terms: int | None = None  # roundings behind one output; None: all numbers of the input
    size: Callable[..., Tensor] | None = None  # what roundings are a share of, from |inputs|
    unit: float = 2.0**-24  # of the model's own arithmetic


def monotone(call: Callable[..., Tensor]) -> Callable[..., Bound]:
    """Of a map that rises in every variable."""
    return lambda *sides: (call(*(s[0] for s in sides)), call(*(s[1] for s in sides)))


def either(call: Callable[..., Tensor]) -> Callable[..., Bound]:
    """Of a map that rises or falls in its one variable, number by number."""

    def interval(side: Bound) -> Bound:
        a, b = call(side[0]), call(side[1])
        return a.minimum(b), a.maximum(b)

    return interval


def bent(
    name: str, inputs: tuple[str, ...], curve: str, call: Callable[..., Any], slope: float = 0.0
) -> Step:
    """A curve, number by number."""

    def interval(side: Bound) -> Bound:
        a, b = call(side[0]), call(side[1])
        low, high = a.minimum(b), a.maximum(b)
        if curve in ("gelu", "silu"):  # they dip below 0 before they rise
            dips = (side[0] < 0) & (side[1] > -3)
            low = torch.where(dips, low.clamp_max(-0.28), low)
        if curve == "square":
            low = torch.where((side[0] <= 0) & (side[1] >= 0), 0.0, low)
        return low, high

    return Step(name, "bent", inputs, call, interval, curve, slope)


def softmax_bounds(side: Bound, dim: int) -> Bound:
    """Each share is least where it is lowest and all others highest."""
    low, high = ((t - side[1].amax(dim, keepdim=True)).exp() for t in side)
    down = low / (low + high.sum(dim, keepdim=True) - high).clamp_min(1e-300)
    up = high / (high + low.sum(dim, keepdim=True) - low).clamp_min(1e-300)
    return down.clamp(0, 1), up.clamp(0, 1)


def log_softmax_bounds(side: Bound, dim: int) -> Bound:
    """The same in logarithms; where the share is too small for a number, by the largest rival."""
    down, up = softmax_bounds(side, dim)
    far = side[0] - side[1].amax(dim, keepdim=True) - math.log(side[0].shape[dim])
    return far.maximum(down.log()), up.clamp_min(1e-300).log()
