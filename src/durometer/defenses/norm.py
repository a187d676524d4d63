"""Norm: normalise by the batch's own statistics, and learn nothing (Schneider et al. 2020).

Each BatchNorm layer uses  share x (statistics of the batch) + (1 - share) x (those of training).
`centre="median"` is MedBN (Park et al. 2024), a defence against poisoned batches: over the batch
the median in place of the mean, at each position, then the mean over positions; the variance is
taken around it:

    eta_c = mean_l med_b z_bcl,     rho_c^2 = mean_bl (z_bcl - eta_c)^2

What a reader would get wrong: nothing moves, and yet the model is another one for every batch. A
row's answer depends on all rows, so the classifier handed out is asked with the whole batch.
"""

from __future__ import annotations

import copy
from dataclasses import field
from typing import Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from durometer.core.validation import noun
from durometer.defenses.dent import check_norms
from durometer.defenses.isolate import frozen
from durometer.model.classifier import Classifier


@noun(eq=False)
class Norm:
    """`share` of the batch in the statistics; `centre` is "mean" or "median".

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    >>> model, _ = Norm(net).adapt(None, torch.rand(8, 2), seed=0)
    >>> model.logits(torch.rand(8, 2)).shape
    torch.Size([8, 2])
    """

    model: nn.Module = field(repr=False)
    share: float = field(default=1.0, metadata={"most": 1})
    centre: Literal["mean", "median"] = "mean"

    def __post_init__(self) -> None:
        check_norms(self.model)

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> None:
        return None

    def base(self, state: None) -> Classifier:
        return frozen(self.model)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        net = self._made()
        kind = next(net.parameters()).dtype
        name = (
            f"{'Med' if self.centre == 'median' else ''}Norm of torch {type(self.model).__name__}"
        )
        model = Classifier(
            lambda x: net(x.to(kind)), name, True, module=net, source=net, slack=1e-5, together=True
        )
        return model.among(x.detach()), None

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The answers on this batch, with the gradient through its statistics."""
        net = self._made()
        logits: Tensor = net(x.to(next(net.parameters()).dtype))
        return logits, None

    def _made(self) -> nn.Module:
        net = copy.deepcopy(self.model).eval().requires_grad_(False)
        names = [name for name, module in net.named_modules() if isinstance(module, _BatchNorm)]
        for name in names:
            parent, _, child = name.rpartition(".")
            layer = BatchStatistics(net.get_submodule(name), self.share, self.centre)
            setattr(net.get_submodule(parent), child, layer)
        return net


class BatchStatistics(nn.Module):
    """BatchNorm by the statistics of the batch at hand, mixed with those of training."""

    def __init__(self, norm: nn.Module, share: float, centre: str) -> None:
        super().__init__()
        self.norm, self.share, self.centre = norm, share, centre

    def forward(self, x: Tensor) -> Tensor:
        """(n, C, ...) -> the same shape."""
        norm: _BatchNorm = self.norm  # type: ignore[assignment]
        parts = x.flatten(2) if x.ndim > 2 else x[:, :, None]  # (n, C, L)
        middle = parts.mean(0) if self.centre == "mean" else parts.median(0).values
        mean = middle.mean(1)
        variance = (parts - mean[:, None]).square().mean((0, 2))
        if self.share < 1 and norm.running_mean is not None and norm.running_var is not None:
            mean = self.share * mean + (1 - self.share) * norm.running_mean
            variance = self.share * variance + (1 - self.share) * norm.running_var
        shape = (1, -1, *[1] * (x.ndim - 2))
        out = (x - mean.reshape(shape)) / (variance.reshape(shape) + norm.eps).sqrt()
        if norm.affine:
            out = out * norm.weight.reshape(shape) + norm.bias.reshape(shape)
        return out


def MedBN(model: nn.Module, share: float = 1.0) -> Norm:
    """`Norm` by medians: one poisoned row in the batch moves them little.

    >>> MedBN(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))).centre
    'median'
    """
    return Norm(model, share, centre="median")
