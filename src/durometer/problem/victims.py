"""Victims: several models attacked at once, the loss combined row by row by its mean or its min.

    mean   1/m sum_j L(F_j(x), T)        one backward pass per model, none of them kept
    min    min_j L(F_j(x), T)            m forward passes, then one backward pass per *row*: only
                                         through the model that is hardest for it

(Chen et al. 2022, eq. 7: GMSA-AVG and GMSA-MIN.) A point fools the victims when it fools all of
them, so the logits that are judged are those of the model with the smallest margin.

What a reader would get wrong: one vectorised call (torch.func) over stacked weights is not always
faster. On a CPU it wins by up to 2x while overhead rules, that is for few rows or without
convolutions, and loses as much on large batches of images, where it turns the ensemble into grouped
convolutions. `benchmarks/model_space.py` measures it; `_vectorised` is the rule that follows. The
rule looks at sizes, never at a clock, so that a game can be replayed exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from durometer.core.errors import DurometerError
from durometer.goals.goal import gap
from durometer.losses import Loss
from durometer.model.classifier import Classifier

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d,
                nn.ConvTranspose3d)  # fmt: skip
_FEW = 8  # rows up to which one call over all models beats a loop even with convolutions
_MANY = 256  # rows from which it never does

Call = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Victims:
    """Models that one input must fool: on average ("mean"), or each of them ("min")."""

    models: tuple[Classifier, ...]
    combine: str = "mean"

    def __post_init__(self) -> None:
        if self.combine not in ("mean", "min"):
            raise DurometerError(f"combine={self.combine!r}: expected 'mean' or 'min'")
        if not self.models:
            raise DurometerError("Victims() got no model; give at least one")

    @property
    def forwards(self) -> int:
        """Forward passes of one gradient query."""
        return len(self.models) + (self.combine == "min" and len(self.models) > 1)

    @property
    def backwards(self) -> int:
        """Backward passes of one gradient query."""
        return len(self.models) if self.combine == "mean" else 1

    def look(self, x: Tensor, rows: Tensor, loss: Loss, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n, C) of the model hardest to fool, and the combined loss (n,).

        The gradient of the loss is computed at once and hung on its value as a linear term, so the
        caller differentiates as if the loss were an ordinary function of x.
        """
        if not (torch.is_grad_enabled() and x.requires_grad):
            logits = self.logits(x, rows)
            return _hardest(logits, targets), self._combined(_each(loss, logits, targets))
        point = x.detach()
        if self.combine == "mean":
            logits, value, grad = self._mean(point, rows, loss, targets)
        else:
            logits, value, grad = self._min(point, rows, loss, targets)
        slope = (x * grad).flatten(1).sum(1)
        return _hardest(logits, targets), value + slope - slope.detach()

    def logits(self, x: Tensor, rows: Tensor) -> Tensor:
        """(m, n, C): what each model answers."""
        if self._vectorised(len(x)):
            return self._together(x)
        return torch.stack([model.logits(x, rows) for model in self.models])

    def _combined(self, values: Tensor) -> Tensor:
        return values.mean(0) if self.combine == "mean" else values.amin(0)

    def _mean(
        self, x: Tensor, rows: Tensor, loss: Loss, targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self._vectorised(len(x)):
            point = x.requires_grad_()
            logits = self._together(point)
            values = _each(loss, logits, targets).mean(0)
            (grad,) = torch.autograd.grad(values.sum(), point)
            return logits.detach(), values.detach(), grad
        grads = torch.zeros_like(x)
        answers, total = [], x.new_zeros(len(x))
        for model in self.models:
            its, value, grad = _query(model, x, rows, loss, targets)
            grads += grad / len(self.models)
            total = total + value / len(self.models)
            answers.append(its)
        return torch.stack(answers), total, grads

    def _min(
        self, x: Tensor, rows: Tensor, loss: Loss, targets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if len(self.models) == 1:
            return self._mean(x, rows, loss, targets)
        with torch.no_grad():
            logits = self.logits(x, rows)
            value, hardest = _each(loss, logits, targets).min(0)
        grad = torch.zeros_like(x)
        for j, model in enumerate(self.models):
            its = (hardest == j).nonzero()[:, 0]
            if len(its):
                grad[its] = _query(model, x[its], rows[its], loss, targets[its])[2]
        return logits, value, grad

    def _vectorised(self, n: int) -> bool:
        if len(self.models) < 3 or self._stacked is None:
            return False
        return n <= _FEW or (n <= _MANY and not self._convolutional)

    @cached_property
    def _convolutional(self) -> bool:
        module = self.models[0].module
        return any(isinstance(m, CONVOLUTIONS) for m in module.modules())

    @cached_property
    def _stacked(self) -> tuple[dict[str, Tensor], dict[str, Tensor]] | None:
        """Weights and buffers of all models, stacked; None where they are not alike."""
        modules = [model.module for model in self.models]
        if any(m is None or model.bound for m, model in zip(modules, self.models, strict=True)):
            return None
        if any(model.answers != "logits" or model.reject is not None for model in self.models):
            return None
        if len({repr(m) for m in modules}) > 1 or any(m.training for m in modules):
            return None
        weights, buffers = stack_module_state(modules)
        return {k: v.detach() for k, v in weights.items()}, buffers

    def _together(self, x: Tensor) -> Tensor:
        assert self._stacked is not None
        module = self.models[0].module
        first = next(iter(self._stacked[0].values()))

        def one(weights: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            out: Tensor = functional_call(module, (weights, buffers), (x.to(first.dtype),))
            return out

        stacked: Tensor = vmap(one)(*self._stacked)
        return stacked


def _query(
    model: Classifier, x: Tensor, rows: Tensor, loss: Loss, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    point = x.detach().requires_grad_()
    logits = model.logits(point, rows)
    value = loss(logits, targets)
    (grad,) = torch.autograd.grad(value.sum(), point)
    return logits.detach(), value.detach(), grad


def _each(loss: Loss, logits: Tensor, targets: Tensor) -> Tensor:
    """(m, n): the loss of every model on every row."""
    m, n, c = logits.shape
    return loss(logits.reshape(m * n, c), targets.repeat(m, 1)).reshape(m, n)


def _hardest(logits: Tensor, targets: Tensor) -> Tensor:
    """(n, C): of each row the logits with the smallest margin."""
    if len(logits) == 1:
        return logits[0]
    place = _each(gap, logits, targets).argmin(0)
    return logits[place, torch.arange(logits.shape[1], device=logits.device)]
