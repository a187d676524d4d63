"""TableInput: the first layer of every network for tables, from raw units to what it learns by.

Numbers are scaled by their schema's ranges to [0, 1]; a category becomes a block of 0/1, and so do
the columns of a one-hot group. All of it is inside the network, so that attacks, reports and users
see raw units only.

What a reader would get wrong: a block has a gradient. Forward it is exactly 0/1 (the nearest code);
backward it is that of exp(-|x - code|), which rises towards the codes that x would have to move to.
Casting codes to integers, as the CAA paper's TabTransformer does, cuts the gradient off.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from durometer.tables.schema import Schema


class TableInput(nn.Module):
    """(n, d) records -> numbers (n, m) and one block (n, k) for each category or one-hot group.

    >>> from durometer.tables.feature import Feature
    >>> layer = TableInput(Schema([Feature("age", "real", 0, 50), Feature("pet", "category",
    ...     values=("cat", "dog"))]))
    >>> layer(torch.tensor([[25.0, 1.0]]))
    tensor([[0.5000, 0.0000, 1.0000]])
    """

    numbers: Tensor
    low: Tensor
    width: Tensor

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.features = schema.features
        grouped = {i for members in schema.one_hot_groups.values() for i in members}
        kinds = enumerate(schema.features)
        plain = [i for i, f in kinds if f.kind != "category" and i not in grouped]
        ranges = [schema.features[i].range for i in plain]
        self.register_buffer("numbers", torch.tensor(plain, dtype=torch.int64))
        self.register_buffer("low", torch.tensor([a for a, _ in ranges], dtype=torch.float64))
        widths = [b - a if b > a else 1.0 for a, b in ranges]
        self.register_buffer("width", torch.tensor(widths, dtype=torch.float64))
        self.one_hot_groups = [list(members) for members in schema.one_hot_groups.values()]
        self.codes = [(i, f.codes) for i, f in enumerate(schema.features) if f.kind == "category"]

    @property
    def sizes(self) -> list[int]:
        """Length of each block."""
        return [len(g) for g in self.one_hot_groups] + [len(codes) for _, codes in self.codes]

    @property
    def size(self) -> int:
        """Width of the output."""
        return len(self.numbers) + sum(self.sizes)

    @property
    def names(self) -> list[str]:
        """What each number of the output is: a feature, or a value of a category."""
        features = self.features
        plain = [*self.numbers.tolist(), *(i for members in self.one_hot_groups for i in members)]
        return [features[i].name for i in plain] + [
            f"{features[i].name}={value}" for i, _ in self.codes for value in features[i].values
        ]

    def split(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Numbers and blocks, in single precision."""
        numbers = ((x[:, self.numbers] - self.low) / self.width).float()
        blocks = [x[:, members].float() for members in self.one_hot_groups]
        return numbers, blocks + [_hot(x[:, i], codes) for i, codes in self.codes]

    def forward(self, x: Tensor) -> Tensor:
        """(n, size): numbers first, then the blocks."""
        numbers, blocks = self.split(x)
        return torch.cat([numbers, *blocks], dim=1)


def _hot(x: Tensor, codes: tuple[float, ...]) -> Tensor:
    """(n, k): 1 at the nearest code, with the gradient of exp(-distance)."""
    away = (x[:, None] - x.new_tensor(codes)).abs()
    soft = (-away).exp()
    hard = one_hot(away.argmin(1), len(codes)).to(soft.dtype)
    return (soft + (hard - soft).detach()).float()
