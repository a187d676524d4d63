"""TADV (Chen et al. 2022, section 6): adversarial training from scratch after the attacker's move.

Half of each batch is clean, half adversarial (PGD against the network as it stands), one forward
pass on both together. The start of the attack is the clean point or a random one, by a coin for the
batch.

What a reader would get wrong: Gamma ignores the batch altogether. Its robustness is that of an
independent draw from the distribution of adversarially trained networks, and the attack on it is a
transfer from other draws. So it is a `Control` with another recipe, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from durometer.attacks.base import Attack
from durometer.attacks.pgd import PGD
from durometer.core.capabilities import Starts
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.defenses.control import Control
from durometer.spaces.region import Space
from durometer.training.adversarial import CraftBy
from durometer.training.loop import Batch

_PGD = PGD(40, step=1 / 30)  # steps of 0.01 for eps = 0.3


@noun
class Halves:
    """Cross entropy on a batch whose second half has been attacked."""

    attack: Attack
    space: Space

    def __post_init__(self) -> None:
        if not isinstance(self.attack, Starts) or not self.attack.needs.gradient:
            raise DurometerError(
                f"TADV(attack={self.attack!r}): expected a gradient attack with a start, "
                "e.g. du.PGD(40)"
            )

    def losses(self, net: nn.Module, batch: Batch) -> Iterator[Tensor]:
        coin, draw = torch.randint(2**62, (2,), generator=batch.generator).tolist()
        given: Any = self.attack
        attack: Attack = replace(given, start="clean" if coin % 2 else "random")
        half = len(batch.x) // 2
        craft = CraftBy(attack, self.space)
        bad = craft(net, batch.x[half:], batch.y[half:], draw)
        net.train()
        kind = next(net.parameters()).dtype  # tables come in float64
        yield cross_entropy(net(torch.cat([batch.x[:half], bad]).to(kind)), batch.y)


def TADV(
    build: Callable[[], nn.Module],
    data: Dataset,
    space: Any,
    attack: Any = _PGD,
    *,
    epochs: int = 100,
    batch: int = 128,
    rate: float = 1e-3,
    seed: int = 0,
) -> Control:
    """Adversarial retraining from scratch after the attacker's move, with private randomness (Chen
    et al., 2022, section 6).

    It ignores the batch: it is a `Control` with half of each training batch adversarial.

    Args:
        build: Makes the untrained network.
        data: The training data.
        space: What the attacker of the training may change.
        attack: The attack of the training.
        epochs: Passes over the data.
        batch: Rows per training batch.
        rate: Learning rate of Adam.
        seed: Seed of the network that is the start state.

    Returns:
        A `Control` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> defender = du.defenses.TADV(build, data, du.Linf(0.1), du.PGD(2), epochs=50, rate=0.1)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    0.9375
    """
    return Control(build, data, Halves(attack, space), epochs, batch, rate, seed)
