"""TENT (Wang et al. 2021): normalise by the batch's own statistics, and sharpen the answers.

BatchNorm layers use the mean and variance of the batch at hand; their affine parameters, shared by
all rows, take a gradient step on the mean entropy. Continual: parameters and moments live on from
batch to batch (`episodic=True` starts each batch from the trained values).

What a reader would get wrong: TENT answers with the network as it was *before* the step it takes on
a batch (`predict="pre"`). And the classifier handed out has the batch's statistics frozen in: on
the batch it gives TENT's own answers, and asked about other points it does not change its mind
about these.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from durometer.core.streams import seeded
from durometer.core.validation import noun
from durometer.defenses.dent import check_norms
from durometer.defenses.stateless import frozen
from durometer.model.classifier import Classifier


@noun(eq=False)
class TENT:
    """Normalises by the statistics of the test batch and minimises the entropy of the answers (Wang
    et al., 2021).

    Args:
        model: A network with BatchNorm layers.
        steps: Entropy steps per batch; 1 as published.
        rate: Learning rate of Adam.
        predict: "pre": answers come from the network before its last step, as published. "post":
            after it.
        episodic: Whether every batch starts from the trained values. False continues from batch to
            batch.

    Raises:
        DurometerError: The network has no BatchNorm layer with affine parameters, or `predict` has
            another value.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.TENT(model)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """

    model: nn.Module = field(repr=False)
    steps: int = field(default=1, metadata={"least": 0})
    rate: float = 1e-3
    predict: Literal["pre", "post"] = "pre"
    episodic: bool = False

    def __post_init__(self) -> None:
        check_norms(self.model)

    @property
    def stateful(self) -> bool:
        return not self.episodic

    def start(self) -> tuple[dict[str, Tensor], Any]:
        return {k: v.detach().clone() for k, v in _affine(self.model).items()}, None

    def base(self, state: Any) -> Classifier:
        return frozen(self._revive(state)[0])

    def adapt(self, state: Any, x: Tensor, seed: int) -> tuple[Classifier, Any]:
        net, steps = self._revive(state)
        x = x.detach().to(next(net.parameters()).dtype)
        before = copy.deepcopy(net)
        with seeded(seed), torch.enable_grad():
            for k in range(self.steps):
                if k == self.steps - 1:
                    before.load_state_dict(net.state_dict())
                for norm in _norms(net):
                    norm.train()  # the gradient flows through the batch's statistics, too
                logits = net(x)
                loss = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
                steps.zero_grad(set_to_none=True)
                loss.backward()
                steps.step()
        answering = freeze(before if self.predict == "pre" else net, x)
        if self.episodic:
            return frozen(answering), state
        values = {k: v.detach().clone() for k, v in _affine(net).items()}
        return frozen(answering), (values, copy.deepcopy(steps.state_dict()))

    def unrolled(self, state: Any, x: Tensor, seed: int) -> tuple[Tensor, Any]:
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        Gradients pass through all steps.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        net, steps = self._revive(state)
        values, moments = {k: v.clone() for k, v in state[0].items()}, _moments(steps, state[1])
        point = x.to(next(net.parameters()).dtype)
        graph = torch.is_grad_enabled()
        for norm in _norms(net):
            norm.train()
        logits = functional_call(net, values, (point,))
        for _ in range(self.steps):
            with seeded(seed), torch.enable_grad():
                free = {k: v if v.requires_grad else v.requires_grad_() for k, v in values.items()}
                logits = functional_call(net, free, (point,))
                loss = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
                grads = torch.autograd.grad(loss, list(free.values()), create_graph=graph)
            values, moments = adam(free, grads, moments, self.rate)
        if self.predict == "post" and self.steps:
            logits = functional_call(net, values, (point,))
        if self.episodic:
            return logits, state
        return logits, (values, moments)

    def _revive(self, state: Any) -> tuple[nn.Module, torch.optim.Adam]:
        values, moments = state
        net = copy.deepcopy(self.model).eval().requires_grad_(False)
        free = _affine(net)
        for name, value in values.items():
            free[name].data.copy_(value)
            free[name].requires_grad_(True)
        steps = torch.optim.Adam(free.values(), lr=self.rate)
        if isinstance(moments, dict):
            steps.load_state_dict(copy.deepcopy(moments))
        return net, steps


@dataclass(frozen=True, eq=False)
class Moments:
    """Adam's memory of each parameter, with the graph it came from."""

    count: int
    first: tuple[Tensor, ...]
    second: tuple[Tensor, ...]


def _moments(steps: torch.optim.Adam, held: Any) -> Moments | None:
    """What a state holds: nothing, an optimiser's state, or moments of an unrolled round."""
    if held is None or isinstance(held, Moments):
        return held
    each = list(steps.state.values())
    count = int(each[0]["step"])
    return Moments(count, *(tuple(e[k] for e in each) for k in ("exp_avg", "exp_avg_sq")))


def adam(
    values: dict[str, Tensor], grads: tuple[Tensor, ...], held: Moments | None, rate: float
) -> tuple[dict[str, Tensor], Moments]:
    """One step of Adam as a function: torch's own works in place, where no gradient passes."""
    zeros = tuple(torch.zeros_like(g) for g in grads)
    held = held or Moments(0, zeros, zeros)
    count = held.count + 1
    first = tuple(0.9 * m + 0.1 * g for m, g in zip(held.first, grads, strict=True))
    second = tuple(0.999 * v + 0.001 * g.square() for v, g in zip(held.second, grads, strict=True))
    size = rate / (1 - 0.9**count)
    moved = {
        name: value - size * m / (((v + 1e-30) / (1 - 0.999**count)).sqrt() + 1e-8)
        for (name, value), m, v in zip(values.items(), first, second, strict=True)
    }
    return moved, Moments(count, first, second)


def freeze(net: nn.Module, x: Tensor) -> nn.Module:
    """Make this batch's statistics the network's own, layer by layer, in place."""
    net.eval()
    hooks = [module.register_forward_pre_hook(_remember) for module in _norms(net)]
    with torch.no_grad():
        net(x)  # each layer's statistics are set before it is used, so later layers see the effect
    for hook in hooks:
        hook.remove()
    return net


def _remember(module: Any, inputs: tuple[Tensor, ...]) -> None:
    x = inputs[0].transpose(0, 1).flatten(1)  # (C, everything else)
    module.running_mean, module.running_var = x.mean(1), x.var(1, correction=0)


def _norms(net: nn.Module) -> list[nn.Module]:
    return [m for m in net.modules() if isinstance(m, _BatchNorm) and m.affine]


def _affine(net: nn.Module) -> dict[str, nn.Parameter]:
    kept = {id(p) for m in _norms(net) for p in m.parameters()}
    return {name: p for name, p in net.named_parameters() if id(p) in kept}
