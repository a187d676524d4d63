"""LowProFool (Ballet et al. 2019): small changes, and those in features nobody looks at.

    minimise  BCE(f(x + r), other class) + trade_off * || v * r ||_2

by plain gradient steps of length `step` from r = 1e-4. v is each feature's importance to the expert
who would notice: by default the same for all; `LowProFool.noticed(x, y)` gives the published one,
|Pearson correlation with the label|, normalised. Published: 20,000 steps of 0.001, trade-off 8.5.

Extended here to all feature types and spaces: r lives in the region's search coordinates, so whole
features, categories and relations are decoded and judged as for any other attack, and the loss is
any goal's. What a reader would get wrong: there is no normalisation, so with a confident model the
published step length is tiny; that, not the idea, is why it finds almost nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from durometer.attacks.pgd import climb
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.losses import odds
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.region import Region
from durometer.tables.region import TableRegion


@noun
class LowProFool:
    """Gradient steps that prefer changes in features an expert would not notice (Ballet et al.,
    2019).

    Extended here to all feature types, spaces and goals. With the published step length it finds
    almost nothing on confident models, since the gradient is not normalised.

    Args:
        steps: Gradient steps; 20,000 as published.
        step: Factor of the gradient, in search coordinates; 0.001 as published.
        trade_off: Weight of the perceptibility term; 8.5 as published.
        importance: One weight per feature: how much an expert notices it. None: all alike.
            `noticed` gives the published weights.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> schema = du.Schema(
    ...     [du.Feature(f"f{i}", low=0, high=1) for i in range(8)], ["f0 + f1 <= 2"]
    ... )
    >>> du.evaluate(
    ...     net, data, space=schema.space(eps=0.3), attack=du.LowProFool(50, step=0.1)
    ... ).metric("robust").value
    0.375
    """

    steps: int = 20_000
    step: float = 0.001
    trade_off: float = 8.5
    importance: tuple[float, ...] | None = None

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def noticed(self, x: Any, y: Any) -> LowProFool:
        """The same attack with the published weights: the absolute correlation of each feature with
        the label.

        Args:
            x: Inputs (n, features), usually of the training data.
            y: Their labels (n,).
        """
        a = torch.as_tensor(x, dtype=torch.float64)
        b = torch.as_tensor(y, dtype=torch.float64)
        a, b = a - a.mean(0), b - b.mean()
        spread = (a.norm(dim=0) * b.norm()).clamp_min(1e-300)
        weights = ((a * b[:, None]).sum(0) / spread).abs()
        return replace(
            self, importance=tuple((weights / weights.norm().clamp_min(1e-300)).tolist())
        )

    def _weights(self, region: Any) -> Tensor:
        """(D,) the importance of each search coordinate; a block has its category's."""
        size = region.origin.shape[1]
        if self.importance is None:
            return torch.full((size,), size**-0.5, dtype=torch.float64)
        v = torch.tensor(self.importance, dtype=torch.float64)
        if isinstance(region, TableRegion):
            encoding = region.space.encoding
            if len(v) == len(encoding.schema):
                blocks = [v[c].expand(len(z)) for c, z, _, _ in encoding.categories]
                return torch.cat([v[encoding.numeric], *blocks])
        by = region.channels if isinstance(region, LpRegion) else None
        if by is not None and len(v) == by.clean.shape[1]:
            return v[by.free]
        if len(v) != size:
            raise DurometerError(
                f"LowProFool(importance=) has {len(v)} weights for {size} features"
            )
        return v

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = problem.region(rows)
        v = self._weights(region).to(region.origin)

        def move(region: Region, rows: Tensor, z: Tensor, grad: Tensor) -> Tensor:
            r = v * (z - region.origin)
            size: Tensor = r.norm(dim=1, keepdim=True).clamp_min(1e-12)
            return z + self.step * (grad - self.trade_off * v * r / size)

        z = region.project(region.origin + 1e-4)
        climb(problem, rows, z, [move] * self.steps, _towards)


def _towards(logits: Tensor, targets: Tensor) -> Tensor:
    """log P(targets): minus the cross entropy with the class the attacker wants."""
    return logsigmoid(odds(logits, targets))
