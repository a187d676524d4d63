"""Missing cells of records: what is not there has no value, but may be filled in or left blank.

A missing cell is NaN in a record. A search needs numbers, so it moves in a copy in which missing
cells hold the middle of their range, and in one more coordinate for each feature that may change
its state: 0 where the cell is there, the distance of the change where it is missing. Past the
middle of that distance the state has changed.

What a reader would get wrong: filling in a cell costs `fill` whatever the value is, and blanking
costs `hide`: there is no distance between a value and nothing. Where neither is set, a missing cell
stays missing and a known one stays known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from durometer.tables.encoding import Encoding
    from durometer.tables.schema import Schema

_LEAST = 1e-9  # a change that costs nothing still needs a way to go
_LOOSE = 8.0  # a value that is filled in is free, so its coordinate takes little of the ball


@dataclass(frozen=True, eq=False)
class Gaps:
    """Which cells of records x0 (n, d) are missing, and which may change that."""

    filled: Tensor  # (n, d) the records with a number in every cell
    gone: Tensor  # (n, d) bool: missing in the original
    may: Tensor  # (n, d) bool: may be filled in, or left blank
    features: Tensor  # (k,) those that have a coordinate of their own
    size: Tensor  # (n, k) the distance of the change
    price: Tensor  # (n, k) and as money
    loose: Tensor  # (n, D) how much more than elsewhere a step counts in each coordinate of values

    @staticmethod
    def of(schema: Schema, x0: Tensor, encoding: Encoding) -> Gaps | None:
        """None where no feature of the schema may be missing."""
        priced = encoding.priced
        if not any(f.missing for f in schema.features):
            return None
        gone = x0.isnan()
        filled = torch.where(gone, _middles(schema), x0)
        tables = [_changes(schema, gone, money) for money in (False, True)]
        may = tables[int(priced)].isfinite() & schema.mutable
        features = torch.tensor(
            [i for i, f in enumerate(schema.features) if f.gaps and f.mutable], dtype=torch.int64
        )
        sizes = [t.nan_to_num(posinf=0.0).clamp_min(_LEAST)[:, features] for t in tables]
        loose = torch.where(encoding.columns(gone), _LOOSE, 1.0).to(x0.dtype)
        return Gaps(filled, gone, may, features, sizes[int(priced)], sizes[1], loose)

    @property
    def origin(self) -> Tensor:
        """(n, k) the coordinates of the original."""
        return self.gone[:, self.features] * self.size

    def sides(self, z: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """(n, D + k) the least and the largest coordinates, from those of values (n, D) around z:
        nothing to move where a cell stays missing."""
        free, here = self.may[:, self.features], self.origin
        states = torch.where(free, 0.0, here), torch.where(free, self.size, here)
        values = (z + (end - z) / self.loose for end in (low, high))
        return tuple(torch.cat(pair, dim=1) for pair in zip(values, states, strict=True))  # type: ignore[return-value]

    def stretched(self, z: Tensor, origin: Tensor) -> Tensor:
        """The coordinates as they count for values."""
        size = self.loose.shape[1]
        values = origin[:, :size] + (z[:, :size] - origin[:, :size]) * self.loose
        return torch.cat([values, z[:, size:]], dim=1)

    def known(self, x: Tensor) -> Tensor:
        """Records with a number in every cell: the original's where theirs is missing."""
        return torch.where(x.isnan(), self.filled, x)

    def coordinates(self, x: Tensor) -> Tensor:
        """(n, k) of records."""
        return x.isnan()[:, self.features] * self.size

    def put(self, x: Tensor, z: Tensor) -> Tensor:
        """The records x (n, d) with the cells blank that are, by the coordinates z (n, k)."""
        blank = self.gone.clone()
        blank[:, self.features] = torch.where(
            self.may[:, self.features], z > self.size / 2, blank[:, self.features]
        )
        return torch.where(blank, torch.nan, x)

    def moved(self, encoding: Encoding, x: Tensor, money: bool) -> Tensor:
        """(n, D + k) how far records are from the original in each coordinate."""
        values = torch.where(x.isnan() | self.gone, self.filled, x)
        turned = (x.isnan() != self.gone)[:, self.features] * (self.price if money else self.size)
        return torch.cat([encoding.encode(values) - encoding.encode(self.filled), turned], dim=1)

    def allowed(self, x: Tensor) -> Tensor:
        """(n,) bool: no cell is missing or known that must not be."""
        return ((x.isnan() == self.gone) | self.may).all(1)

    def take(self, rows: Tensor) -> Gaps:
        """Of these rows."""
        parts = {name: getattr(self, name)[rows] for name in ("filled", "gone", "may")}
        parts |= {name: getattr(self, name)[rows] for name in ("size", "price", "loose")}
        return replace(self, **parts)


def _middles(schema: Schema) -> Tensor:
    """(d,) a value of each feature."""
    values = []
    for f in schema.features:
        low, high = f.range
        middle = f.codes[0] if f.kind == "category" else (low + high) / 2
        values.append(float(round(middle)) if f.kind in ("integer", "boolean") else middle)
    return torch.tensor(values, dtype=torch.float64)


def _changes(schema: Schema, gone: Tensor, money: bool) -> Tensor:
    """(n, d) what it costs to change the state of a cell; infinite where it must not change."""
    ends = []
    for state in ("fill", "hide"):
        given = []
        for f in schema.features:
            distance, cost = getattr(f, state), getattr(f, f"{state}_cost")
            if money:
                either = cost if cost is not None else None if distance is None else f.cost or 0.0
            else:
                either = distance if distance is not None else None if cost is None else 0.0
            given.append(torch.inf if either is None else float(either))
        ends.append(torch.tensor(given, dtype=torch.float64))
    return torch.where(gone, ends[0], ends[1])
