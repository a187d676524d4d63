"""Donors: rows of the data and the labels the model gives them, for searches to start from.

A search that sees labels only begins at a point that already reaches the goal, usually another row.
Which rows these are is a function of the data's ids, so that a row's fate depends neither on its
batch nor on the workers that play it. Each donor is asked once more for all rows together; its own
record counts that question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from durometer.core.streams import Stream, keys
from durometer.data.dataset import Dataset
from durometer.model.classifier import Classifier

MOST = 256


@dataclass(frozen=True, eq=False)
class Donors:
    """Inputs `x` (m, ...), the model's own `logits` (m, C), and the `ids` of the rows they are."""

    x: Tensor
    logits: Tensor
    ids: np.ndarray

    @property
    def label(self) -> Tensor:
        """(m,): the model's answers."""
        return self.logits.argmax(1)

    def to(self, device: torch.device) -> Donors:
        """The same at another place."""
        return Donors(self.x.to(device), self.logits.to(device), self.ids)


def donors(model: Classifier, data: Dataset) -> Donors:
    """Up to 256 rows, drawn by their ids, with the model's labels."""
    draw = Stream(0, keys(data.ids), purpose="donors").uniform(torch.arange(len(data)), 1)[:, 0]
    at = draw.argsort(stable=True)[:MOST]
    with model.ready(), torch.no_grad():
        return Donors(data.x[at], model.logits(data.x[at]), data.ids[at.numpy()])
