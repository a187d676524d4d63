"""Free adversarial training (Shafahi et al. 2019): one backward pass for weights *and* attack.

Each batch is replayed `replays` times. The pass that gives the weights' gradient also gives the
input's, and the perturbation takes a step of size eps with it before the next replay:

    loss(x + delta) -> update weights, delta <- P(delta + eps sign(grad))

What a reader would get wrong: delta is not reset between batches. The perturbation of one batch is
the start for the next one, whatever its images: it is what saves the steps of a fresh start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from durometer.core.errors import DurometerError
from durometer.core.validation import SIGNED, noun
from durometer.spaces.lp import Linf
from durometer.training.loop import Batch


@noun
class Free:
    """Free adversarial training: one backward pass for the weights and the perturbation (Shafahi et
    al., 2019).

    Args:
        eps: Size of the perturbation, in the units of the inputs.
        replays: Updates per batch; 8 as published.
        low: Lowest allowed value of an input.
        high: Highest allowed value of an input.
        p: The norm: infinity or 2.

    Raises:
        DurometerError: `p` is another norm, or `eps` is more than one number.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.Free(eps=0.05, replays=2)
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    eps: float = 8 / 255
    replays: int = 8
    low: float = field(default=0.0, metadata=SIGNED)
    high: float = field(default=1.0, metadata=SIGNED)
    p: float = field(default=math.inf, metadata={"most": math.inf})

    def __post_init__(self) -> None:
        if self.p not in (2, math.inf):
            raise DurometerError(f"Free(p={self.p!r}): expected 2 or inf")

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        # Clamped to the box, rows outside it would be other rows.
        Linf(self.eps, self.low, self.high).check(batch.x)
        held = batch.memory.get("delta")
        delta = torch.zeros_like(batch.x) if held is None else held[: len(batch.x)].clone()
        for _ in range(self.replays):
            x = (batch.x + delta).clamp(self.low, self.high).requires_grad_()
            yield cross_entropy(net(x), batch.y)
            if x.grad is not None:
                delta = self._stepped(delta, x.grad)
        if held is None or len(delta) == len(held):
            batch.memory["delta"] = delta
        else:
            held[: len(delta)] = delta  # the last batch is shorter; the rest stays as it was

    def _stepped(self, delta: Tensor, grad: Tensor) -> Tensor:
        """A step of size eps along the gradient, back into the ball."""
        if self.p == math.inf:
            return (delta + self.eps * grad.sign()).clamp(-self.eps, self.eps)
        size = (len(grad), *[1] * (grad.ndim - 1))
        moved = delta + self.eps * grad / grad.flatten(1).norm(dim=1).clamp_min(1e-12).reshape(size)
        length = moved.flatten(1).norm(dim=1).clamp_min(self.eps).reshape(size)
        back: Tensor = moved * (self.eps / length)
        return back
