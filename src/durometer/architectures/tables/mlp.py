"""MLP: linear layers and ReLU; what every other architecture for tables is measured against.

The default widths are those of MOEVA's and the CAA paper's own network for loans: 64, 32, 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from durometer.architectures.tables.tablenet import TableNet
from durometer.core.streams import seeded
from durometer.tables.schema import Schema


def layers(*sizes: int, between: type[nn.Module] = nn.ReLU, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers of these sizes with an activation between them, none at the end."""
    found: list[nn.Module] = []
    for before, after in pairwise(sizes):
        found += [nn.Linear(before, after), between()]
        if dropout:
            found.append(nn.Dropout(dropout))
    return nn.Sequential(*found[: -2 if dropout else -1])


class MLP(TableNet):
    """A multilayer perceptron for tables: linear layers and ReLU.

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        widths: Units of the hidden layers. The default is that of the CAA and MOEVA networks for
            loans.
        dropout: Dropout probability between them.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.MLP(schema, 3, widths=(4,)).eval()(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        widths: Sequence[int] = (64, 32, 16),
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(schema, classes, seed, widths=tuple(widths), dropout=dropout)
        with seeded(seed):
            self.body = layers(self.input.size, *widths, classes, dropout=dropout)

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        out: Tensor = self.body(z)
        return out
