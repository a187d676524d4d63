"""Adapting: any `nn.Module` that adapts in its own forward pass, as a defender.

Test-time adaptation code comes as a module whose forward(x) changes the module and returns logits.
This wrapper makes it a pure function: each call adapts a copy (`copies.py`), with global random
numbers that come from the seed, and the copy is the next state ("continual") or is thrown away
("episodic").

The attacker needs something it can differentiate, and forward(x) adapts. So `network` names the
network inside (an attribute, or a function of the adapted module), and the classifier handed out is

    network(U' with the asked rows replaced)_row + [forward(U') - network(U')]_row

exactly the module's own answers on the batch, with the network's gradient around them. The network
is the one from before forward(U') or the one after it, whichever answers more like the module:
Tent and its relatives answer with the weights from before their step, so there the second term is
0 and the gradient exact.

What a reader would get wrong: rows are asked in the company of their batch, also when an attacker
controls only some of them. Batch statistics of the asked rows alone are another defence.
`du.testing.check_defender` finds modules that keep state where a copy does not reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from durometer.core.errors import DurometerError
from durometer.core.streams import seeded
from durometer.core.validation import noun
from durometer.defenses.copies import copied
from durometer.model.classifier import Classifier


@noun(eq=False)
class Adapting:
    """Any torch module that adapts in its own forward pass, as a defender.

    Each call adapts a copy. The classifier gives the module's own answers on the batch, with the
    gradient of the network inside.

    Args:
        module: The module: forward(x) changes it and returns logits.
        network: The network inside: the name of an attribute, or a function of the module.
        reset: "continual": a batch continues from the adapted module. "episodic": every batch
            starts anew.

    Raises:
        DurometerError: There is no such network inside, or `reset` has another value.

    >>> import torch
    >>> import durometer as du
    >>> class Centred(torch.nn.Module):  # normalises by the batch it sees
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.model = torch.nn.Linear(8, 3).double()
    ...     def forward(self, x):
    ...         return self.model(x - x.mean(0))
    >>> _, data = du.testing.toy()
    >>> defender = du.defenses.Adapting(Centred().eval())
    >>> adapted, _ = defender.adapt(defender.start(), data.x, seed=0)
    >>> adapted.logits(data.x).shape
    torch.Size([16, 3])
    """

    module: nn.Module = field(repr=False)
    network: str | Callable[[nn.Module], nn.Module] = "model"
    reset: Literal["episodic", "continual"] = "continual"

    def __post_init__(self) -> None:
        self._inside(self.module)

    @property
    def stateful(self) -> bool:
        return self.reset == "continual"

    def start(self) -> nn.Module:
        return copied(self.module)

    def base(self, state: nn.Module) -> Classifier:
        inside = copied(self._inside(state)).eval().requires_grad_(False)
        return Classifier(
            _one(inside), f"torch {type(inside).__name__}", True, module=inside, source=inside,
            slack=1e-5, together=True,
        )  # fmt: skip

    def adapt(self, state: nn.Module, x: Tensor, seed: int) -> tuple[Classifier, nn.Module]:
        call, _, moved = self._moved(state, x.detach(), seed)
        kind = f"adapting {type(self.module).__name__}"
        after = moved if self.stateful else state
        return Classifier(call, kind, True, slack=1e-5, together=True).among(x.detach()), after

    def unrolled(self, state: nn.Module, x: Tensor, seed: int) -> tuple[Tensor, nn.Module]:
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        Gradients are those of the network inside (BPDA).

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        call, _, moved = self._moved(state, x.detach(), seed)
        return call(x), moved if self.stateful else state

    def _moved(
        self, state: nn.Module, x: Tensor, seed: int
    ) -> tuple[Callable[[Tensor], Tensor], Tensor, nn.Module]:
        """The whole batch's answers as a function of it, what they are on `x`, and the module."""
        moved = copied(state)
        with seeded(seed), torch.enable_grad():
            answers = _one(moved)(x.clone()).detach()
        nets = [copied(self._inside(m)).requires_grad_(False) for m in (state, moved)]
        with seeded(seed), torch.no_grad():
            shifts = [answers - _one(copied(net))(x) for net in nets]
        nearer = min((0, 1), key=lambda k: float(shifts[k].abs().max()))
        inside, shift = nets[nearer], shifts[nearer]

        def call(batch: Tensor) -> Tensor:
            with seeded(seed):  # dropout draws what it drew when the shift was taken
                return _one(inside)(batch) + shift

        return call, answers, moved

    def _inside(self, module: nn.Module) -> nn.Module:
        if callable(self.network):
            return self.network(module)
        inside: Any = getattr(module, self.network, None)
        if not isinstance(inside, nn.Module):
            raise DurometerError(
                f"{type(module).__name__} has no network '{self.network}'; say which attribute "
                "holds the network that answers: Adapting(module, network='...')"
            )
        return inside


def _one(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Its logits, where it returns more than them."""

    def call(x: Tensor) -> Tensor:
        out = module(x)
        logits: Tensor = out[0] if isinstance(out, tuple) else out
        return logits

    return call
