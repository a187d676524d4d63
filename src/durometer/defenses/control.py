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
from durometer.defenses.isolate import frozen
from durometer.model.classifier import Classifier
from durometer.training.loop import Recipe, fit, fresh
from durometer.training.standard import Standard

_STANDARD = Standard()


@noun(eq=False)
class Control:
    """Train what `build` makes on `data`, anew for each batch, by a recipe of `du.training`.

    The start state is the network made with `seed`. Networks are remembered by their seed, so that
    attacks that rehearse with the same seeds share them.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> defender = du.defenses.Control(build, data, epochs=2)
    >>> model, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> model.logits(data.x).shape
    torch.Size([16, 3])
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
        """The network that this seed gives."""
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
