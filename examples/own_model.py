"""A model and data of one's own, for own_model.toml: two clouds of points and a small network."""

from pathlib import Path

import numpy as np
import torch


def clouds(n=400):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return (rng.normal(size=(n, 8)) * 0.6 + 0.9 * y[:, None]).clip(-4, 4).astype(np.float32), y


def load():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    x, y = map(torch.as_tensor, clouds())
    adam = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(100):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        adam.step()
    return net


if __name__ == "__main__":
    x, y = clouds()
    np.savez(Path(__file__).with_name("own_data.npz"), x=x, y=y)
