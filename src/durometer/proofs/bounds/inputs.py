"""From a region to the domain that a network's bounds begin with.

Without a table input these are the region's own features. Behind a table input (numbers scaled,
codes one-hot) they are its outputs, so that a category that can change is a block of which one is
on, and not a number between two codes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from durometer.proofs.bounds.domain import Domain
from durometer.spaces.ball import LpRegion
from durometer.spaces.region import Region
from durometer.tables.box import box
from durometer.tables.region import TableRegion

SINGLE = 2.0**-24  # what a network in single precision may round an input by, relatively


def domain(
    region: Region, layer: Any = None, anywhere: bool = False, unit: float = SINGLE
) -> Domain:
    """The domain of each row.

    `anywhere`: whatever eps says, all that can move may move freely. `unit` is the rounding of the
    type that inputs are turned into; in front of a table input never finer than single precision.
    """
    unit = max(unit, SINGLE)
    if isinstance(region, TableRegion):
        return _table(region, layer, anywhere, unit)
    low, high = (side.flatten(1).double() for side in region.box())
    centre = region.decode(region.origin).flatten(1).double()
    n, size = centre.shape
    p, eps = math.inf, torch.zeros(n, 1, dtype=torch.float64)
    scale = torch.ones(size, dtype=torch.float64)
    if isinstance(region, LpRegion):
        p = region.p
        eps = (region.eps * (1 + 4e-6) + region.rounding()).reshape(-1, 1).expand(n, 1)
        if region.channels is not None:  # what may not change is held by the box
            scale[region.channels.free] = region.channels.scale[0].double()
    low, high, rounded = _rounded(low, high, unit)
    step = torch.zeros_like(scale)
    return Domain(centre, low, high, p, eps, scale, step, rounded=rounded)


def _table(region: TableRegion, layer: Any, anywhere: bool, unit: float) -> Domain:
    schema, encoding = region.space.schema, region.space.encoding
    low, high = region.box()
    if anywhere:
        wide = box(region, math.inf)
        moves = high > low
        low, high = (
            torch.where(moves, far, near) for far, near in zip(wide, (low, high), strict=True)
        )
    centre = region.x0
    scale = torch.full((len(schema),), torch.inf, dtype=torch.float64)
    scale[encoding.numeric] = encoding.width
    if region.p == 0:  # a group counts once, however many of its columns change
        for members in schema.one_hot_groups.values():
            scale[members] = torch.inf
    step = schema.whole.double()
    blocks: tuple[Tensor, ...] = ()
    low, high, rounded = _rounded(low, high, unit)
    if layer is not None:
        centre, low, high, scale, step, blocks, rounded = _behind(
            layer, centre, low, high, scale, step, rounded
        )
    eps = torch.full((len(centre), 1), region.space.radius * (1 + 4e-6), dtype=torch.float64)
    p = math.inf if anywhere else float(region.space.p)
    return Domain(centre, low, high, p, eps, scale, step, blocks, rounded=rounded)


def _rounded(low: Tensor, high: Tensor, unit: float) -> tuple[Tensor, Tensor, Tensor]:
    """The box as a network sees it that rounds its inputs, and how far it moves them."""
    sizes = [2 * unit * side.abs().nan_to_num(posinf=0.0) for side in (low, high)]
    return low - sizes[0], high + sizes[1], torch.maximum(*sizes)


def _behind(
    layer: Any, centre: Tensor, low: Tensor, high: Tensor, scale: Tensor, step: Tensor,
    rounded: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, tuple[Tensor, ...], Tensor]:  # fmt: skip
    """Everything after a table input: numbers scaled, groups, then a block for each category.

    `low`, `high` and `rounded` are of inputs that were rounded already; the scaled numbers are
    rounded again.
    """
    numbers = layer.numbers
    start, width = layer.low.double(), layer.width.double()
    members = [i for group in layer.one_hot_groups for i in group]

    def numeric(side: Tensor) -> Tensor:
        return torch.cat([(side[:, numbers] - start) / width, side[:, members]], dim=1)

    sides = [numeric(side) for side in (centre, low, high)]
    again = 4 * SINGLE * torch.maximum(sides[1].abs(), sides[2].abs())  # x - low, over the width
    sides[1], sides[2] = sides[1] - again, sides[2] + again
    moved = torch.cat([rounded[:, numbers] / width, rounded[:, members]], dim=1) + again
    codes_at = sum(len(codes) for _, codes in layer.codes)
    moved = torch.cat([moved, moved.new_zeros(len(moved), codes_at)], dim=1)
    scale = torch.cat([scale[numbers] / width, scale[members]])
    step = torch.cat([step[numbers] / width, step[members]])
    blocks = []
    for i, codes in layer.codes:
        code = torch.tensor(codes, dtype=torch.float64)
        at_home = (centre[:, i, None] == code).double()
        can = ((code >= low[:, i, None] - 1e-9) & (code <= high[:, i, None] + 1e-9)).double()
        blocks.append(torch.arange(sides[0].shape[1], sides[0].shape[1] + len(codes)))
        new = (
            at_home,
            torch.where(can.sum(1, keepdim=True) > 1, 0.0, at_home),
            can.maximum(at_home),
        )
        sides = [torch.cat([a, b], dim=1) for a, b in zip(sides, new, strict=True)]
        scale = torch.cat([scale, torch.full((len(codes),), torch.inf, dtype=scale.dtype)])
        step = torch.cat([step, torch.ones(len(codes), dtype=step.dtype)])
    return sides[0], sides[1], sides[2], scale, step, tuple(blocks), moved
