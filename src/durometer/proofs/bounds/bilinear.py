"""Products of two varying parts, and what is made of them: attention, layer norm.

For a and b between bounds with centres a', b' and radii r, s

    a b = b' a + a' b - a' b' + e,    |e| = |a - a'| |b - b'| <= r s,

a linear map and an error, and the same for sums of products (a matrix times a matrix). Layer norm
is (a - mean a) times 1 / sqrt(variance + eps), its square and its root being curves; attention is
two matrix products with a softmax between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from durometer.proofs.bounds.steps import Bound, Step, bent, either, monotone, softmax_bounds

Form = Callable[[Tensor, Tensor], Tensor]


def bilinear(name: str, inputs: tuple[str, str], call: Form, pointwise: bool = False) -> Step:
    """A product, or a sum of products, with coefficients that are not negative."""

    def interval(a: Bound, b: Bound) -> Bound:
        (ac, ar), (bc, br) = middle(a), middle(b)
        at = call(ac, bc)
        off = call(ac.abs(), br) + call(ar, bc.abs()) + call(ar, br)
        low, high = at - off, at + off
        if pointwise:
            corners = torch.stack([call(u, v) for u in a for v in b])
            low, high = low.maximum(corners.amin(0)), high.minimum(corners.amax(0))
        return low, high

    return Step(name, "bilinear", inputs, call, interval)


def middle(side: Bound) -> Bound:
    """Centre and radius."""
    return (side[0] + side[1]) / 2, (side[1] - side[0]) / 2


def layer_norm(name: str, inputs: tuple[str, ...], m: nn.LayerNorm) -> list[Step]:
    """x -> (x - mean) -> its square -> variance -> 1 / sqrt -> product -> weight and bias."""
    dims = tuple(range(-len(m.normalized_shape), 0))
    count = math.prod(m.normalized_shape)
    limit = max(count - 1, 0) ** 0.5  # no number is farther from the mean, in deviations
    off, same, square, var, root, scaled = (
        f"{name}.{part}" for part in ("off", "off2", "sq", "var", "rt", "pr")
    )

    def centred(x: Tensor) -> Tensor:
        return x - x.mean(dims, keepdim=True)

    def around(side: Bound) -> Bound:
        low, high = side
        own = (high - low) / count
        return (
            low - high.mean(dims, keepdim=True) + own,
            high - low.mean(dims, keepdim=True) - own,
        )

    def around_size(x: Tensor) -> Tensor:
        return x + x.mean(dims, keepdim=True)

    def variance(x: Tensor) -> Tensor:
        return x.mean(dims, keepdim=True) + m.eps

    def finished(x: Tensor) -> Tensor:
        out = x * m.weight if m.weight is not None else x
        return out + m.bias if m.bias is not None else out

    product = bilinear(scaled, (off, root), torch.mul, pointwise=True)

    def limited(a: Bound, b: Bound) -> Bound:
        low, high = product.interval(a, b)
        return low.clamp(-limit, limit), high.clamp(-limit, limit)

    terms = count + 16
    return [
        Step(off, "affine", inputs, centred, around, terms=terms, size=around_size),
        # The kernel's mean for the variance and its mean for the numerator may round apart.
        Step(same, "affine", inputs, centred, around, terms=terms, size=around_size),
        bent(square, (same,), "square", torch.square),
        Step(var, "affine", (square,), variance, monotone(variance), terms=terms),
        bent(root, (var,), "rsqrt", torch.rsqrt),
        Step(scaled, "bilinear", (off, root), torch.mul, limited),
        Step(name, "affine", (scaled,), finished, either(finished), terms=4),
    ]


def attention(name: str, inputs: tuple[str, ...], scale: float | None, size: int) -> list[Step]:
    """softmax(q k' / sqrt(size)) v, without masks."""
    asked, keyed, valued = inputs
    factor = size**-0.5 if scale is None else scale
    turned, raw, scores, weights = (f"{name}.{part}" for part in ("kt", "qk", "s", "p"))

    def transposed(k: Tensor) -> Tensor:
        return k.transpose(-2, -1)

    def times(x: Tensor) -> Tensor:
        return x * factor

    def soft(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    return [
        Step(turned, "affine", (keyed,), transposed, monotone(transposed), terms=0),
        bilinear(raw, (asked, turned), torch.matmul),
        Step(scores, "affine", (raw,), times, either(times), terms=4),
        Step(weights, "interval", (scores,), soft, lambda s: softmax_bounds(s, -1)),
        bilinear(name, (weights, valued), torch.matmul),
    ]


def plain_attention(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Without a mask, dropout or grouped heads."""
    rest: dict[str, Any] = dict(
        zip(("attn_mask", "dropout_p", "is_causal"), args[3:], strict=False)
    )
    rest |= {k: v for k, v in kwargs.items() if k not in ("scale", "query", "key", "value")}
    return not any(rest.values()) and len(args) >= 3
