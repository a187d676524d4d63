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
from durometer.defenses.stateless import Stateless, frozen
from durometer.model.classifier import Classifier
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard


@noun(eq=False)
class URejectron(Stateless):
    """Rejects inputs that a discriminator can tell from the training data (Goldwasser et al., 2020,
    with T = 1).

    The rejected inputs form one more class, the last.

    Args:
        model: The classifier.
        build: Makes the untrained discriminator, a network with two outputs.
        data: The training data.
        threshold: Probability of being from the batch above which an input is rejected.
        epochs: Passes of the discriminator's training, for each batch.
        batch: Rows per training batch.
        rate: Learning rate of Adam.

    Raises:
        DurometerError: The threshold is no probability.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.URejectron(
    ...     model, lambda: torch.nn.Linear(8, 2).double(), data, epochs=20, rate=0.1
    ... )
    >>> selective, _ = defender.adapt(defender.start(), data.x + 0.5, seed=0)
    >>> rejected = selective.logits(data.x + 0.5).argmax(1) == selective.reject
    >>> float(rejected.double().mean())
    1.0
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

    def base(self, state: None) -> Classifier:
        """The classifier alone: it has the reject class, but never chooses it. See
        `Defender.base`.
        """
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
