"""RMC (Wu et al. 2020): runtime masking and cleansing: train on the neighbours of the test point.

D' holds the training data and adversarial copies of it, made once against the base model. For a
test point the network is trained further on its K nearest points of D', answers,
and is then calibrated on K points of the clean part. Weights and Adam's moments live on from round
to round: RMC is stateful, one test point per round (larger batches: all their neighbours).

What the paper does not say and its code does: of the nearest 20 % a quarter validates and the rest
trains; training stops when the validation loss has not fallen for 5 epochs *and* the epoch's
training loss is below 0.01; the last weights are kept, not the best.

What a reader would get wrong: calibration belongs to the end of a round, but nobody may ever look
at its result (an attacker's rehearsal never does). So the state carries it as a promise, computed
at most once, when the next round asks: the same values, at half the price.

Nearest training points in a network's feature space: exact, in one matrix product.

Features are the inputs of the last linear layer (the penultimate layer), found by a hook, so any
network with such a layer will do.

    |f - b|^2 = |f|^2 - 2 f.b + |b|^2

What a reader would get wrong: the features are those of the *frozen* base network, for the bank and
for the queries; the adapted network is never asked for them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from durometer.attacks.base import Attack
from durometer.attacks.pgd import PGD
from durometer.core.errors import DurometerError
from durometer.core.streams import derive, seeded
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.defenses.stateless import frozen
from durometer.model.classifier import Classifier
from durometer.spaces.region import Space
from durometer.training.adversarial import CraftBy

_PGD = PGD(100, step=1 / 30)  # steps of 0.01 for eps = 0.3
Weights = dict[str, Tensor]


@noun(eq=False)
class RMC:
    """Runtime masking and cleansing: trains the network further on the training points nearest to
    each test point (Wu et al., 2020).

    Weights and optimiser state live on from round to round. As published, one test point per round.

    Args:
        model: The trained network.
        data: The training data.
        space: The space of adversarial copies of the training data. None: there are none.
        attack: The attack that makes them.
        copies: Adversarial copies per training point; 4 in the CIFAR-10 experiments.
        k: Number of nearest points to train on; 1,024 as published.
        rate: Learning rate of Adam.
        batch: Rows per training batch.
        epochs: Largest number of passes over the nearest points.
        patience: Epochs without a lower validation loss after which training may stop.
        converged: Training loss that must be reached before it stops.
        calibrate: Whether to calibrate on nearest clean points after the answer.
        features: Maps inputs to features (n, d) for distances. None: the penultimate layer.
        seed: Seed of the adversarial copies.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.RMC(model, data, k=8, epochs=2, calibrate=False)
    >>> adapted, _ = defender.adapt(defender.start(), data.x[:1], seed=0)
    >>> float((adapted.logits(data.x[:1]).argmax(1) == data.y[: len(data.x[:1])]).double().mean())
    1.0
    """

    model: nn.Module = field(repr=False)
    data: Dataset = field(repr=False)
    space: Space | None = None
    attack: Attack = _PGD
    copies: int = field(default=1, metadata={"least": 0})
    k: int = 1024
    rate: float = 2e-4
    batch: int = 128
    epochs: int = 100
    patience: int = 5
    converged: float = 0.01
    calibrate: bool = True
    features: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    seed: int = 0

    @classmethod
    def cifar10(cls, model: nn.Module, data: Dataset, space: Space, seed: int = 0) -> RMC:
        """The settings of the CIFAR-10 experiments (Chen et al., 2022): four adversarial copies of
        each training image by 40 steps of eps / 8, and Adam at 2.5e-5.

        The defaults are those of the MNIST experiments.

        Args:
            model: The trained network.
            data: The training data.
            space: The space of the copies; `Linf(8 / 255)` as published.
            seed: Seed of the copies.
        """
        attack = PGD(40, step=1 / 8)
        return cls(model, data, space, attack, copies=4, rate=2.5e-5, seed=seed)

    @property
    def stateful(self) -> bool:
        return True

    def start(self) -> RMCState:
        return RMCState(self, self._bank, _copied(self.model.state_dict()), None, None)

    @cached_property
    def _bank(self) -> Bank:
        """D' and its features; made once."""
        x, y = [self.data.x], [self.data.y]
        if self.space is not None:
            craft, net = CraftBy(self.attack, self.space), copy.deepcopy(self.model)
            for block in range(self.copies):
                parts = zip(
                    torch.split(self.data.x, 512), torch.split(self.data.y, 512), strict=True
                )
                x += [
                    craft(net, a, b, derive(self.seed, "copies", block, i))
                    for i, (a, b) in enumerate(parts)
                ]
                y.append(self.data.y)
        points = torch.cat(x)
        return Bank(points, torch.cat(y), self._features(points), len(self.data))

    def base(self, state: RMCState) -> Classifier:
        return frozen(_revived(self, *state.now)[0])

    def adapt(self, state: RMCState, x: Tensor, seed: int) -> tuple[Classifier, RMCState]:
        net, steps = _revived(self, *state.now)
        near = state.bank.around(self._features(x), self.k)
        generator = torch.Generator().manual_seed(derive(seed, "split"))
        head = int(0.2 * len(near))
        mixed = near[:head][torch.randperm(head, generator=generator)]
        held = len(mixed) // 4
        train = torch.cat([mixed[held:], near[head:]])
        _train(self, net, steps, state.bank, train, mixed[:held], seed)
        after = RMCState(
            self,
            state.bank,
            _copied(net.state_dict()),
            copy.deepcopy(steps.state_dict()),
            derive(seed, "calibration") if self.calibrate else None,
        )
        return frozen(net), after

    def _features(self, x: Tensor) -> Tensor:
        return penultimate(self.model, x) if self.features is None else self.features(x)


