"""Budget: how much an attack may spend on one row."""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.core.validation import noun


@noun
class Budget:
    """A limit on the model evaluations that an attack may spend on one row.

    Args:
        forwards: Forward passes per row. None: no limit.
        backwards: Backward passes (gradients) per row. None: no limit.

    Raises:
        DurometerError: A limit is no whole number of at least 1.

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
        """Which rows are still below the limits.

        Args:
            forwards: Forward passes spent on each row (n,).
            backwards: Backward passes spent on each row (n,).

        Returns:
            (n,) bool.
        """
        some = torch.ones_like(forwards, dtype=torch.bool)
        if self.forwards is not None:
            some &= forwards < self.forwards
        if self.backwards is not None:
            some &= backwards < self.backwards
        return some

    def pays(self, forwards: Tensor, rows: Tensor, price: int) -> Tensor:
        """Which queries of a batch are within the limit, where a row may be queried several times
        at once.

        Args:
            forwards: Forward passes already spent on the row of each query (m,).
            rows: The row of each query (m,).
            price: Forward passes that one query costs.

        Returns:
            (m,) bool.
        """
        if self.forwards is None:
            return torch.ones_like(rows, dtype=torch.bool)
        order = rows.argsort(stable=True)
        turn = torch.empty_like(rows)
        place = torch.arange(len(rows), device=rows.device)
        turn[order] = place - torch.searchsorted(rows[order], rows[order])
        return forwards + turn * price < self.forwards


UNLIMITED = Budget()
