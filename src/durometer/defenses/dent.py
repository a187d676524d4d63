"""DENT (Wang et al. 2021, DENT+): each test input gets its own scale and shift in every BatchNorm.

Statistics stay those of training; the affine parameters, one set per row, take a few steps towards

    mean_i H(p_i) + sum_c q_c log q_c,    q = mean_i p_i

(sure answers, diverse over the batch). Stateless: each batch starts from the trained values. The
optimiser is AdaMod (Ding et al. 2019): Adam whose rate per coordinate is capped by its own moving
average, which starts at zero, so the first step is at most 0.4 of Adam's.

What a reader would get wrong: the adapted classifier is bound to its batch. Row i's parameters
belong to row i; rows are coupled through q alone. Eq. (8) of Chen et al. sums where the code means.
"""

from __future__ import annotations

import copy
import math
from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from durometer.attacks.base import Attack
from durometer.attacks.confident import Confident
from durometer.attacks.transductive.gmsa import GMSA
from durometer.core.errors import DurometerError
from durometer.core.streams import seeded
from durometer.core.validation import noun
from durometer.defenses.stateless import Stateless
from durometer.model.classifier import Classifier
from durometer.tables.space import TableSpace

_BETAS = (0.99, 0.999, 0.6)
_TINY = 1e-30  # far below eps^2: a root whose gradient at 0 is 0, and not infinite


@noun(eq=False)
class DENT(Stateless):
    """DENT+: gives each test input its own scale and shift in every BatchNorm layer, by entropy
    minimisation (Wang et al., 2021).

    Each batch starts from the trained values. `evaluate` attacks it by default as Chen et al.
    (2022) do: GMSA-AVG with three candidates, around `Confident`.

    Args:
        model: A network with BatchNorm layers.
        steps: Optimisation steps; 6 as published.
        rate: Learning rate of AdaMod; 0.006 as published.

    Raises:
        DurometerError: The network has no BatchNorm layer with affine parameters.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.DENT(model)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """

    model: nn.Module = field(repr=False)
    steps: int = field(default=6, metadata={"least": 0})
    rate: float = 6e-3

    def __post_init__(self) -> None:
        check_norms(self.model)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        net = rowwise(self.model)
        kind = next(iter(net.state_dict().values())).dtype
        values = self._moved(net, x.detach().to(kind), seed, graph=False)

        def call(x: Tensor, rows: Tensor) -> Tensor:
            mine = {k: v[rows] for k, v in values.items()}
            logits: Tensor = functional_call(net, mine, (x.to(kind),))
            return logits

        kind_name = f"DENT of torch {type(self.model).__name__}"
        return Classifier(call, kind_name, True, bound=True, slack=1e-5), None

    def usual_attack(self, space: Any) -> Attack | None:
        """GMSA around `Confident` (Chen et al., 2022, A.3), with T = 2; None on tables.

        Args:
            space: What the attacker may change.
        """
        return None if isinstance(space, TableSpace) else GMSA(Confident(), iterations=2)

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        Gradients pass through all steps.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        net = rowwise(self.model)
        point = x.to(next(iter(net.state_dict().values())).dtype)
        values = self._moved(net, point, seed, graph=torch.is_grad_enabled())
        logits: Tensor = functional_call(net, values, (point,))
        return logits, None

    def _moved(self, net: nn.Module, x: Tensor, seed: int, graph: bool) -> dict[str, Tensor]:
        """The parameters of each row after the steps; `net` is left in eval mode."""
        values = {
            f"{name}.{key}": getattr(module, key).detach().expand(len(x), -1).clone()
            for name, module in net.named_modules()
            if isinstance(module, RowNorm)
            for key in ("weight", "bias")
        }
        optimiser = AdaMod(self.rate)
        with seeded(seed), torch.enable_grad():
            net.train()  # matters for dropout only: the statistics are fixed
            for _ in range(self.steps):
                if not graph:
                    values = {k: v.detach() for k, v in values.items()}
                free = {k: v if v.requires_grad else v.requires_grad_() for k, v in values.items()}
                loss = sharpness(functional_call(net, free, (x,)))
                grads = torch.autograd.grad(loss, list(free.values()), create_graph=graph)
                values = optimiser.step(free, dict(zip(free, grads, strict=True)))
        net.eval()
        return values if graph else {k: v.detach() for k, v in values.items()}


def sharpness(logits: Tensor) -> Tensor:
    """Mean entropy of the answers minus the entropy of the mean answer: low is sure and diverse."""
    p = logits.softmax(1)
    mean = p.mean(0)
    return -(p * logits.log_softmax(1)).sum(1).mean() + (mean * (mean + 1e-5).log()).sum()


class RowNorm(nn.Module):
    """BatchNorm with fixed statistics and, when called with them, affine parameters per row."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        if norm.running_mean is None or norm.running_var is None or not norm.affine:
            raise DurometerError(
                "DENT needs BatchNorm layers with running statistics and affine=True"
            )
        self.register_buffer("mean", norm.running_mean.clone())
        self.register_buffer("deviation", (norm.running_var + norm.eps).sqrt())
        self.weight = nn.Parameter(norm.weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(norm.bias.detach().clone(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """(n, C, ...) -> the same shape."""
        mean, deviation, weight, bias = (
            v.reshape(-1, x.shape[1], *[1] * (x.ndim - 2))
            for v in (self.mean, self.deviation, self.weight, self.bias)
        )
        return (x - mean) / deviation * weight + bias


def check_norms(model: nn.Module) -> None:
    """Refuse a network without the layers that DENT and TENT adapt."""
    if not any(isinstance(m, _BatchNorm) and m.affine for m in model.modules()):
        raise DurometerError(
            f"{type(model).__name__} has no BatchNorm layer with affine=True: DENT and TENT have "
            "nothing to adapt"
        )


def rowwise(model: nn.Module) -> nn.Module:
    """A copy of the network with a RowNorm in place of every BatchNorm."""
    net = copy.deepcopy(model).requires_grad_(False)
    names = [name for name, module in net.named_modules() if isinstance(module, _BatchNorm)]
    if names == [""]:
        return RowNorm(net)  # type: ignore[arg-type]
    for name in names:
        parent, _, child = name.rpartition(".")
        setattr(net.get_submodule(parent), child, RowNorm(net.get_submodule(name)))  # type: ignore[arg-type]
    return net


class AdaMod:
    """Adam with adaptive, momental upper bounds on its rates."""

    def __init__(self, rate: float, eps: float = 1e-8) -> None:
        self.rate, self.eps, self.count = rate, eps, 0
        self.first: dict[str, Tensor] = {}
        self.second: dict[str, Tensor] = {}
        self.bound: dict[str, Tensor] = {}

    def step(self, values: dict[str, Tensor], grads: dict[str, Tensor]) -> dict[str, Tensor]:
        """The values after one more step; what was given is not changed."""
        one, two, three = _BETAS
        self.count += 1
        size = self.rate * math.sqrt(1 - two**self.count) / (1 - one**self.count)
        after = {}
        for name, value in values.items():
            zero = torch.zeros_like(value)
            grad = grads[name]
            m = self.first[name] = one * self.first.get(name, zero) + (1 - one) * grad
            v = self.second[name] = two * self.second.get(name, zero) + (1 - two) * grad.square()
            eta = size / ((v + _TINY).sqrt() + self.eps)
            cap = self.bound[name] = three * self.bound.get(name, zero) + (1 - three) * eta
            after[name] = value - eta.minimum(cap) * m
        return after
