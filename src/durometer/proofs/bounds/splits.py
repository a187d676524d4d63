"""Splitting: a box that is too wide for its bound is cut in two, until every part is proven.

Each round bounds all parts of all rows at once. A part whose bound is good is forgotten; the others
are cut at the feature that matters most to the bound (its weight times its width), whole numbers
between two of them. A row is proven when none of its parts is left, and given up when it has used
its number of parts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from durometer.proofs.aten.program import Program
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain


def split(
    program: Program,
    held: Domain,
    spec: Tensor,
    sure: Callable[[Tensor, Tensor], Tensor],
    most: int,
) -> Tensor:
    """(n,) bool: rows all of whose parts are proven; `sure(leads, rows)` judges parts."""
    n = len(held.centre)
    given_up = torch.zeros(n, dtype=torch.bool)
    used = torch.ones(n, dtype=torch.int64)
    of = torch.arange(n)
    low, high = held.low.clone(), held.high.clone()
    while len(of):
        part = held.take(of).within(low, high)
        network = Network(program, part)
        with torch.no_grad():
            network.prepare()
            weight, _ = network.linear(spec[of])
            lead = network.highest(spec[of])
        done = sure(lead, of) | ~part.reachable() | given_up[of]
        of, low, high, weight, lead = (v[~done] for v in (of, low, high, weight, lead))
        if not len(of):
            break
        worst = weight.gather(1, lead.argmax(1)[:, None, None].expand(-1, 1, weight.shape[2]))[:, 0]
        low, high, of, stuck = _bisect(held, of, low, high, worst)
        given_up[stuck] = True
        used += torch.bincount(of, minlength=n) // 2
        given_up |= used > most
        keep = ~given_up[of]
        of, low, high = of[keep], low[keep], high[keep]
    return ~given_up


def _bisect(
    held: Domain, of: Tensor, low: Tensor, high: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both halves of every part, whose they are, and rows that cannot be cut."""
    step = held.step
    code = torch.zeros(len(step), dtype=torch.bool)
    for places in held.blocks:
        code[places] = True
    width = torch.where(code, 0.0, high - low)
    width = torch.where(width > 0.5 * step, width, 0.0)  # one whole number is not cut
    gain = (weight.abs() + 1e-12) * width
    best, at = gain.max(1)
    can = best > 1e-9
    stuck = of[~can]
    of, low, high, at = of[can], low[can], high[can], at[can][:, None]
    bottom, top, unit = low.gather(1, at), high.gather(1, at), step[at]
    middle = (bottom + top) / 2
    base = held.centre[of].gather(1, at)
    # Whole numbers lie `unit` apart, counted from the record's own.
    floor = base + ((middle - base) / unit.clamp_min(1e-300)).floor() * unit
    below = torch.where(unit > 0, floor + 0.25 * unit, middle)  # rounding is far less than that
    above = torch.where(unit > 0, floor + 0.75 * unit, middle)
    first = high.scatter(1, at, below.minimum(top))
    second = low.scatter(1, at, above.maximum(bottom))
    return torch.cat([low, second]), torch.cat([first, high]), torch.cat([of, of]), stuck
