"""Adversarial training with any attack in any space: train on what the attacker hands in.

`craft(net, x, y, draw)` gives the inputs to train on; `CraftBy(attack, space)` makes one from the
library's own attacks, so that Madry et al. is `Adversarial(CraftBy(PGD(7), Linf(8 / 255)))`.

What a reader would get wrong: the network is in eval mode while it is attacked (batch statistics
must not move with the attack's steps) and in training mode while it learns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import torch
from torch import Tensor

from durometer import losses
from durometer.attacks.base import Attack, run
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.games.arguments import check_kinds
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Goal
from durometer.model.classifier import wrap
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee
from durometer.spaces.region import Space
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy

Craft = Callable[[torch.nn.Module, Tensor, Tensor, int], Tensor]  # (net, x, y, draw) -> x


@noun
class CraftBy:
    """Crafts training inputs by an attack: the valid input of highest loss for each row.

    Rows without a target stay as they are.

    Args:
        attack: The attack, e.g. `PGD(7)`.
        space: What it may change.
        goal: What it aims at. Default `Untargeted()`.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> craft = du.training.CraftBy(du.PGD(5), du.Linf(0.1))
    >>> x = craft(net, data.x, data.y, 0)
    >>> right = float((net(x).argmax(1) == data.y).double().mean())
    >>> right, round(float((x - data.x).abs().max()), 3)
    (0.3125, 0.1)
    """

    attack: Attack
    space: Space
    goal: Goal = field(default=Untargeted())

    def __post_init__(self) -> None:
        check_kinds(self.space, self.goal, self.attack)

    def __call__(self, net: torch.nn.Module, x: Tensor, y: Tensor, draw: int) -> Tensor:
        self.space.check(x)  # a row outside its own box has no valid change: it would stay clean
        model = wrap(net)
        rows = torch.arange(len(x))
        with model.ready():
            with torch.no_grad():
                clean = model.logits(x)
            targets = self.goal.targets(y, clean, rows)
            some = targets.any(1)
            if not bool(some.any()):
                return x
            # Training wants the highest loss, not the first success: the model will move.
            referee = Referee(targets, x.clone(), "best", model.slack)
            loss = losses.find(self.goal.loss)
            problem = Problem(
                model,
                self.space.around(x),
                referee,
                Stream(draw, rows, x.device),
                y,
                clean,
                targets,
                loss,
                scope=some,
            )
            run(self.attack, problem)
        return referee.best


@noun
class Adversarial:
    """Adversarial training with any attack in any space (Madry et al., 2018, with `PGD`).

    In a table with relations: `Adversarial(CraftBy(CAPGD(), schema.space(eps=0.5)), clean=0.5)`.

    Args:
        craft: Makes the inputs to train on: `CraftBy(attack, space)`, or a function (net, x, y,
            draw) -> x.
        clean: Weight of the clean rows in the loss, from 0 to 1. 0 trains on crafted inputs only.
        weights: Class weights: one number per class, "balanced", or None for equal ones.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.Adversarial(du.training.CraftBy(du.PGD(2), du.Linf(0.05)))
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    craft: Craft
    clean: float = 0.0
    weights: Weights = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        draw = int(torch.randint(2**62, (1,), generator=batch.generator))
        x = self.craft(net, batch.x, batch.y, draw)
        net.train()
        loss = (1 - self.clean) * cross_entropy(net(x), batch, self.weights)
        if self.clean:
            loss = loss + self.clean * cross_entropy(net(batch.x), batch, self.weights)
        yield loss
