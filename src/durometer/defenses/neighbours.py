"""Nearest training points in a network's feature space: exact, in one matrix product.

Features are the inputs of the last linear layer (the penultimate layer), found by a hook, so any
network with such a layer will do.

    |f - b|^2 = |f|^2 - 2 f.b + |b|^2

What a reader would get wrong: the features are those of the *frozen* base network, for the bank and
for the queries; the adapted network is never asked for them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from durometer.core.errors import DurometerError


def penultimate(module: nn.Module, x: Tensor, batch: int = 512) -> Tensor:
    """(n, d): what the last linear layer of the network gets to see, in eval mode."""
    module = copy.deepcopy(module).eval()
    linear = [m for m in module.modules() if isinstance(m, nn.Linear)]
    if not linear:
        raise DurometerError(
            f"{type(module).__name__} has no linear layer, so no penultimate features; "
            "give features=, a function from inputs to (n, d)"
        )
    seen: list[Tensor] = []
    linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    kind = next(module.parameters()).dtype
    with torch.no_grad():
        for part in torch.split(x, batch):
            module(part.to(kind))
    return torch.cat(seen).flatten(1)


@dataclass(frozen=True, eq=False)
class Bank:
    """Labelled points and their features; the first `clean` of them are untouched."""

    x: Tensor
    y: Tensor
    features: Tensor
    clean: int

    @cached_property
    def _norms(self) -> Tensor:
        return self.features.square().sum(1)

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(n, k): places of the k nearest points of each query, the nearest first."""
        k = min(k, len(self.x))
        found = [
            (self._norms - 2 * part @ self.features.T).topk(k, largest=False, sorted=True).indices
            for part in torch.split(queries, 256)
        ]
        return torch.cat(found)

    def around(self, queries: Tensor, k: int) -> Tensor:
        """The neighbours of a whole batch, by rank, without repetition; for one query its k."""
        ranked = self.nearest(queries, k).T.flatten()  # all first neighbours, then all second...
        if len(queries) == 1:
            return ranked
        _, inverse = torch.unique(ranked, return_inverse=True)
        first = torch.full((int(inverse.max()) + 1,), len(ranked))
        first.scatter_reduce_(0, inverse, torch.arange(len(ranked)), "amin")
        return ranked[first.sort().values]
