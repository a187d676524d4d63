"""How far a step's own floating point may be from the exact result, over whole intervals.

A sum of n products in any order is off by at most g(n) sum |w| |x|, g(n) = n u / (1 - n u)
(Higham 2002, section 3.1). Every number of the model is then (step of computed inputs) + e with
|e| <= E: intervals are widened by E, and a walk back adds |weight| E.

What a reader would get wrong: the transcendental curves' share (16 units) is measured for torch's
kernels on a processor, not proven.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.proofs.bounds.steps import Bound, Step

_CURVE = 16  # units, of a curve's value and its argument


def rounding(step: Step, taken: list[Bound], found: Bound) -> Tensor | None:
    """(n, ...): the bound E of a step between these bounds; None: it computes nothing."""
    u = step.unit
    sizes = [torch.maximum(low.abs(), high.abs()) for low, high in taken]
    out = torch.maximum(found[0].abs(), found[1].abs())
    if step.kind == "affine":
        terms = sum(s[0].numel() for s in sizes) + 8 if step.terms is None else step.terms
        if not terms:
            return None
        if step.size is not None:
            return _gamma(terms, u) * step.size(*sizes).expand_as(out)
        low, high = step.interval(*((-s, s) for s in sizes))
        return _gamma(terms, u) * torch.maximum(low.abs(), high.abs())
    if step.kind == "bent":
        if step.curve == "relu":
            return None
        return _CURVE * u * (out + sizes[0])
    if step.kind == "bilinear":
        terms = sizes[0].shape[-1] + 10
        return _gamma(terms, u) * torch.as_tensor(step.call(*sizes)).expand_as(out)
    if step.kind == "interval":  # softmax and its logarithm
        reach = sizes[0].flatten(1).amax(1).reshape(-1, *[1] * (out.ndim - 1))
        terms = math.prod(sizes[0].shape[1:]) + 30
        return u * (terms + 4 * reach) * out.clamp_min(1.0)
    return None


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)
