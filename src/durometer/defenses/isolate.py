"""What keeps `adapt` pure besides `seeded` random numbers: models that stay put."""

from __future__ import annotations

import copy

from torch import nn

from durometer.model.classifier import Classifier, wrap


def frozen(module: nn.Module) -> Classifier:
    """A copy of the module that no longer learns: eval mode, no gradients to weights."""
    return wrap(copy.deepcopy(module).eval().requires_grad_(False))
