"""retrain: a network in the same loop. A copy of the given one learns on, counterexamples included.

A network has no parameters to be fitted anew with, only weights: each round starts from those that
were given, not from the last round's, so that a round is a function of its rows and the seed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from durometer.data.dataset import Dataset
from durometer.kernels.arrays import Floats, Ints
from durometer.training.loop import fit
from durometer.training.standard import Standard

EPOCHS = 10


def retrain(seed: int) -> Callable[..., torch.nn.Module]:
    """`refit` for networks; weights of rows are not used, each counterexample counts as a row."""

    def again(
        model: torch.nn.Module, data: Dataset, x: Floats, y: Ints, weight: Floats, **_: Any
    ) -> torch.nn.Module:
        net = copy.deepcopy(model)
        if not len(x):
            return net
        rows = torch.cat([data.x, torch.from_numpy(x).to(data.x.dtype)])
        more = replace(
            data, x=rows, y=torch.cat([data.y, torch.from_numpy(y)]), ids=None, table=None
        )
        fit(net, more, Standard(), epochs=EPOCHS, seed=seed, progress=False)
        return net

    return again
