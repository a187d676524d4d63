"""Control: retrain from scratch with fresh random numbers, and do not look at the batch.

What adaptation adds is the difference between a defence and this: a defence that is not better than
its control owes its figures to fresh randomness alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from torch import Tensor, nn

from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.defenses.arguments import check_build
from durometer.defenses.stateless import frozen
from durometer.model.classifier import Classifier
from durometer.training.loop import Recipe, fit, fresh
from durometer.training.standard import Standard

_STANDARD = Standard()


@noun(eq=False)
class Control:
    """A control for test-time defences: retrains from scratch with fresh random numbers and ignores
    the batch.

    A defence that is no better than its control owes its figures to randomness alone.

    Args:
        build: Makes the untrained network.
        data: The training data.
        recipe: How to train; see `training`. Default `training.Standard()`.
        epochs: Passes over the data.
        batch: Rows per training batch.
        rate: Learning rate of Adam.
        seed: Seed of the network that is the start state.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> defender = du.defenses.Control(build, data, epochs=50, rate=0.1)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """

    build: Callable[[], nn.Module] = field(repr=False)
    data: Dataset = field(repr=False)
    recipe: Recipe = _STANDARD
    epochs: int = 100
    batch: int = 128
    rate: float = 1e-3
    seed: int = 0
    _made: dict[int, Classifier] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_build(self.build)

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> int:
        return self.seed

    def base(self, state: int) -> Classifier:
        return self.train(state)

    def adapt(self, state: int, x: Tensor, seed: int) -> tuple[Classifier, int]:
        return self.train(seed), state

    def train(self, seed: int) -> Classifier:
        """The network that a seed gives; trained once per seed.

        Args:
            seed: Seed of the first weights and of the training.
        """
        if seed not in self._made:
            net = fresh(self.build, seed)
            fit(
                net,
                self.data,
                self.recipe,
                epochs=self.epochs,
                batch=self.batch,
                rate=self.rate,
                seed=seed,
                progress=False,
            )
            self._made[seed] = frozen(net)
        return self._made[seed]
