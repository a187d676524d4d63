"""TabNet (Arik & Pfister 2021): several steps, each looking at a few features of its own choice.

At step i an attentive transformer chooses a mask M_i = sparsemax(P_{i-1} * h(a_{i-1})); the feature
transformer reads M_i * x and gives d_i for the decision, a_i for the next choice. P_i = prod
(gamma - M_j): what has been looked at counts less from then on. `sparsity` is the price of masks
that spread (their entropy).

What a reader would get wrong: batch normalisation is "ghost": statistics are of parts of 128 rows.
And sparsemax gives exact zeros: outside its support the gradient of the mask is 0 as well, which is
one of the reasons why gradient attacks alone do worse here.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import glu

from durometer.architectures.tables.tablenet import TableNet, Training
from durometer.core.streams import seeded
from durometer.tables.schema import Schema
from durometer.training.loop import Batch


def sparsemax(z: Tensor) -> Tensor:
    """The nearest point of the simplex, row by row (Martins & Astudillo 2016).

    >>> sparsemax(torch.tensor([[1.0, 0.5, -1.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    ordered = z.sort(dim=1, descending=True).values
    count = torch.arange(1, z.shape[1] + 1, dtype=z.dtype)
    above = ordered.cumsum(1) - 1
    support = (count * ordered > above).sum(1, keepdim=True)
    threshold = above.gather(1, support - 1) / support
    return (z - threshold).relu()


class GhostNorm(nn.Module):
    """Batch normalisation with the statistics of parts of at most `part` rows."""

    def __init__(self, size: int, part: int = 128) -> None:
        super().__init__()
        self.part, self.norm = part, nn.BatchNorm1d(size, momentum=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if not self.training or len(x) < 2 * self.part:
            out: Tensor = self.norm(x)
            return out
        return torch.cat([self.norm(p) for p in x.tensor_split(len(x) // self.part)])


class Gated(nn.Module):
    """A linear layer (perhaps shared with other steps), its own ghost norm, a gated linear unit."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear, self.norm = linear, GhostNorm(linear.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """(n, in) -> (n, out / 2)."""
        return glu(self.norm(self.linear(x)), dim=1)


class Reader(nn.Module):
    """Feature transformer: shared and independent gated layers with short cuts."""

    def __init__(self, shared: list[nn.Linear], size: int, independent: int) -> None:
        super().__init__()
        own = [nn.Linear(size, 2 * size, bias=False) for _ in range(independent)]
        self.layers = nn.ModuleList([Gated(linear) for linear in (*shared, *own)])

    def forward(self, x: Tensor) -> Tensor:
        """(n, features) -> (n, size)."""
        x = self.layers[0](x)
        for layer in list(self.layers)[1:]:
            x = (x + layer(x)) * 0.5**0.5
        return x


class TabNet(TableNet):
    """TabNet: several steps, each of which attends to a few features (Arik & Pfister, 2021).

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        n_d: Units for the decision, per step.
        n_a: Units for the attention, per step.
        n_steps: Number of steps.
        gamma: How often a feature may be used again: 1 is once, larger is more.
        shared: Layers shared by all steps.
        independent: Layers of each step alone.
        sparsity: Price of masks that spread over many features.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.TabNet(schema, 3, n_d=2, n_a=2, n_steps=1).eval()(
    ...     torch.zeros(2, 8)
    ... ).shape
    torch.Size([2, 3])
    """

    training_: ClassVar[Training] = Training(rate=2e-2, decay=1e-5, batch=512, patience=30)

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        n_d: int = 16,
        n_a: int = 16,
        n_steps: int = 3,
        gamma: float = 1.3,
        shared: int = 2,
        independent: int = 2,
        sparsity: float = 1e-3,
        seed: int = 0,
    ) -> None:
        super().__init__(
            schema, classes, seed, n_d=n_d, n_a=n_a, n_steps=n_steps, gamma=gamma, shared=shared,
            independent=independent, sparsity=sparsity,
        )  # fmt: skip
        self.n_d, self.gamma, self.sparsity = n_d, gamma, sparsity
        size, both = self.input.size, n_d + n_a
        with seeded(seed):
            widths = [size] + [both] * (shared - 1)
            common = [nn.Linear(w, 2 * both, bias=False) for w in widths]
            self.norm = nn.BatchNorm1d(size, momentum=0.02)
            self.readers = nn.ModuleList(
                [Reader(common, both, independent) for _ in range(n_steps + 1)]
            )
            self.choosers = nn.ModuleList(
                [nn.Sequential(nn.Linear(n_a, size, bias=False), GhostNorm(size))
                 for _ in range(n_steps)]
            )  # fmt: skip
            self.head = nn.Linear(n_d, classes)
        self._spread: Tensor | float = 0.0

    def steps(self, z: Tensor) -> tuple[Tensor, list[Tensor]]:
        """What the decision is made from, and the attention masks of all steps.

        Args:
            z: Encoded records (n, size).
        """
        z = self.norm(z)
        free, total, masks = torch.ones_like(z), z.new_zeros(z.shape[0], self.n_d), []
        choice = self.readers[0](z)[:, self.n_d :]
        for chooser, reader in zip(self.choosers, list(self.readers)[1:], strict=True):
            mask = sparsemax(free * chooser(choice))
            masks.append(mask)
            free = free * (self.gamma - mask)
            read = reader(mask * z)
            total = total + read[:, : self.n_d].relu()
            choice = read[:, self.n_d :]
        return total, masks

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        total, masks = self.steps(z)
        if self.training:
            each = [-(m * (m + 1e-15).log()).sum(1).mean() for m in masks]
            self._spread = torch.stack(each).mean()
        out: Tensor = self.head(total)
        return out

    def extra(self, batch: Batch) -> Tensor | float:
        """The price of masks that spread, as of the last training pass.

        Args:
            batch: The batch.
        """
        return self.sparsity * self._spread
