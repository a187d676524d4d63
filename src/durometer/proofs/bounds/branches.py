"""Branching on ReLUs: what one bound cannot prove is asked for "on" and for "off" apart.

A network whose ReLUs all stand on one side is affine, and its bound is exact; most rows need only a
few of them fixed (Bunel et al. 2020). Each round bounds all parts of all rows at once, with slopes
and multipliers climbed from the parent's (beta-CROWN, Wang et al. 2021). A part that is good, or
empty, is forgotten; the others are cut at the ReLU whose chord costs the bound most. A row is
proven when none of its parts is left, and given up when it has used its number of parts.

What a reader would get wrong: with many features this beats cutting the box (`splits.py`), which
must halve them one by one; with a handful it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.program import Program
from durometer.proofs.bounds.climb import climb
from durometer.proofs.bounds.crown import Free, Network
from durometer.proofs.bounds.domain import Domain

MOST = 1024  # ReLUs of a network: more are not worth it
_ROUNDS = 8  # of climbing, a part
_AT_ONCE = 128  # parts
_MEMORY = 2 * 10**7  # numbers carried backwards at a time


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of rows: whose they are, which ReLUs are fixed, where the climb goes on from."""

    of: Tensor
    signs: dict[int, Tensor]
    free: Free

    def take(self, at: Tensor) -> _Parts:
        signs = {n: v[at] for n, v in self.signs.items()}
        return _Parts(self.of[at], signs, self.free.take(at))


def branches(
    program: Program,
    held: Domain,
    spec: Tensor,
    sure: Callable[[Tensor, Tensor], Tensor],
    most: int,
) -> Tensor:
    """(n,) bool: rows all of whose parts are proven; `sure(leads, rows)` judges parts."""
    n, size = held.centre.shape
    one = Network(program, held.take(torch.tensor([0])))
    with torch.no_grad():
        one.prepare()
    if one.unstable() > MOST:
        return torch.zeros(n, dtype=torch.bool)
    each = max(1, min(_AT_ONCE, _MEMORY // (max(1, one.unstable()) * size)))
    given_up = torch.zeros(n, dtype=torch.bool)
    used = torch.ones(n, dtype=torch.int64)
    queue = [_Parts(torch.arange(n), {}, Free())]
    while queue:
        parts = queue.pop()
        parts = parts.take((~given_up[parts.of]).nonzero()[:, 0])
        for start in range(0, len(parts.of), each):
            now = parts.take(torch.arange(start, min(start + each, len(parts.of))))
            network = Network(program, held.take(now.of), now.signs)
            with torch.no_grad():
                network.prepare()
            lead, free = climb(network, spec[now.of], _ROUNDS, now.free)
            left = ~(sure(lead, now.of) | network.empty())
            cut, stuck = _cut(network, spec[now.of], lead, free, now, left)
            given_up[stuck] = True
            used += torch.bincount(cut.of, minlength=n) // 2
            given_up |= used > most
            if len(cut.of):
                queue.append(cut)
    return ~given_up


def _cut(
    network: Network, spec: Tensor, lead: Tensor, free: Free, parts: _Parts, left: Tensor
) -> tuple[_Parts, Tensor]:
    """Both sides of the ReLU that costs most, for the parts that are left; rows without one."""
    cuts = [(k, op) for k, op in enumerate(network.program.operations) if isinstance(op, Hinge)]
    n = len(spec)
    worst = lead.argmax(1)
    seen: dict[int, Tensor] = {}
    with torch.no_grad():
        network.highest(spec[torch.arange(n), worst][:, None], free=Free(seen=seen))
    costs = []
    for k, op in cuts:
        line = network.relaxations[k]
        low, high = network.bounds[op.inputs[0]]
        w = seen.get(k, torch.zeros_like(low)[:, None])[:, 0]
        room = high.clamp_min(0).minimum((-low).clamp_min(0))
        cost = w.clamp_min(0) * line.upper_bias + (-w).clamp_min(0) * room * 0.5
        costs.append(torch.where(line.unstable, cost + 1e-12, 0.0).flatten(1))
    sizes = [c.shape[1] for c in costs]
    best, at = torch.cat(costs, dim=1).max(1) if costs else (torch.zeros(n), torch.zeros(n))
    can = left & (best > 0)
    stuck = parts.of[left & ~can]
    rows = can.nonzero()[:, 0]
    both = torch.cat([rows, rows])
    side = torch.cat([torch.ones(len(rows)), -torch.ones(len(rows))]).to(torch.int8)
    signs, start = {}, 0
    for (name, _), size in zip(cuts, sizes, strict=True):
        like = network.relaxations[name].lower_slope
        old = parts.signs.get(name)
        flat = torch.zeros(len(both), size, dtype=torch.int8)
        if old is not None:
            flat = old[both].flatten(1).clone()
        place = at[both] - start
        mine = ((place >= 0) & (place < size)).nonzero()[:, 0]
        flat[mine, place[mine]] = side[mine]
        signs[name] = flat.reshape(len(both), *like.shape[1:])
        start += size
    return _Parts(parts.of[both], signs, free.take(both)), stuck
