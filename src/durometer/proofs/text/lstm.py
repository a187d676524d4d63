"""Bounds of an LSTM over words: intervals of its states, one for each number of changed words.

Walking along the sentence, S[k] holds the states after at most k changes:

    S[k] <- step(S[k], the word that stands there)  or  step(S[k - 1], any of its options)

so the budget is kept by a table over (place, changes), and S[0] is a point. Gates are monotone in
their sums, products of intervals are taken at their corners. Both directions are walked; the mean
and the largest states, and the last layer, are intervals, too (Jia et al. 2019, plus the budget).

What a reader would get wrong: intervals of states widen with every free place. They prove little
for a network that was not trained for them, and much for one that was (`training.Hull`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.text.hull import Found, Hull

Interval = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction: gates (input, forget, cell, output) of `hidden` units each."""

    begin: int  # of its parts
    weight: Tensor  # (4 H, H): from the last state
    bias: Tensor  # (4 H,)
    backward: bool

    @property
    def hidden(self) -> int:
        return self.weight.shape[1]


def _step(direction: Direction, word: Interval, state: tuple[Interval, Interval]) -> tuple[
    Interval, Interval
]:  # fmt: skip
    """The next (h, c) from the gates' sums of the word and the last (h, c), all (b, k, ...)."""
    (h_low, h_high), (c_low, c_high) = state
    middle, half = (h_high + h_low) / 2, (h_high - h_low) / 2
    centre = middle @ direction.weight.T + direction.bias
    radius = half @ direction.weight.abs().T
    gates = [(word[0] + centre - radius), (word[1] + centre + radius)]
    low, high = (torch.chunk(gate, 4, dim=-1) for gate in gates)
    (i, f, o) = ((low[k].sigmoid(), high[k].sigmoid()) for k in (0, 1, 3))
    g = (low[2].tanh(), high[2].tanh())
    kept, new = _times(f, (c_low, c_high)), _times(i, g)
    c = (kept[0] + new[0], kept[1] + new[1])
    return _times(o, (c[0].tanh(), c[1].tanh())), c


def _times(positive: Interval, other: Interval) -> Interval:
    """The product with a factor that is never negative."""
    (a, b), (low, high) = positive, other
    return torch.where(low >= 0, a, b) * low, torch.where(high >= 0, b, a) * high


def _states(direction: Direction, hull: Hull) -> Interval:
    """(b, L, H) twice: bounds of the states, at most `most` words changed."""
    length = hull.there.shape[1]
    end = direction.begin + 4 * direction.hidden
    now = hull.now[..., direction.begin : end]
    changed = [now + side[..., direction.begin : end] for side in hull.spread]
    counts = int(hull.most.max()) + 1 if len(hull.most) else 1
    zero = now.new_zeros(len(now), counts, direction.hidden)
    h, c = (zero, zero), (zero, zero)
    moves = hull.placed(hull.movable[..., 1:].any(2).long()) > 0
    found: list[Interval] = [(zero[:, 0], zero[:, 0])] * length
    pick = hull.most[:, None, None].expand(-1, 1, direction.hidden)
    for j in reversed(range(length)) if direction.backward else range(length):
        word = now[:, j, None]
        new_h, new_c = _step(direction, (word, word), (h, c))
        if counts > 1 and bool(moves[:, j].any()):
            before = [(v[0][:, :-1], v[1][:, :-1]) for v in (h, c)]
            also = _step(
                direction, (changed[0][:, j, None], changed[1][:, j, None]), (before[0], before[1])
            )
            new_h, new_c = (
                _joined(mine, other, moves[:, j])
                for mine, other in zip((new_h, new_c), also, strict=True)
            )
        stays = ~hull.there[:, j, None, None]
        h, c = (
            (torch.where(stays, old[0], new[0]), torch.where(stays, old[1], new[1]))
            for old, new in ((h, new_h), (c, new_c))
        )
        found[j] = (h[0].gather(1, pick)[:, 0], h[1].gather(1, pick)[:, 0])
    return torch.stack([f[0] for f in found], dim=1), torch.stack([f[1] for f in found], dim=1)


def _joined(mine: Interval, other: Interval, moves: Tensor) -> Interval:
    """States with k changes: k before this place, or k - 1 before it and this one."""
    at = moves[:, None, None]
    low = torch.where(at, torch.minimum(mine[0][:, 1:], other[0]), mine[0][:, 1:])
    high = torch.where(at, torch.maximum(mine[1][:, 1:], other[1]), mine[1][:, 1:])
    return torch.cat([mine[0][:, :1], low], 1), torch.cat([mine[1][:, :1], high], 1)


def highest(
    directions: list[Direction], weight: Tensor, bias: Tensor, hull: Hull, spec: Tensor
) -> Found:
    """`weight` (C, 2 * states) reads the means of the states, then the largest."""
    both = [_states(d, hull) for d in directions]
    low, high = (torch.cat([b[k] for b in both], dim=2) for k in (0, 1))
    here = hull.there[..., None]
    count = here.sum(1)
    reads = []
    for side in (low, high):
        mean = (side * here).sum(1) / count
        reads.append(torch.cat([mean, side.masked_fill(~here, -torch.inf).amax(1)], dim=1))
    read = spec @ weight  # (b, m, 2 * states)
    lead = (read.clamp_min(0) * reads[1][:, None]).sum(2)
    lead = lead + (read.clamp_max(0) * reads[0][:, None]).sum(2) + spec @ bias
    width = (hull.spread[1] - hull.spread[0]).sum(2)  # (b, L)
    return Found(lead, width.gather(1, hull.places))
