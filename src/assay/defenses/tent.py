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
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from assay.defenses.arguments import check_arguments
from assay.defenses.dent import check_norms
from assay.defenses.isolate import frozen
from assay.errors import AssayError
from assay.model.classifier import Classifier
from assay.streams import seeded


@dataclass(frozen=True, eq=False)
class TENT:
    """`steps` entropy steps per batch with Adam at `rate`.

    >>> import torch
    >>> import assay as ay
    >>> net, data = ay.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = ay.training.fresh(build).eval()
    >>> defender = ay.defenses.TENT(model)
    >>> state = defender.start()
    >>> adapted, state = defender.adapt(state, data.x, seed=0)
    >>> adapted.logits(data.x).shape
    torch.Size([16, 3])
    """

    model: nn.Module = field(repr=False)
    steps: int = field(default=1, metadata={"least": 0})
    rate: float = 1e-3
    predict: str = "pre"
    episodic: bool = False

    def __post_init__(self) -> None:
        check_arguments(self)
        if self.predict not in ("pre", "post"):
            raise AssayError(f"TENT(predict={self.predict!r}): expected 'pre' or 'post'")
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

    def _revive(self, state: Any) -> tuple[nn.Module, torch.optim.Adam]:
        values, moments = state
        net = copy.deepcopy(self.model).eval().requires_grad_(False)
        free = _affine(net)
        for name, value in values.items():
            free[name].data.copy_(value)
            free[name].requires_grad_(True)
        steps = torch.optim.Adam(free.values(), lr=self.rate)
        if moments is not None:
            steps.load_state_dict(copy.deepcopy(moments))
        return net, steps


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
