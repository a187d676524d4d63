"""Genes: the free features of each row as plain numbers, for searches that mix and mutate.

A gene is a feature in the input's own units: a real number, a whole number, or the number of a
category's value. A one-hot group is one gene. Immutable features have none. Unlike the search
coordinates z, genes are not repaired, rounded towards the original or kept near it: what a search
expresses is what it hands in, and the referee alone says what that is worth.

Genes come sorted by kind (real, integer, category), because operators differ by kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.spaces.region import Region


@dataclass(frozen=True, eq=False)
class Genes:
    """What may be varied in each row of a region. `low` and `high` are inclusive."""

    kinds: tuple[int, int, int]  # how many are real, integer, category
    low: Tensor  # (n, G)
    high: Tensor
    start: Tensor  # (n, G): the clean rows
    origin: Tensor  # (n, d): the clean inputs, flattened
    columns: Tensor  # (k,): places in the flattened input of the genes that are plain numbers, or
    #                  of those that have `options`
    codes: tuple[tuple[int, Tensor], ...] = ()  # then the categories: (place, codes of its values)
    one_hot_groups: tuple[Tensor, ...] = ()  # then the one-hot groups: places of the members
    gaps: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # then these
    gone: Tensor | None = None  # (n, d) bool: cells that are missing, None where none may be
    may: Tensor | None = None  # (n, d) bool: cells that may change that
    options: Tensor | None = None  # (n, k, K): instead of all these, what each place may hold
    most: Tensor | None = None  # (n,): how many genes may differ from `start`; None: all

    def express(self, genes: Tensor) -> Tensor:
        """The flattened inputs (n * k, d) of k individuals per row (n, k, G)."""
        if self.options is not None:
            n, k, places = genes.shape
            table = self.options[:, None].expand(n, k, *self.options.shape[1:])
            found = table.gather(3, genes.long()[..., None])[..., 0].reshape(n * k, places)
            x = self.origin.repeat_interleave(k, dim=0)
            x[:, self.columns] = found.to(x.dtype)
            return x
        x = self.origin.repeat_interleave(genes.shape[1], dim=0)
        genes = genes.flatten(0, 1)
        plain = len(self.columns)
        x[:, self.columns] = genes[:, :plain].to(x.dtype)
        for k, (place, codes) in enumerate(self.codes, plain):
            x[:, place] = codes.to(x.dtype)[genes[:, k].long()]
        for k, members in enumerate(self.one_hot_groups, plain + len(self.codes)):
            code = torch.nn.functional.one_hot(genes[:, k].long(), len(members))
            x[:, members] = code.to(x.dtype)
        if self.gone is not None and self.may is not None:
            times = len(genes) // len(self.gone)
            gone = self.gone.repeat_interleave(times, dim=0)
            first = plain + len(self.codes) + len(self.one_hot_groups)
            for k, place in enumerate(self.gaps.tolist(), first):
                free = self.may[:, place].repeat_interleave(times)
                gone[:, place] = torch.where(free, genes[:, k] > 0.5, gone[:, place])
            x = torch.where(gone, torch.nan, x)
        return x

    def with_gaps(self, gone: Tensor, may: Tensor, features: Tensor) -> Genes:
        """Cells that are missing stay so, and a gene says it of each that may change its state."""
        here = gone[:, features].to(self.start.dtype)
        low = torch.cat([self.low, torch.zeros_like(here)], dim=1)
        high = torch.cat([self.high, torch.ones_like(here)], dim=1)
        kinds = (*self.kinds[:2], self.kinds[2] + len(features))
        start = torch.cat([self.start, here], dim=1)
        return replace(
            self, kinds=kinds, low=low, high=high, start=start, gone=gone, may=may, gaps=features
        )

    def take(self, rows: Tensor) -> Genes:
        """The genes of these rows."""
        per_row = ("low", "high", "start", "origin", "options", "most", "gone", "may")
        given = {k: v[rows] for k in per_row if (v := getattr(self, k)) is not None}
        return replace(self, **given)


def of_table(features: Sequence[Any], x0: Tensor, low: Tensor, high: Tensor, far: Tensor) -> Genes:
    """Genes of records x0 (n, d) with these features (`schema.Feature`) and bounds (n, d).

    `far` (d,) is how far to go where there is no bound.
    """
    kinds: dict[str, list[int]] = {"real": [], "integer": [], "boolean": [], "category": []}
    blocks: dict[str, list[int]] = {}
    for i, f in enumerate(features):
        if f.mutable and f.group:
            blocks.setdefault(f.group, []).append(i)
        elif f.mutable:
            kinds[f.kind].append(i)
    reals, whole = kinds["real"], kinds["integer"] + kinds["boolean"]
    columns = torch.tensor(reals + whole, dtype=torch.int64)
    start = x0[:, columns]
    low = torch.where(low.isfinite(), low, x0 - far)[:, columns]
    high = torch.where(high.isfinite(), high, x0 + far)[:, columns]
    is_whole = torch.arange(len(columns)) >= len(reals)
    low, high = torch.where(is_whole, low.ceil(), low), torch.where(is_whole, high.floor(), high)
    codes = [(i, torch.tensor(features[i].codes, dtype=x0.dtype)) for i in kinds["category"]]
    groups = [torch.tensor(members) for members in blocks.values()]
    choices = [(x0[:, i, None] == c).to(x0.dtype) for i, c in codes]
    choices += [x0[:, members] for members in groups]
    for choice in choices:
        start = torch.cat([start, choice.argmax(1, keepdim=True).to(x0.dtype)], dim=1)
        low = torch.cat([low, torch.zeros_like(x0[:, :1])], dim=1)
        high = torch.cat([high, torch.full_like(x0[:, :1], choice.shape[1] - 1)], dim=1)
    count = (len(reals), len(whole), len(choices))
    return Genes(count, low, high, start, x0, columns, tuple(codes), tuple(groups))


@runtime_checkable
class Genetic(Region, Protocol):
    """A region whose inputs can be written as genes."""

    def genes(self) -> Genes:
        """What may be varied."""
        ...
