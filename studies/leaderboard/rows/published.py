"""Network 756-64-64-32-2, published with MOEVA."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from durometer.architectures.domain import Shift

TASKS = ("ctu13",)
WEIGHTS = Path(__file__).parents[1] / "published_ctu13.npz"  # see NOTICE


def make(train, space, goal):
    with np.load(WEIGHTS) as file:
        arrays = {name: torch.from_numpy(file[name].astype(float)) for name in file.files}
    layers = [Shift(-arrays["min_"] / arrays["scale_"], 1 / arrays["scale_"])]
    for i in range(4):
        layer = nn.Linear(*arrays[f"W{i}"].shape, dtype=torch.float64)
        layer.load_state_dict({"weight": arrays[f"W{i}"].T, "bias": arrays[f"b{i}"]})
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()
