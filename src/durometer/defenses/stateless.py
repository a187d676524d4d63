"""Defenders that begin every batch with the model as it was trained, and copies that stay put."""

from __future__ import annotations

import copy

from torch import nn

from durometer.model.classifier import Classifier, wrap


def frozen(module: nn.Module) -> Classifier:
    """A copy of the module that no longer learns: eval mode, no gradients to weights."""
    return wrap(copy.deepcopy(module).eval().requires_grad_(False))


class Stateless:
    """A defender of a `model` that keeps nothing from batch to batch."""

    model: nn.Module

    @property
    def stateful(self) -> bool:
        return False

    def start(self) -> None:
        return None

    def base(self, state: None) -> Classifier:
        return frozen(self.model)
