"""Purify: add noise, remove it, and classify what is left (randomised purification).

    F(x) = model(denoiser(x + noise n)),    n ~ N(0, 1), new for each row and each submission

DiffPure (Nie et al. 2022) and its kin: the defence is the draw. An attacker who may submit the same
input again needs to be lucky once, so one draw is not its robustness (Kassis et al. 2024): play
`Transductive(Purify(...), runs=R)` and read `report.metric("robust", over="worst")`, the rows that
hold in all R submissions.

What a reader would get wrong: the noise belongs to the row and to the submission, not to the
attack's query. A rehearsal with another draw is another defender, so gradients average over several
(`GMSA(simulations=3)`, by default where the probe finds the defender random).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import torch
from torch import Tensor, nn

from durometer.core.streams import Stream
from durometer.core.validation import SIGNED, noun
from durometer.defenses.stateless import Stateless, frozen
from durometer.model.classifier import Classifier


@noun(eq=False)
class Purify(Stateless):
    """Randomised purification: adds noise, removes it by a denoiser, and classifies the result
    (DiffPure, Nie et al., 2022).

    An attacker who may submit again needs luck only once: play `Transductive(Purify(...), runs=R)`
    and read `report.metric("robust", over="worst")`.

    Args:
        model: The classifier behind the purification.
        denoiser: A function of noisy images that returns clean ones. None: noise alone.
        noise: Standard deviation of the noise, in the units of the data.
        low: Lowest value of a noisy image.
        high: Highest value of a noisy image.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> defender = du.defenses.Purify(model, noise=0.2)
    >>> drawn = [defender.adapt(None, data.x, seed=s)[0].logits(data.x).argmax(1) for s in (1, 2)]
    >>> [float((labels == data.y).double().mean()) for labels in drawn]
    [0.8125, 0.875]
    """

    model: nn.Module = field(repr=False)
    denoiser: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    noise: float = 0.1
    low: float = field(default=0.0, metadata=SIGNED)
    high: float = field(default=1.0, metadata=SIGNED)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        net, drawn = frozen(self.model), self._drawn(x, seed)

        def call(x: Tensor, rows: Tensor) -> Tensor:
            return net.logits(self.purified(x, drawn[rows]))

        name = f"Purify of torch {type(self.model).__name__}"
        return Classifier(call, name, True, bound=True, slack=1e-5), None

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        The noise is that of the seed.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        return frozen(self.model).logits(self.purified(x, self._drawn(x, seed))), None

    def purified(self, x: Tensor, drawn: Tensor) -> Tensor:
        """What the model gets to see.

        Args:
            x: Inputs (n, ...).
            drawn: Standard normal numbers of the same shape.
        """
        blurred = (x + self.noise * drawn.to(x.dtype)).clamp(self.low, self.high)
        return blurred if self.denoiser is None else self.denoiser(blurred)

    def _drawn(self, x: Tensor, seed: int) -> Tensor:
        rows = torch.arange(len(x))
        return Stream(seed, rows).normal(rows, x[0].numel()).reshape(x.shape)
