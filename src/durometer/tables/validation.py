"""Which rows of a table break what: types, bounds, one-hot groups, relations. One line per breach.

Also what a region asks before it accepts a record, so that a table and an adversarial example are
judged by the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd

    from durometer.tables.schema import Schema

# A bound may be missed by float rounding of the value itself (float32 data against float64 bounds).
BOUND_SLACK = 1.2e-7


def typed(schema: Schema, x: Tensor) -> Tensor:
    """(n, d) bool: is each value of its column's kind?"""
    good = torch.where(schema.whole, x == x.round(), x.isfinite())
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            codes = torch.tensor(f.codes, dtype=x.dtype)
            good[:, i] = (x[:, i, None] == codes).any(1)
    return good | (x.isnan() & schema.gaps)


def bounded(schema: Schema, x: Tensor, x0: Tensor) -> Tensor:
    """(n, d) bool: is each value within its bounds, to rounding?"""
    low, high = schema.bounds(x0)
    slack = BOUND_SLACK * x.abs().clamp_min(1.0)
    # The original's own value is no bound where the original has none.
    below, above = x < low - slack, x > high + slack
    return ~(below | above) & (~x.isnan() | schema.gaps)


def one_hot(schema: Schema, x: Tensor) -> Tensor:
    """(n, groups) bool: is exactly one member of each group 1?"""
    parts = [x[:, members].sum(1) == 1 for members in schema.one_hot_groups.values()]
    return torch.stack(parts, 1) if parts else torch.ones(len(x), 0, dtype=torch.bool)


def breaches(schema: Schema, table: Any, tolerance: float) -> pd.DataFrame:
    """A line for each rule that a row breaks."""
    import pandas as pd

    x = schema.tensor(table)
    kinds, inside = typed(schema, x), bounded(schema, x, x)
    groups, holds = one_hot(schema, x), schema.program.holds(x, x, tolerance)
    undefined = schema.program.undefined(x, x)
    lines: list[tuple[int, str, str]] = []

    def note(good: Tensor, rule: Any, found: Any) -> None:
        for row, column in (~good).nonzero().tolist():
            lines.append((row, rule(column), found(row, column)))

    def value(row: int, column: int) -> str:
        return f"{schema.names[column]} = {float(x[row, column]):g}"

    def range_rule(column: int) -> str:
        f = schema.features[column]
        return f"{f.name} between {f.low} and {f.high}"

    note(kinds, lambda c: f"{schema.names[c]} is {schema.features[c].kind}", value)
    note(inside, range_rule, value)
    names = list(schema.one_hot_groups)
    note(groups, lambda g: f"one-hot group {names[g]}",
         lambda r, g: f"sum = {float(x[r, schema.one_hot_groups[names[g]]].sum()):g}")  # fmt: skip
    why = ("broken", "undefined (division by 0 or log of 0)")
    note(holds, lambda r: str(schema.relations[r]), lambda row, r: why[int(undefined[row, r])])
    return pd.DataFrame(lines, columns=["row", "rule", "found"])
