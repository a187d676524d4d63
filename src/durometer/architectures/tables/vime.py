"""VIME (Yoon et al. 2020): learn what a table looks like first, then the labels.

Self-supervised: every value is replaced with probability `p_m` by that of another row; from the
encoder's output one head tells which values were replaced (cross entropy), another restores them
(squared error, times `alpha`). Semi-supervised: the predictor, on the encoder's output, learns the
labels and pays `beta` for answering differently on K corrupted copies of a row.

What a reader would get wrong: after the first part the encoder is fixed. It is a linear layer with
ReLU, so gradients flow through it to the record as through any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from durometer.architectures.tables.mlp import layers
from durometer.architectures.tables.tablenet import TableNet, Training
from durometer.core.streams import seeded
from durometer.data.dataset import Dataset
from durometer.tables.schema import Schema
from durometer.training.loop import Batch, fit


def corrupt(z: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(copy, mask): values replaced, each with probability `share`, by those of other rows."""
    mask = torch.rand(z.shape, generator=generator) < share
    rows = torch.rand(z.shape, generator=generator).argsort(0)
    other = z.gather(0, rows)
    copy = torch.where(mask, other, z)
    return copy, copy != z  # a value replaced by an equal one was not replaced


@dataclass(frozen=True)
class SelfSupervised:
    """Which values were replaced, and what were they?"""

    p_m: float
    alpha: float

    def losses(self, net: Any, batch: Batch) -> Iterator[Tensor]:
        z = net.input(batch.x.float())
        copy, mask = corrupt(z, self.p_m, batch.generator)
        code = net.encoder(copy)
        found = binary_cross_entropy_with_logits(net.mask(code), mask.float())
        yield found + self.alpha * mse_loss(net.restored(code).sigmoid(), z)


class VIME(TableNet):
    """VIME: self-supervised learning of the table first, then of the labels (Yoon et al., 2020).

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        width: Units of the predictor's hidden layers.
        depth: Number of these layers.
        p_m: Probability that a value is replaced during self-supervision.
        alpha: Weight of restoring the values.
        K: Corrupted copies per row during supervision.
        beta: Weight of answering differently on them.
        first: Epochs of self-supervision.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.VIME(schema, 3, width=4, depth=1).eval()(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    training_: ClassVar[Training] = Training()

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        width: int = 100,
        depth: int = 3,
        p_m: float = 0.3,
        alpha: float = 2.0,
        K: int = 3,
        beta: float = 1.0,
        first: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__(
            schema, classes, seed, width=width, depth=depth, p_m=p_m, alpha=alpha, K=K, beta=beta,
            first=first,
        )  # fmt: skip
        self.p_m, self.alpha, self.K, self.beta, self.first = p_m, alpha, K, beta, first
        size = self.input.size
        with seeded(seed):
            self.encoder = nn.Sequential(nn.Linear(size, 2 * size), nn.ReLU())
            self.mask, self.restored = nn.Linear(2 * size, size), nn.Linear(2 * size, size)
            self.predictor = layers(2 * size, *[width] * depth, classes)

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        out: Tensor = self.predictor(self.encoder(z))
        return out

    def before(self, data: Dataset, options: dict[str, Any]) -> None:
        """Self-supervised learning: `first` epochs without labels, after which the encoder is
        fixed.

        Args:
            data: The training data.
            options: Options of the training loop.
        """
        self.encoder.requires_grad_(True)
        fit(self, data, SelfSupervised(self.p_m, self.alpha), epochs=self.first, **options)
        for part in (self.encoder, self.mask, self.restored):
            part.requires_grad_(False)

    def extra(self, batch: Batch) -> Tensor:
        """`beta` times the variance of the answers over `K` corrupted copies.

        Args:
            batch: The batch.
        """
        with torch.no_grad():
            z = self.input(batch.x.float())
            copies = [corrupt(z, self.p_m, batch.generator)[0] for _ in range(self.K)]
        answers = torch.stack([self.logits(copy) for copy in copies])
        return self.beta * answers.softmax(2).var(0).mean()
