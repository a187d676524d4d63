"""The last linear bound of a network, maximised over what the relations of a table allow.

A walk back ends with a linear function of the input that lies above the lead on the whole box. Its
highest point under relations, whole numbers and the ball is a mixed-integer program, and that is
lower than the box's corner wherever relations tie together what the corner moves apart.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.inputs import SINGLE
from durometer.proofs.search.milp import best
from durometer.tables.region import TableRegion


def under_rules(
    network: Network, spec: Tensor, region: TableRegion, k: int, layer: Any, seconds: float
) -> Tensor | None:
    """(1, m): bounds of the leads of record k; None where a category can move."""
    with torch.no_grad():
        weight, const = network.linear(spec)
    low, high = (side[k : k + 1] for side in region.box())
    raw = _raw(weight[0], const[0], layer, region, k, bool((high > low).any()), low, high)
    if raw is None:
        return None
    found = []
    unit = max(SINGLE, network.program.operations[0].unit)
    blur = 8 * unit * torch.maximum(low.abs(), high.abs())[0]  # inputs are rounded, scaled, rounded
    box = region.box()
    for w, b in zip(*raw, strict=True):
        top, _ = best(region, k, box, [(w.numpy(), float(b))], seconds)
        found.append(top + float((w.abs() * blur).sum()) + 1e-6)
    return torch.tensor([found], dtype=torch.float64)


def _raw(
    weight: Tensor, const: Tensor, layer: Any, region: TableRegion, k: int, moves: bool,
    low: Tensor, high: Tensor,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """The linear function in the table's own units."""
    if not moves:
        return None
    if layer is None:
        return weight, const
    numbers, width = layer.numbers, layer.width.double()
    out = weight.new_zeros(len(weight), region.x0.shape[1])
    count = len(numbers)
    out[:, numbers] = weight[:, :count] / width
    const = const - (weight[:, :count] * (layer.low.double() / width)).sum(1)
    at = count
    for group in layer.one_hot_groups:
        out[:, group] = weight[:, at : at + len(group)]
        at += len(group)
    for i, codes in layer.codes:
        if float(high[0, i]) > float(low[0, i]):
            return None
        code = torch.tensor(codes, dtype=torch.float64)
        const = const + weight[:, at : at + len(codes)] @ (region.x0[k, i] == code).double()
        at += len(codes)
    return out, const
