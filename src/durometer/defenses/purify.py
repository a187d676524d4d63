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
from durometer.defenses.isolate import frozen
from durometer.model.classifier import Classifier


@noun(eq=False)
class Purify:
    """`model` behind `denoiser` (None: noise alone); `noise` in the data's units, in [low, high].

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> model, _ = Purify(net, noise=0.1).adapt(None, torch.rand(3, 1, 2, 2), seed=5)
    >>> model.logits(torch.rand(3, 1, 2, 2)).shape
    torch.Size([3, 2])
    """

    model: nn.Module = field(repr=False)
    denoiser: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    noise: float = 0.1
    low: float = field(default=0.0, metadata=SIGNED)
    high: float = field(default=1.0, metadata=SIGNED)

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> None:
        return None

    def base(self, state: None) -> Classifier:
        return frozen(self.model)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        net, drawn = frozen(self.model), self._drawn(x, seed)

        def call(x: Tensor, rows: Tensor) -> Tensor:
            return net.logits(self.purified(x, drawn[rows]))

        name = f"Purify of torch {type(self.model).__name__}"
        return Classifier(call, name, True, bound=True, slack=1e-5), None

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The answers for this draw of the noise."""
        return frozen(self.model).logits(self.purified(x, self._drawn(x, seed))), None

    def purified(self, x: Tensor, drawn: Tensor) -> Tensor:
        """What the model gets to see."""
        blurred = (x + self.noise * drawn.to(x.dtype)).clamp(self.low, self.high)
        return blurred if self.denoiser is None else self.denoiser(blurred)

    def _drawn(self, x: Tensor, seed: int) -> Tensor:
        rows = torch.arange(len(x))
        return Stream(seed, rows).normal(rows, x[0].numel()).reshape(x.shape)
