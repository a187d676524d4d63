"""Better bounds by gradient: alpha-CROWN (Xu et al. 2021) and beta-CROWN (Wang et al. 2021).

Two things in a walk back are free: the slope below an unstable ReLU, anywhere in [0, 1], and, where
ReLUs are known to be on or off, a multiple >= 0 of that condition. Every choice gives a valid
bound, so this climbs for some rounds and keeps, lead by lead, the lowest bound it has seen.

What a reader would get wrong: the steps are Adam's, but not `torch.optim`'s: making one of those
for the first time imports torch's compiler, four seconds that a proof of a small network is not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.proofs.aten.curves import Hinge
from durometer.proofs.bounds.crown import Free, Network

_SLOPES, _PUSHES = 0.2, 0.05  # rates
_FADES = 0.9, 0.999  # of Adam


def climb(
    network: Network, weight: Tensor, rounds: int, start: Free | None = None
) -> tuple[Tensor, Free]:
    """(n, m): how high weights can reach, and the choices to go on from."""
    free = _choices(network, start)
    with torch.no_grad():
        best = network.highest(weight, free=used(network, free))
    values = [*free.alpha.values(), *free.beta.values()]
    if not values or not rounds:
        return best, free
    least = {k: _hinge(network, k).slope.clamp_max(1.0) for k in free.alpha}
    rates = [_SLOPES] * len(free.alpha) + [_PUSHES] * len(free.beta)
    first, second = ([torch.zeros_like(v) for v in values] for _ in range(2))
    for t in range(1, rounds + 1):
        with torch.enable_grad():
            for v in values:
                v.requires_grad_()
            found = network.highest(weight, free=used(network, free))
            if not found.requires_grad:  # an operation known by its bounds stands between
                break
            grads = torch.autograd.grad(found.sum(), values, allow_unused=True)
        best = best.minimum(found.detach())
        with torch.no_grad():
            for v, g, a, b, rate in zip(values, grads, first, second, rates, strict=True):
                v.requires_grad_(False)
                if g is not None:
                    a.lerp_(g, 1 - _FADES[0])
                    b.lerp_(g * g, 1 - _FADES[1])
                    size = (b / (1 - _FADES[1] ** t)).sqrt() + 1e-8
                    v -= rate * (a / (1 - _FADES[0] ** t)) / size
            for k, v in free.alpha.items():
                v.copy_(v.maximum(least[k].expand_as(v)).clamp_max(1.0))
            for v in free.beta.values():
                v.clamp_min_(0)
    for v in values:
        v.requires_grad_(False)
    return best, free


def _hinge(network: Network, k: int) -> Hinge:
    held = network.program.operations[k]
    if not isinstance(held, Hinge):
        raise TypeError(f"operation {k} is a {type(held).__name__}: only a Hinge is ever unstable")
    return held


def _choices(network: Network, start: Free | None) -> Free:
    """Where the climb begins: at the plain walk's slopes, or at what is handed on."""
    start = start or Free()
    alpha = {
        k: start.alpha.get(k, line.lower_slope).clone()
        for k, line in network.relaxations.items()
        if bool(line.unstable.any())
    }
    beta = {
        k: start.beta.get(k, torch.zeros_like(network.relaxations[k].lower_slope)).clone()
        for k, sign in network.signs.items()
        if bool((sign != 0).any())
    }
    return Free(alpha, beta)


def used(network: Network, free: Free) -> Free:
    """The choices where there is one: a ReLU that is surely on has its own slope."""
    lines = network.relaxations
    return Free(
        {k: torch.where(lines[k].unstable, v, lines[k].lower_slope) for k, v in free.alpha.items()},
        {k: v * network.signs[k] for k, v in free.beta.items() if k in network.signs},
    )
