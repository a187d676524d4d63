"""DANN as a defence (Chen et al. 2022; Ajakan et al. 2014): features that cannot tell U' from D.

From scratch for each batch: the classes are learnt on the labelled data D; a discriminator tries to
tell D from U' by the encoder's features, and the reversed gradient teaches the encoder to prevent
it:

    CE(class | D) + CE(domain 0 | D) + CE(domain 1 | U'),   reversal by -alpha,
    alpha = strength (2 / (1 + exp(-10 p)) - 1),   p = share of the iterations done

What a reader would get wrong: D and U' go through the network in separate passes (batch
normalisation sees one domain at a time); the discriminator itself learns at the full rate; and an
epoch is as many batches as the *smaller* of the two sets has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from durometer.core.errors import DurometerError
from durometer.core.streams import derive, seeded
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.defenses.arguments import check_build
from durometer.defenses.control import Control
from durometer.defenses.stateless import frozen
from durometer.model.classifier import Classifier
from durometer.training.loop import fresh


@noun(eq=False)
class DANN:
    """Domain adaptation as a defence: retrains for each batch with features that cannot tell it
    from the training data (Ajakan et al., 2014; Chen et al., 2022).

    Args:
        build: Makes an untrained network with `encoder`, `predictor` and `discriminator`; see
            `architectures.Domain`.
        data: The labelled training data.
        model: The classifier before adaptation. None: the same network trained on `data` alone for
            `epochs` passes.
        epochs: Passes over the smaller of training data and batch.
        iterations: Number of updates, instead of `epochs`.
        batch: Rows per training batch, of each domain.
        rate: Learning rate of Adam.
        strength: Largest weight of the reversed gradient.
        seed: Seed of the classifier before adaptation.

    >>> import torch
    >>> import durometer as du
    >>> from dataclasses import replace
    >>> _, data = du.testing.toy()
    >>> data = replace(data, x=data.x.float())
    >>> build = lambda: du.architectures.domain_mlp(torch.zeros(8), torch.ones(8), 3, width=8)
    >>> defender = du.defenses.DANN(build, data, epochs=1, iterations=60, batch=16, rate=0.01)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """

    build: Callable[[], nn.Module] = field(repr=False)
    data: Dataset = field(repr=False)
    model: nn.Module | None = field(default=None, repr=False)
    epochs: int = 100
    iterations: int | None = None
    batch: int = 128
    rate: float = 1e-3
    strength: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_build(self.build)

    @classmethod
    def cifar10(
        cls, build: Callable[[], nn.Module], data: Dataset, model: nn.Module | None = None,
        seed: int = 0,
    ) -> DANN:  # fmt: skip
        """The settings of the CIFAR-10 experiments (Chen et al., 2022): the reversed gradient
        weighs up to 1.0.

        The defaults are those of the MNIST experiments, where it weighs up to 0.1.

        Args:
            build: Makes an untrained network with `encoder`, `predictor` and `discriminator`.
            data: The labelled training data.
            model: The classifier before adaptation. None: the same network trained on `data` alone.
            seed: Seed of the classifier before adaptation.
        """
        return cls(build, data, model, strength=1.0, seed=seed)

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> Classifier:
        return self._static

    @cached_property
    def _static(self) -> Classifier:
        """F_0; made once."""
        if self.model is not None:
            return frozen(self.model)
        return Control(self.build, self.data, epochs=self.epochs, rate=self.rate).train(self.seed)

    def base(self, state: Classifier) -> Classifier:
        return state

    def adapt(self, state: Classifier, x: Tensor, seed: int) -> tuple[Classifier, Classifier]:
        net: Any = fresh(self.build, seed)
        for part in ("encoder", "predictor", "discriminator"):
            if not hasattr(net, part):
                raise DurometerError(
                    "DANN needs a network with encoder, predictor and discriminator; "
                    f"{type(net).__name__} has no {part} (see du.architectures.Domain)"
                )
        kind = next(net.parameters()).dtype
        source, labels, target = self.data.x.to(kind), self.data.y, x.detach().to(kind)
        size = min(self.batch, len(source), len(target))
        per_epoch = max(1, min(len(source), len(target)) // size)
        total = self.epochs * per_epoch if self.iterations is None else self.iterations
        ours, theirs = _Deck(len(source), size, seed, "D"), _Deck(len(target), size, seed, "U")
        steps = torch.optim.Adam(net.parameters(), lr=self.rate)
        with seeded(derive(seed, "dropout")):
            net.train()
            for i in range(total):
                alpha = self.strength * (2 / (1 + math.exp(-10 * i / total)) - 1)
                rows = ours.deal()
                known = net.encoder(source[rows])
                loss = cross_entropy(net.predictor(known), labels[rows])
                for features, domain in ((known, 0), (net.encoder(target[theirs.deal()]), 1)):
                    guess = net.discriminator(_reverse(features, alpha))
                    loss = loss + cross_entropy(guess, torch.full((len(guess),), domain))
                steps.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                steps.step()
        return frozen(net), state


def _reverse(features: Tensor, alpha: float) -> Tensor:
    """The same values; their gradient comes back times -alpha."""
    return features.detach() * (1 + alpha) - alpha * features


class _Deck:
    """Shuffled batches without end."""

    def __init__(self, count: int, size: int, seed: int, name: str) -> None:
        self.count, self.size = count, size
        self.generator = torch.Generator().manual_seed(derive(seed, name))
        self.left = torch.empty(0, dtype=torch.long)

    def deal(self) -> Tensor:
        if len(self.left) < self.size:
            self.left = torch.randperm(self.count, generator=self.generator)
        dealt, self.left = self.left[: self.size], self.left[self.size :]
        return dealt
