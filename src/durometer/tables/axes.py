"""The records of a region that can be counted, as axes: what each feature may be, by itself.

A whole number between its bounds, a category and a one-hot group have finitely many values; where
every feature that can move at all is of these kinds, the region is a subset of a grid, and a grid
of at most some 10^6 points can be looked at completely. A real feature that can move has no end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from durometer.tables.region import TableRegion


@dataclass(frozen=True, eq=False)
class Axes:
    """Row by row: `sizes[i, k]` values of axis k, of which number j is `low[i, k] + j`, or a code.

    Only what a row can really be is on its axes: immutable features and what eps cannot move have
    one value.
    """

    x0: Tensor  # (n, d)
    low: Tensor  # (n, A): the first value of numbers
    sizes: Tensor  # (n, A)
    columns: tuple[Tensor, ...]  # columns of x that each axis writes
    codes: tuple[Tensor | None, ...]  # (k, columns) what its values write; None: numbers
    endless: Tensor  # (n,) bool: some real feature can move

    @property
    def counts(self) -> Tensor:
        """(n,) float: how many points the grid has."""
        total = self.sizes.double().prod(1)
        return torch.where(self.endless, torch.inf, total)

    def few(self, most: int) -> Tensor:
        """(n,) float: how many points differ from the record in at most `most` axes."""
        symmetric = torch.zeros(len(self.sizes), most + 1, dtype=torch.float64)
        symmetric[:, 0] = 1.0
        for k in range(self.sizes.shape[1]):
            more = (self.sizes[:, k] - 1).double()[:, None] * symmetric[:, :-1]
            symmetric[:, 1:] = symmetric[:, 1:] + more
        return torch.where(self.endless, torch.inf, symmetric.sum(1))

    def points(self, row: int, some: Sequence[int] | None = None) -> Tensor:
        """(m, d): all points of a row's grid, or those where only `some` axes move."""
        moving = range(self.sizes.shape[1]) if some is None else some
        index = torch.arange(int(self.sizes[row, list(moving)].prod()))
        x = self.x0[row].repeat(len(index), 1)
        for k in moving:
            size, columns, codes = int(self.sizes[row, k]), self.columns[k], self.codes[k]
            digit, index = index % size, index // size
            if size > 1:
                x[:, columns] = self.low[row, k] + digit[:, None] if codes is None else codes[digit]
        return x


def sizes(region: TableRegion) -> Tensor:
    """(n,) float64: how many points each row's grid has; infinite where a real feature moves."""
    grid = axes(region)
    return grid.few(int(region.space.radius)) if region.p == 0 else grid.counts


def points(region: TableRegion, row: int) -> Tensor:
    """(m, d): every valid record of a row is among them; in L0 the axes that move come first."""
    grid = axes(region.take(torch.tensor([row])))
    if region.p > 0:
        return grid.points(0)
    moving = (grid.sizes[0] > 1).nonzero()[:, 0].tolist()
    chosen = combinations(moving, min(int(region.space.radius), len(moving)))
    return torch.cat([grid.points(0, some) for some in chosen])


def axes(region: TableRegion) -> Axes:
    """The axes of every row of a region."""
    schema = region.space.schema
    low, high = region.box()
    columns: list[Tensor] = []
    codes: list[Tensor | None] = []
    firsts, sizes = [], []
    endless = torch.zeros(len(low), dtype=torch.bool)
    grouped = {i for members in schema.one_hot_groups.values() for i in members}
    for i, f in enumerate(schema.features):
        moves = high[:, i] > low[:, i]
        if i in grouped:
            continue
        if f.kind == "real":
            endless |= moves
            continue
        columns.append(torch.tensor([i]))
        firsts.append(low[:, i])
        if f.kind == "category":
            codes.append(torch.tensor(f.codes, dtype=torch.float64)[:, None])
            sizes.append(torch.where(moves, len(f.codes), 1))
        else:
            codes.append(None)
            sizes.append((high[:, i] - low[:, i]).round().clamp_max(2**40).long() + 1)
    for members in schema.one_hot_groups.values():
        moves = (high[:, members] > low[:, members]).any(1)
        columns.append(torch.tensor(members))
        codes.append(torch.eye(len(members), dtype=torch.float64))
        firsts.append(low[:, members[0]])
        sizes.append(torch.where(moves, len(members), 1))
    if not columns:
        none = torch.zeros(len(low), 0)
        return Axes(region.x0, none, none.long(), (), (), endless)
    return Axes(
        region.x0, torch.stack(firsts, 1), torch.stack(sizes, 1), tuple(columns), tuple(codes),
        endless,
    )  # fmt: skip
