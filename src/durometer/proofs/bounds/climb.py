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

from durometer.proofs.bounds.crown import Free, Network

_SLOPES, _PUSHES = 0.2, 0.05  # rates
_FADES = 0.9, 0.999  # of Adam


def climb(
    network: Network, weight: Tensor, rounds: int, start: Free | None = None
) -> tuple[Tensor, Free]:
    """(n, m): how high weights can reach, and the choices to go on from."""
    free = _choices(network, start)
    with torch.no_grad():
        best = network.highest(weight, free=_used(network, free))
    values = [*free.below.values(), *free.pushed.values()]
    if not values or not rounds:
        return best, free
    least = {s.name: s.slope for s in network.steps if s.name in free.below}
    rates = [_SLOPES] * len(free.below) + [_PUSHES] * len(free.pushed)
    first, second = ([torch.zeros_like(v) for v in values] for _ in range(2))
    for t in range(1, rounds + 1):
        with torch.enable_grad():
            for v in values:
                v.requires_grad_()
            found = network.highest(weight, free=_used(network, free))
            if not found.requires_grad:  # an interval step stands between
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
            for n, v in free.below.items():
                v.clamp_(least[n], 1)
            for v in free.pushed.values():
                v.clamp_min_(0)
    for v in values:
        v.requires_grad_(False)
    return best, free


def _choices(network: Network, start: Free | None) -> Free:
    """Where the climb begins: at the plain walk's slopes, or at what is handed on."""
    start = start or Free()
    below = {
        n: start.below.get(n, line.below).clone()
        for n, line in network.bent.items()
        if bool(line.loose.any())
    }
    pushed = {
        n: start.pushed.get(n, torch.zeros_like(network.bent[n].below)).clone()
        for n, sign in network.signs.items()
        if bool((sign != 0).any())
    }
    return Free(below, pushed)


def _used(network: Network, free: Free) -> Free:
    """The choices where there is one: a ReLU that is surely on has its own slope."""
    lines = network.bent
    return Free(
        {n: torch.where(lines[n].loose, v, lines[n].below) for n, v in free.below.items()},
        {n: v * network.signs[n] for n, v in free.pushed.items()},
    )
