"""Search coordinates of a table: numbers scaled by their ranges, categories one-hot (paper, 3.2).

Only mutable features have coordinates. Numeric columns come first, in order, then a block of 0/1
per category. Columns that are one-hot in the table itself are numeric here, but known as blocks
too. In these coordinates distances are taken: crossing a feature's whole range counts 1 and
changing a category sqrt(2) in L2, so at eps 0.5 neither a category nor a 0/1 feature can ever
change.

With `priced`, a coordinate is measured in money instead: cost per unit times units, and changing a
category costs its `cost`. An L1 ball of that is a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from durometer.tables.rounding import Coordinates
from durometer.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class Encoding:
    """Maps (n, d) records to (n, D) coordinates."""

    schema: Schema
    priced: bool = False

    @cached_property
    def numeric(self) -> Tensor:
        """(m,) positions of the columns that are numbers in z."""
        return torch.tensor(
            [i for i, f in enumerate(self.schema.features) if f.mutable and f.kind != "category"],
            dtype=torch.int64,
        )

    @cached_property
    def categories(self) -> list[tuple[int, Tensor, Tensor, float]]:
        """(column of x, columns of z, codes, size of a 1 in z) of each category."""
        found, at = [], len(self.numeric)
        for i, f in enumerate(self.schema.features):
            if f.mutable and f.kind == "category":
                size = (f.cost or 0.0) / 2 if self.priced else 1.0
                codes = torch.tensor(f.codes, dtype=torch.float64)
                found.append((i, torch.arange(at, at + len(codes)), codes, size))
                at += len(codes)
        return found

    @cached_property
    def blocks(self) -> list[tuple[Tensor, Tensor]]:
        """(columns of x, columns of z) of each one-hot group of the table itself."""
        place = {int(c): k for k, c in enumerate(self.numeric)}
        return [
            (torch.tensor(members), torch.tensor([place[i] for i in members]))
            for members in self.schema.one_hot_groups.values()
            if self.schema.features[members[0]].mutable
        ]

    @cached_property
    def codes(self) -> tuple[Tensor, ...]:
        """The columns of z of everything that is one-hot there: categories, then groups."""
        return (*(z for _, z, _, _ in self.categories), *(z for _, z in self.blocks))

    @cached_property
    def size(self) -> int:
        """D."""
        return len(self.numeric) + sum(len(z) for _, z, _, _ in self.categories)

    def columns(self, mask: Tensor) -> Tensor:
        """(n, D) what a mask of features (n, d) says of each coordinate."""
        parts = [mask[:, self.numeric]]
        parts += [mask[:, [i] * len(places)] for i, places, _, _ in self.categories]
        return torch.cat(parts, dim=1)

    @cached_property
    def plain(self) -> bool:
        """Is every feature a number, so that nothing need be gathered?"""
        return len(self.numeric) == self.size == len(self.schema.features)

    @cached_property
    def start(self) -> Tensor:
        """(m,) the value of each number that is 0 in z."""
        low = [f.range[0] for f in self._numbers()]
        return torch.tensor([0.0] * len(low) if self.priced else low, dtype=torch.float64)

    @cached_property
    def width(self) -> Tensor:
        """(m,) what 1 in z means in the units of each number."""
        if self.priced:
            costs = torch.tensor([f.cost or 0.0 for f in self._numbers()], dtype=torch.float64)
            return 1 / costs.clamp_min(1e-9)  # a free feature is nearly free: no infinite widths
        widths = [f.range[1] - f.range[0] for f in self._numbers()]
        return torch.tensor([w if w > 0 else 1.0 for w in widths], dtype=torch.float64)

    @cached_property
    def coordinates(self) -> Coordinates:
        """The numbers, as `rounded` takes them."""
        return Coordinates(self.numeric, self.width, self.schema.whole)

    def _numbers(self) -> list:  # type: ignore[type-arg]
        return [self.schema.features[int(i)] for i in self.numeric]

    def encode(self, x: Tensor) -> Tensor:
        """(n, D) coordinates of records."""
        if self.plain:
            return (x - self.start) / self.width
        parts = [(x[:, self.numeric] - self.start) / self.width]
        for column, _, codes, size in self.categories:
            parts.append((x[:, column, None] == codes).to(x.dtype) * size)
        return torch.cat(parts, dim=1)

    def shift(self, x0: Tensor, z0: Tensor, z: Tensor) -> Tensor:
        """(n, d) records, neither rounded nor bounded; differentiable. At z0 exactly x0."""
        if self.plain:
            return x0 + (z - z0)[:, : self.size] * self.width
        moved = (
            x0[:, self.numeric]
            + (z[:, : len(self.numeric)] - z0[:, : len(self.numeric)]) * self.width
        )
        x = x0.index_copy(1, self.numeric, moved)
        for column, places, codes, size in self.categories:
            share = torch.softmax(z[:, places] / size * 4, dim=1)
            soft = (share * codes).sum(1)
            was = (torch.softmax(z0[:, places] / size * 4, dim=1) * codes).sum(1)
            x = x.index_copy(1, torch.tensor([column]), (x0[:, column] + (soft - was))[:, None])
        return x

    def snap(self, x0: Tensor, z0: Tensor, z: Tensor, x: Tensor, lead: float = 0.0) -> Tensor:
        """Categories and one-hot groups at their largest coordinate; ties go to the original.

        `lead` is how far ahead of the original another must be: at 1 only a whole change counts.
        """
        lead = max(lead - 1e-6, 1e-9)
        for column, places, codes, _ in self.categories:
            pick = (z[:, places] + lead * z0[:, places]).argmax(1)
            at_home = z0[:, places].argmax(1) == pick
            x[:, column] = torch.where(at_home, x0[:, column], codes[pick])
        for columns, places in self.blocks:
            pick = (z[:, places] + lead * z0[:, places]).argmax(1)
            x[:, columns] = torch.nn.functional.one_hot(pick, len(columns)).to(x.dtype)
        return x
