"""URejectron (Goldwasser et al. 2020, basic form, T = 1): do not answer what looks like the batch.

A discriminator learns to tell the training inputs P (label 0) from the batch itself Q (label 1). An
input whose probability of being from Q exceeds `threshold` is rejected: one more class, the last.
Its logit is

    max_c z_c + (s - logit(threshold)),    s = log odds of Q

so that it wins exactly where the input is rejected, `doubt` in the records is the discriminator's
margin over the threshold, and every other threshold is a view of the same records (`du.report`'s
rejection curve).

What a reader would get wrong: the discriminator is asked about the very points it was trained on.
That is meant (transductive), and a clean batch that is *unlike* the training data, merely brighter
say, is rejected for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

import torch
from torch import Tensor, nn

from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.defenses.arguments import check_build
from durometer.defenses.isolate import frozen
from durometer.model.classifier import Classifier
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard


@noun(eq=False)
class URejectron:
    """`model` behind a discriminator made by `build` (two outputs), trained for each batch.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> defender = du.defenses.URejectron(
    ...     model, lambda: torch.nn.Linear(8, 2).double(), data, epochs=1
    ... )
    >>> selective, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> selective.logits(data.x).shape  # one more class: rejected
    torch.Size([16, 4])
    """

    model: nn.Module = field(repr=False)
    build: Callable[[], nn.Module] = field(repr=False)
    data: Dataset = field(repr=False)
    threshold: float = 0.5
    epochs: int = 10
    batch: int = 128
    rate: float = 1e-3

    def __post_init__(self) -> None:
        check_build(self.build)
        if not 0 < self.threshold < 1:
            raise DurometerError(f"URejectron(threshold={self.threshold}): expected a probability")

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> None:
        return None

    def base(self, state: None) -> Classifier:
        """The classifier alone: it has the reject class, but never chooses it."""
        return self._selective(None)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        both = torch.cat([self.data.x, x.detach().to(self.data.x.dtype)])
        origin = torch.cat([torch.zeros(len(self.data)), torch.ones(len(x))]).long()
        judge = fresh(self.build, seed)
        fit(
            judge,
            Dataset(both, origin),
            Standard(),
            epochs=self.epochs,
            batch=self.batch,
            rate=self.rate,
            seed=seed,
            progress=False,
        )
        return self._selective(frozen(judge)), None

    def _selective(self, judge: Classifier | None) -> Classifier:
        model, limit = frozen(self.model), math.log(self.threshold / (1 - self.threshold))

        def call(x: Tensor) -> Tensor:
            logits = model.logits(x)
            doubt = torch.full((len(x),), -50.0)
            if judge is not None:
                odds = judge.logits(x)
                doubt = odds[:, 1] - odds[:, 0] - limit
            return torch.cat([logits, (logits.amax(1) + doubt)[:, None]], dim=1)

        with torch.no_grad():
            classes = model.logits(self.data.x[:1]).shape[1]
        kind = model.kind if judge is None else f"URejectron of {model.kind}"
        return Classifier(call, kind, True, slack=1e-5, reject=classes, source=model.module)
