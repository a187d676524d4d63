"""What keeps `adapt` pure: random numbers that come from the seed alone, models that stay put."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from assay.model import Classifier, wrap


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random numbers as a function of `seed` inside the block; outside, as if it never was.

    Dropout, weight initialisation and other people's modules know only the global generators.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def still(module: nn.Module) -> Classifier:
    """A copy of the module that no longer learns: eval mode, no gradients to weights."""
    return wrap(copy.deepcopy(module).eval().requires_grad_(False))
