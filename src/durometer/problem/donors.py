"""Donors: rows of the data and the labels the model gives them, for searches to start from.

A search that sees labels only begins at a point that already reaches the goal, usually another row.
Which rows these are is a function of the data's ids, so that a row's fate depends neither on its
batch nor on the workers that play it. Each donor is asked once, for all rows together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.core.streams import Stream, keys
from durometer.data.dataset import Dataset
from durometer.model.classifier import Classifier

MOST = 256


@dataclass(frozen=True, eq=False)
class Donors:
    """Inputs `x` (m, ...) and the model's own `label` (m,) of each."""

    x: Tensor
    label: Tensor

    def to(self, device: torch.device) -> Donors:
        """The same at another place."""
        return Donors(self.x.to(device), self.label.to(device))


def donors(model: Classifier, data: Dataset) -> Donors:
    """Up to 256 rows, drawn by their ids, with the model's labels."""
    draw = Stream(0, keys(data.ids), purpose="donors").uniform(torch.arange(len(data)), 1)[:, 0]
    x = data.x[draw.argsort(stable=True)[:MOST]]
    with model.ready(), torch.no_grad():
        return Donors(x, model.logits(x).argmax(1))
