"""The model of this project: a small network on digits, and the weights it was last trained to."""

from pathlib import Path

import torch

WEIGHTS = Path(__file__).with_name("weights.pt")


def build() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )


def digits() -> torch.nn.Module:
    """What the gate asks for (gate.toml)."""
    net = build()
    net.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    return net.eval()
