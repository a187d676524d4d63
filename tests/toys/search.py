"""A small table with every kind of feature, a model on it and rows it gets right; numpy rules."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import durometer as du

SCHEMA = du.Schema(
    [
        du.Feature("income", "real", 0, 100),
        du.Feature("spent", "real", 0, 100),
        du.Feature("age", "integer", 18, 98, mutable=False),
        du.Feature("cards", "integer", 0, 20),
        du.Feature("ratio", "real", 0, 100),
        du.Feature("home", "category", values=("own", "rent", "other")),
        du.Feature("north", "boolean", group="side"),
        du.Feature("south", "boolean", group="side"),
    ],
    ["spent <= income", "ratio == spent / (cards + 1)", "if cards > 10 then home != 'rent'"],
    "toy",
)


class Net(nn.Module):
    """A linear score with a bend, in float64."""

    def forward(self, x: Tensor) -> Tensor:
        score = (x[:, 1] - 0.6 * x[:, 0]) / 20 + x[:, 3] / 8 + (x[:, 5] == 1) - 0.5
        score = score + 0.3 * torch.sin(x[:, 4] / 5) + 0.4 * x[:, 6]
        return torch.stack([-score, score], dim=1)


def rows(count: int = 12, seed: int = 0) -> du.Dataset:
    """Valid records that Net calls class 1."""
    rng = np.random.default_rng(seed)
    x = np.zeros((400, 8))
    x[:, 0] = rng.uniform(20, 100, 400)
    x[:, 1] = x[:, 0] * rng.uniform(0.2, 1.0, 400)
    x[:, 2] = rng.integers(18, 98, 400)
    x[:, 3] = rng.integers(0, 10, 400)
    x[:, 4] = x[:, 1] / (x[:, 3] + 1)
    x[:, 5] = rng.integers(0, 3, 400)
    x[:, 6] = rng.integers(0, 2, 400)
    x[:, 7] = 1 - x[:, 6]
    tensor = torch.from_numpy(x)
    good = (Net()(tensor).argmax(1) == 1).numpy()
    return du.Dataset(x[good][:count], np.ones(count, np.int64), schema=SCHEMA)


def valid(x: np.ndarray, x0: np.ndarray, eps: float) -> np.ndarray:
    """The rules again, in plain numpy: kinds, bounds, immutables, relations, L2 distance."""
    low, high = np.array([0, 0, 18, 0, 0, 0, 0, 0]), np.array([100, 100, 98, 20, 100, 2, 1, 1])
    good = ((x >= low) & (x <= high)).all(1) & (x[:, 2] == x0[:, 2])
    good &= (x[:, [3, 5, 6, 7]] == np.rint(x[:, [3, 5, 6, 7]])).all(1) & (x[:, 6] + x[:, 7] == 1)
    good &= x[:, 1] <= x[:, 0] * (1 + 1e-6) + 1e-6
    good &= np.abs(x[:, 4] - x[:, 1] / (x[:, 3] + 1)) <= 1e-6 * np.maximum(1, x[:, 4])
    good &= (x[:, 3] <= 10) | (x[:, 5] != 1)
    scaled = (x - x0)[:, [0, 1, 3, 4, 6, 7]] / [100, 100, 20, 100, 1, 1]
    square = (scaled**2).sum(1) + 2 * (x[:, 5] != x0[:, 5])
    return good & (np.sqrt(square) <= eps * (1 + 1e-6))