@dataclass(frozen=True, eq=False)
class RMCState:
    """Weights and moments after a round, with the calibration that is still to be made."""

    defender: RMC
    bank: Bank
    weights: Weights
    moments: Any
    pending: int | None  # the seed of the calibration

    @cached_property
    def now(self) -> tuple[Weights, Any]:
        """Weights and moments as the next round finds them."""
        if self.pending is None:
            return self.weights, self.moments
        defender = self.defender
        net, steps = _revived(defender, self.weights, self.moments)
        generator = torch.Generator().manual_seed(self.pending)
        drawn = torch.randint(self.bank.clean, (defender.k,), generator=generator)
        held = len(drawn) // 8
        _train(defender, net, steps, self.bank, drawn[held:], drawn[:held], self.pending)
        return _copied(net.state_dict()), copy.deepcopy(steps.state_dict())


def _revived(rmc: RMC, weights: Weights, moments: Any) -> tuple[nn.Module, torch.optim.Adam]:
    net = copy.deepcopy(rmc.model).requires_grad_(True)
    net.load_state_dict(weights)
    steps = torch.optim.Adam(net.parameters(), lr=rmc.rate, fused=True)
    if moments is not None:
        steps.load_state_dict(copy.deepcopy(moments))
    return net, steps


def _train(
    rmc: RMC,
    net: nn.Module,
    steps: torch.optim.Adam,
    bank: Bank,
    train: Tensor,
    held: Tensor,
    seed: int,
) -> None:
    """Epochs until validation no longer improves and the training points are learnt."""
    kind = next(net.parameters()).dtype
    x, y, x_held, y_held = (t[i] for i in (train, held) for t in (bank.x.to(kind), bank.y))
    generator = torch.Generator().manual_seed(derive(seed, "order"))
    best, stale = torch.inf, 0
    with seeded(derive(seed, "dropout")):
        for _ in range(rmc.epochs):
            net.train()
            total, count = 0.0, 0
            for rows in torch.split(torch.randperm(len(x), generator=generator), rmc.batch):
                if len(rows) < 2:
                    continue  # batch normalisation has no statistics of a single row
                loss = cross_entropy(net(x[rows]), y[rows])
                steps.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                steps.step()
                total, count = total + float(loss.detach()), count + 1
            net.eval()
            with torch.no_grad():
                value = float(cross_entropy(net(x_held), y_held)) if len(held) else 0.0
            best, stale = (value, 0) if value < best else (best, stale + 1)
            if stale >= rmc.patience and total / max(1, count) < rmc.converged:
                break


def _copied(state: dict[str, Any]) -> Weights:
    return {k: v.detach().clone() for k, v in state.items()}


def penultimate(module: nn.Module, x: Tensor, batch: int = 512) -> Tensor:
    """(n, d): what the last linear layer of the network gets to see, in eval mode."""
    module = copy.deepcopy(module).eval()
    linear = [m for m in module.modules() if isinstance(m, nn.Linear)]
    if not linear:
        raise DurometerError(
            f"{type(module).__name__} has no linear layer, so no penultimate features; "
            "give features=, a function from inputs to (n, d)"
        )
    seen: list[Tensor] = []
    linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    kind = next(module.parameters()).dtype
    with torch.no_grad():
        for part in torch.split(x, batch):
            module(part.to(kind))
    return torch.cat(seen).flatten(1)


@dataclass(frozen=True, eq=False)
class Bank:
    """Labelled points and their features; the first `clean` of them are untouched."""

    x: Tensor
    y: Tensor
    features: Tensor
    clean: int

    @cached_property
    def _norms(self) -> Tensor:
        return self.features.square().sum(1)

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(n, k): places of the k nearest points of each query, the nearest first."""
        k = min(k, len(self.x))
        found = [
            (self._norms - 2 * part @ self.features.T).topk(k, largest=False, sorted=True).indices
            for part in torch.split(queries, 256)
        ]
        return torch.cat(found)

    def around(self, queries: Tensor, k: int) -> Tensor:
        """The neighbours of a whole batch, by rank, without repetition; for one query its k."""
        ranked = self.nearest(queries, k).T.flatten()  # all first neighbours, then all second...
        if len(queries) == 1:
            return ranked
        _, inverse = torch.unique(ranked, return_inverse=True)
        first = torch.full((int(inverse.max()) + 1,), len(ranked))
        first.scatter_reduce_(0, inverse, torch.arange(len(ranked)), "amin")
        return ranked[first.sort().values]
