"""The box of a table region: bounds of each feature that hold for every valid record.

What proofs start from. A valid record lies within its bounds, within eps of the original and on
whole numbers; each of the three bounds each feature by itself. Relations and the ball as a whole
only make the set smaller, so what holds on the box holds on the region.

What a reader would get wrong: bounds are those of `contains`, with its slack, and not those of the
search, which stays a little inside; whole numbers are then rounded inwards, which is what makes the
box small: at eps 0.05 a count of range 10 cannot move at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from durometer.tables.validation import BOUND_SLACK

if TYPE_CHECKING:
    from durometer.tables.region import TableRegion

_ROUNDING = 1e-9  # relative: what float64 arithmetic may add to eps times a width


def box(region: TableRegion, eps: float | None = None) -> tuple[Tensor, Tensor]:
    """(n, d) lowest and highest value of each feature; `eps` in the place of the region's own."""
    space, x0 = region.space, region.x0
    schema, encoding, p = space.schema, space.encoding, float(space.p)
    eps = space.radius if eps is None else eps
    low, high = schema.bounds(x0)
    slack = BOUND_SLACK * torch.maximum(low.abs(), high.abs()).nan_to_num(posinf=0.0).clamp_min(1.0)
    low, high = low - slack, high + slack
    reach = torch.full_like(low[0], torch.inf)
    if p > 0:
        reach[encoding.numeric] = eps * encoding.width
    elif eps < 1:
        reach[:] = 0.0
    reach = reach * (1 + _ROUNDING) + _ROUNDING * x0.abs()
    low, high = torch.maximum(low, x0 - reach), torch.minimum(high, x0 + reach)
    low, high = _whole(low, high, schema.whole)
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            low[:, i], high[:, i] = min(f.codes), max(f.codes)
    stuck = _stuck(region, eps, p)
    low, high = torch.where(stuck, x0, low), torch.where(stuck, x0, high)
    return torch.minimum(low, x0), torch.maximum(high, x0)


def _whole(low: Tensor, high: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The whole numbers inside; a bound that is one but for rounding is that one."""
    down, up = (low - 1e-6).ceil(), (high + 1e-6).floor()
    return torch.where(whole, down, low), torch.where(whole, up, high)


def _stuck(region: TableRegion, eps: float, p: float) -> Tensor:
    """(d,) bool: immutable, or a code whose smallest change is already too far."""
    schema, encoding = region.space.schema, region.space.encoding
    stuck = ~schema.mutable

    def too_far(*parts: float) -> bool:
        change = torch.tensor(parts, dtype=torch.float64)
        size = 1.0 if p == 0 else float(torch.linalg.vector_norm(change, p))
        return size > eps * (1 + 1e-6)

    for column, _, _, size in encoding.categories:
        if too_far(size, size):
            stuck[column] = True
    for columns, places in encoding.blocks:
        least = (1 / encoding.width[places]).sort().values[:2].tolist()
        if too_far(*least):
            stuck[columns] = True
    return stuck
