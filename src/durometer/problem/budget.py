"""Budget: how much an attack may spend on one row."""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.core.validation import noun


@noun
class Budget:
    """Model evaluations an attack may spend on one example; None: no limit.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.Square(), budget=du.Budget(forwards=20)
    ... )
    >>> int(report.table["forwards"].max())
    20
    """

    forwards: int | None = None
    backwards: int | None = None

    def left(self, forwards: Tensor, backwards: Tensor) -> Tensor:
        """(n,) bool: whose spending is still below the limits."""
        some = torch.ones_like(forwards, dtype=torch.bool)
        if self.forwards is not None:
            some &= forwards < self.forwards
        if self.backwards is not None:
            some &= backwards < self.backwards
        return some

    def pays(self, forwards: Tensor, rows: Tensor, price: int) -> Tensor:
        """Which of these queries are within the limit, where a row may ask several at once."""
        if self.forwards is None:
            return torch.ones_like(rows, dtype=torch.bool)
        order = rows.argsort(stable=True)
        turn = torch.empty_like(rows)
        place = torch.arange(len(rows), device=rows.device)
        turn[order] = place - torch.searchsorted(rows[order], rows[order])
        return forwards + turn * price < self.forwards


UNLIMITED = Budget()
