"""STG (Yamada et al. 2020): a stochastic gate on every feature decides whether it is used at all.

    z_d = clamp(mu_d + sigma * N(0, 1), 0, 1),   loss + lam * mean_d P(z_d > 0),

with P(z_d > 0) = Phi(mu_d / sigma): a relaxed count of features. Without noise (eval mode) the gate
is clamp(mu, 0, 1). The network behind it has tanh layers, as in the CAA authors' benchmark.

What a reader would get wrong: a gate closes only if its features are not worth `lam`; a gate at 0
has no gradient in eval mode, so an attack cannot move that feature to any effect, and need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from durometer.architectures.tables.mlp import layers
from durometer.architectures.tables.tablenet import TableNet, Training
from durometer.core.streams import seeded
from durometer.tables.schema import Schema
from durometer.training.loop import Batch


class STG(TableNet):
    """A network with a stochastic gate on every feature, which learns to use few of them (Yamada et
    al., 2020).

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        widths: Units of the hidden layers, with tanh.
        lam: Price of an open gate in the loss.
        sigma: Standard deviation of the gates' noise; 0.5 as published.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.STG(schema, 3, widths=(4,)).eval()(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    training_: ClassVar[Training] = Training(rate=3e-3, patience=30)

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        widths: Sequence[int] = (60, 20),
        lam: float = 0.1,
        sigma: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(schema, classes, seed, widths=tuple(widths), lam=lam, sigma=sigma)
        self.lam, self.sigma = lam, sigma
        size = self.input.size
        with seeded(seed):
            self.mu = nn.Parameter(0.5 + 0.01 * torch.randn(size))
            self.body = layers(size, *widths, classes, between=nn.Tanh)

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        gate: Tensor = self.mu
        if self.training:
            gate = gate + self.sigma * torch.randn_like(z)
        out: Tensor = self.body(z * gate.clamp(0.0, 1.0))
        return out

    def extra(self, batch: Batch) -> Tensor:
        """The price of the open gates, added to every loss.

        Args:
            batch: The batch.
        """
        price: Tensor = self.lam * torch.special.ndtr(self.mu / self.sigma).mean()
        return price

    def open_gates(self) -> dict[str, float]:
        """How far the gate of each feature is open, from 0 (closed) to 1; `pet=dog` is a category's
        value.
        """
        gates = self.mu.detach().clamp(0.0, 1.0).tolist()
        return dict(zip(self.input.names, gates, strict=True))
