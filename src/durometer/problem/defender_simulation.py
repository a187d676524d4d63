"""Rehearsal: the game as its attacker can play it through alone, where the model will move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported
from durometer.model.classifier import Classifier


@dataclass(frozen=True, eq=False)
class DefenderSimulation:
    """What an attacker can play through by itself where the model moves after it has moved."""

    adapt: Callable[[Tensor, int], Classifier]  # (batch, draw) -> the model it would then meet
    static: Classifier  # the model as it was before the first round
    scored: Tensor  # (n,) bool: the rows that count
    controlled: Tensor  # (n,) bool: the rows it may change
    simulated: Tensor  # (n,): the attacker's own idea of its success, written by the attack
    # (batch, draw, state or None, turn) -> answers, differentiable in the batch, and the next state
    unrolled: Callable[[Tensor, int, Any, int], tuple[Tensor, Any]]
    random: bool = False  # another draw is another defender


def check_batch(
    simulation: DefenderSimulation | None, batch: Tensor, whole: Tensor
) -> DefenderSimulation:
    """Whether a whole batch may be handed in: the model moves, and the shape is the batch's."""
    if simulation is None:
        raise Unsupported(
            "hand_in() gives a batch to a model that moves afterwards; this one is fixed: use "
            "submit(rows, z)"
        )
    if batch.shape != whole.shape:
        raise DurometerError(
            f"hand_in() got a batch of shape {tuple(batch.shape)}; expected {tuple(whole.shape)}"
        )
    return simulation
