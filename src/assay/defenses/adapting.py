"""Adapting: any `nn.Module` that adapts in its own forward pass, as a defender.

Test-time adaptation code comes as a module whose forward(x) changes the module and returns logits.
This wrapper makes it a pure function: each call adapts a deep copy, with global random numbers that
come from the seed, and the copy is the next state ("continual") or is thrown away ("episodic").

The attacker needs something it can differentiate, and forward(x) adapts. So `network` names the
network inside (an attribute, or a function of the adapted module), and the classifier handed out is

    network(x) + [forward(U') - network(U')]_row

exactly the module's own answers on the batch, with the network's gradient around them.

What a reader would get wrong: the module's own forward is what counts for the referee, including
that it may answer with the weights from before the last update. `ay.testing.check_defender` finds
modules that keep state where a deep copy does not reach.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from assay.defenses.arguments import check_arguments
from assay.errors import AssayError
from assay.model.classifier import Classifier
from assay.streams import seeded


@dataclass(frozen=True, eq=False)
class Adapting:
    """`module` adapts in forward(); `network` is the net inside; `reset` is "episodic" or
    "continual".
    """

    module: nn.Module = field(repr=False)
    network: str | Callable[[nn.Module], nn.Module] = "model"
    reset: str = "continual"

    def __post_init__(self) -> None:
        check_arguments(self)
        if self.reset not in ("episodic", "continual"):
            raise AssayError(f"Adapting(reset={self.reset!r}): expected 'episodic' or 'continual'")
        self._inside(self.module)

    @property
    def stateful(self) -> bool:
        return self.reset == "continual"

    def start(self) -> nn.Module:
        return copy.deepcopy(self.module)

    def base(self, state: nn.Module) -> Classifier:
        inside = copy.deepcopy(self._inside(state)).eval().requires_grad_(False)
        return Classifier(
            inside, f"torch {type(inside).__name__}", True, module=inside, source=inside, slack=1e-5
        )

    def adapt(self, state: nn.Module, x: Tensor, seed: int) -> tuple[Classifier, nn.Module]:
        moved = copy.deepcopy(state)
        with seeded(seed), torch.enable_grad():
            answers = moved(x.detach().clone())
        answers = (answers[0] if isinstance(answers, tuple) else answers).detach()
        inside = copy.deepcopy(self._inside(moved)).requires_grad_(False)
        with seeded(seed), torch.no_grad():
            shift = answers - inside(x.detach())

        def call(x: Tensor, rows: Tensor) -> Tensor:
            logits: Tensor = inside(x) + shift[rows]
            return logits

        kind = f"adapting {type(self.module).__name__}"
        after = moved if self.stateful else state
        return Classifier(call, kind, True, bound=True, slack=1e-5), after

    def _inside(self, module: nn.Module) -> nn.Module:
        if callable(self.network):
            return self.network(module)
        inside: Any = getattr(module, self.network, None)
        if not isinstance(inside, nn.Module):
            raise AssayError(
                f"{type(module).__name__} has no network '{self.network}'; say which attribute "
                "holds the network that answers: Adapting(module, network='...')"
            )
        return inside
