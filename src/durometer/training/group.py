"""The group defence (Lin et al., NDSS 2024, IV): do not be right, only do not be *used*.

Every batch has two parts. The first, of all classes, is never perturbed and learnt by cross
entropy. The second, of source classes only, is perturbed towards the attacker's targets T (loss
MDMUL), and the network learns not to land there, wherever else it lands:

    MDTRAIN = kappa * sum_{t in T} relu(z_t - max_{i not in T} z_i)

On signs the published perturbation takes one step per weight update, `replays` of them on each
batch. That is enough in a small ball, not for a patch of any colour: there, as published for faces,
a whole `attack` is run on every batch before its one weight update. Start from a network that is
robust already (DOA training), at a low rate: the first part is clean, and learning from it alone
undoes that robustness.

What a reader would get wrong: here MDTRAIN is a *mean* over the second part, in the paper a sum;
their kappa of 0.05 with 128 rows is 6.4 here, and does not depend on the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from durometer import losses
from durometer.attacks.base import Attack
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.goals.goal import Goal, Names
from durometer.losses import Loss, LossName
from durometer.spaces.region import Space
from durometer.training.adversarial import CraftBy
from durometer.training.loop import Batch


def mdtrain(logits: Tensor, targets: Tensor) -> Tensor:
    """(n,): by how much the targets stand above the best other class; 0 where none is reached."""
    best = logits.masked_fill(targets, -torch.inf).amax(1, keepdim=True)
    return ((logits - best).relu() * targets).sum(1)


@noun
class Group:
    """The group defence: trains a network not to be pushed into the attacker's target classes (Lin
    et al., NDSS 2024, IV).

    Each batch has a clean part, learnt by cross entropy, and a part of source rows perturbed
    towards the targets, on which the loss MDTRAIN keeps the targets below the best other class.
    MDTRAIN is a mean here and a sum in the paper: their kappa of 0.05 with 128 rows is 6.4 here.

    Args:
        goal: The goal of the attacker, usually a `Group` goal.
        space: What the attacker may change.
        kappa: Weight of MDTRAIN.
        replays: Updates per batch, with one step of the perturbation between two of them.
        step: Length of such a step, in units of the region's size.
        share: Size of the second part relative to the first. None: the share of source rows in the
            data, as published.
        weight: Weight of the target classes in the cross entropy; 1 as published. More of it
            protects the accuracy on them.
        loss: The loss that the perturbation climbs.
        attack: An attack that perturbs the second part before its one update, as published for
            faces; `replays`, `step` and `loss` are then not used. None: the steps above.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.Group(du.Group({0: [1], 1: [2], 2: [0]}), du.Linf(0.05), replays=2)
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    goal: Goal
    space: Space
    kappa: float = 6.4
    replays: int = 6
    step: float = 1.0
    share: float | None = None
    weight: float = 1.0
    loss: Loss | LossName = "mdmul"
    attack: Attack | None = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        rows, targets = self._second(batch)
        x = batch.data.x[rows]
        if self.attack is not None:
            craft = CraftBy(self.attack, self.space, _Wanted(targets))
            draw = int(torch.randint(2**62, (1,), generator=batch.generator))
            attacked = craft(net, x, batch.data.y[rows], draw)
            net.train()
            yield self._loss(net, batch, attacked, targets)
            return
        self.space.check(x)
        region = self.space.around(x)
        z = region.origin.clone()
        length = torch.full((len(z),), self.step * region.eps, dtype=z.dtype)
        for k in range(self.replays):
            yield self._loss(net, batch, region.decode(z).detach(), targets)
            if k + 1 < self.replays:
                grad = self._gradient(net, region.decode, z, targets)
                z = region.project(region.ascend(z, grad, length))

    def _loss(
        self, net: torch.nn.Module, batch: Batch, attacked: Tensor, targets: Tensor
    ) -> Tensor:
        wanted = batch.memory["targets"].any(0)[batch.y]
        weight = torch.where(wanted, self.weight, 1.0)
        outputs = net(torch.cat([batch.x, attacked]))  # one pass: one set of batch statistics
        first, second = outputs[: len(batch.x)], outputs[len(batch.x) :]
        wrong = cross_entropy(first, batch.y, reduction="none")
        clean = (weight * wrong).sum() / weight.sum()
        return clean + self.kappa * mdtrain(second, targets).mean()

    def _second(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rows of source classes, drawn from the whole training set, and their targets."""
        memory = batch.memory
        if "sources" not in memory:
            blank = torch.zeros(len(batch.data), _classes(batch))
            every = self.goal.targets(
                batch.data.y, blank, torch.arange(len(batch.data)), batch.data.classes
            )
            memory["sources"], memory["targets"] = every.any(1).nonzero()[:, 0], every
            if not len(memory["sources"]):
                raise DurometerError(f"no row of the training data is a source of {self.goal!r}")
        sources = memory["sources"]
        share = len(sources) / len(batch.data) if self.share is None else self.share
        size = max(2, round(share * len(batch.x)))
        rows = sources[torch.randint(len(sources), (size,), generator=batch.generator)]
        return rows, memory["targets"][rows]

    def _gradient(
        self, net: torch.nn.Module, decode: Callable[[Tensor], Tensor], z: Tensor, targets: Tensor
    ) -> Tensor:
        net.eval()
        z = z.detach().requires_grad_()
        value = losses.find(self.loss)(net(decode(z)), targets).sum()
        grad: Tensor
        (grad,) = torch.autograd.grad(value, z)
        net.train()
        return grad.nan_to_num(0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class _Wanted(Goal):
    """The goal of rows whose targets are known: a mask (n, C)."""

    loss: ClassVar[str] = "mdmul"
    mask: Tensor

    def targets(self, y: Tensor, clean: Tensor, index: Tensor, names: Names = None) -> Tensor:
        return self.mask


def _classes(batch: Batch) -> int:
    return len(batch.data.classes) if batch.data.classes else int(batch.data.y.max()) + 1


def search_kappa(
    recipe: Group,
    train: Callable[[Group], torch.nn.Module],
    measures: Callable[[torch.nn.Module], Sequence[float]],
    floor: Sequence[float],
    kappas: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
) -> tuple[float, torch.nn.Module]:
    """Finds the kappa of the group defence by a linear search, as published.

    Args:
        recipe: The recipe; its `kappa` is replaced.
        train: Trains a network with a recipe.
        measures: Measures a network on validation data: first the robustness to be raised, then
            figures that must not fall below `floor`.
        floor: Lowest acceptable values of these figures, e.g. accuracy and accuracy on the targets.
        kappas: The values to try.

    Returns:
        The best kappa and its network; where no kappa keeps the floor, the one that misses it by
            least.

    Raises:
        DurometerError: There is no kappa to try.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> recipe = du.training.Group(du.Group({0: [1]}), du.Linf(0.1))
    >>> right = lambda net: [du.training.accuracy(net, data)] * 2
    >>> kappa, _ = du.training.search_kappa(
    ...     recipe, lambda recipe: net, right, [0.9], (1.0, 2.0)
    ... )
    >>> kappa
    1.0
    """
    best: tuple[tuple[float, float], float, torch.nn.Module] | None = None
    for kappa in kappas:
        net = train(replace(recipe, kappa=kappa))
        robust, *rest = measures(net)
        short = sum(max(0.0, f - r) for f, r in zip(floor, rest, strict=True))
        rank = (-short, robust)
        if best is None or rank > best[0]:
            best = (rank, kappa, net)
    if best is None:
        raise DurometerError("search_kappa: no kappas to try; give e.g. kappas=(1.0, 2.0)")
    return best[1], best[2]
