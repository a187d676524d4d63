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
from durometer.defenses.stateless import Stateless
from durometer.model.classifier import Classifier


@noun(eq=False)
class Norm(Stateless):
    """Normalises by the statistics of the test batch instead of those of training (Schneider et
    al., 2020).

    Args:
        model: A network with BatchNorm layers.
        share: Weight of the batch in the statistics, from 0 to 1; the rest are those of training.
        centre: "mean", or "median" for MedBN (Park et al., 2024).

    Raises:
        DurometerError: The network has no BatchNorm layer, or a parameter has an impossible value.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.Norm(model)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """

    model: nn.Module = field(repr=False)
    share: float = field(default=1.0, metadata={"most": 1})
    centre: Literal["mean", "median"] = "mean"

    def __post_init__(self) -> None:
        check_norms(self.model)

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
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        Gradients pass through the statistics of the batch.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
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
    """Normalises by the medians of the test batch, which a few poisoned rows move little (Park et
    al., 2024).

    Args:
        model: A network with BatchNorm layers.
        share: Weight of the batch in the statistics, from 0 to 1.

    Returns:
        A `Norm` with these settings.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.MedBN(model)
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> float((adapted.logits(data.x).argmax(1) == data.y[: len(data.x)]).double().mean())
    1.0
    """
    return Norm(model, share, centre="median")
