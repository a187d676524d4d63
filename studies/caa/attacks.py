"""Tables: CAPGD where the papers measured it, every success judged again by hand-written numpy.

    python studies/caa/attacks.py --models moeva_published_models.npz
    python studies/caa/attacks.py --models ... --rows 1000 --steps 10

1. URL (networks trained here), LCLD and CTU-13 (MOEVA's published networks): robust accuracy of
   critical-class, correctly classified, valid rows at L2 0.5, with 10 steps from each start.
2. URL again with the paper's ablations, CPGD with its own schedule and a constant step, LowProFool.
"""

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import durometer as du
from durometer.data.dataset import Dataset

sys.path.insert(0, str(Path(__file__).parent))
import published_models
import table_rules

EPS = 0.5


class Scaled(nn.Module):
    """A network behind a min-max scaler, in float64."""

    def __init__(self, low: Tensor, width: Tensor, net: nn.Module) -> None:
        super().__init__()
        self.register_buffer("low", low)
        self.register_buffer("width", width)
        self.net = net.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.low) / self.width)


def mlp(*sizes: int, norm: bool = False) -> nn.Module:
    layers: list[nn.Module] = [nn.LayerNorm(sizes[0])] if norm else []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# URL has no categories, so the authors' TabTransformer is a LayerNorm and three layers there, and
# their RLN (its regulariser is never called) an MLP.
NETWORKS = {
    "MLP 63-64-32-16-2": lambda: mlp(63, 64, 32, 16, 2),
    "RLN-type MLP 63-128-128-128-2": lambda: mlp(63, 128, 128, 128, 2),
    "TabTransformer-type": lambda: mlp(63, 28, 14, 2, norm=True),
}


def train(data: Dataset, net: nn.Module, epochs: int = 60) -> Scaled:
    low = data.x.amin(0)
    width = data.x.amax(0) - low
    model = Scaled(low, torch.where(width > 0, width, 1.0), net)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(256):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data.x[rows]), data.y[rows]).backward()
            optimiser.step()
    return model.eval()


def attackable(model: nn.Module, data: Dataset, rows: int) -> Dataset:
    """Critical class, classified correctly, satisfying its own relations."""
    with torch.no_grad():
        right = model(data.x).argmax(1) == data.y
    whole = data.schema.space(EPS).around(data.x).contains(data.x)
    return data.take(((data.y == 1) & right & whole).nonzero()[:rows, 0])


def attack(name: str, model: nn.Module, data: Dataset, how: object) -> None:
    began = time.perf_counter()
    report = du.evaluate(
        model, data, space=data.schema.space(EPS), attack=how, progress=False, batch=1024
    )
    seconds = time.perf_counter() - began
    won = report.table.success.to_numpy()
    x, x0 = np.asarray(report.adversarial), data.x.numpy()
    again = table_rules.valid(data.schema.name, data.schema.features, x0[won], x[won], EPS)
    with torch.no_grad():
        flipped = model(torch.from_numpy(x[won])).argmax(1).numpy() != 1
    table = report.table
    kept, spent = int((again & flipped).sum()), table.forwards
    print(
        f"  {name:34} robust {1 - won.mean():.3f} of {len(data)}; re-check {kept} of {won.sum()};"
        f" forwards {spent.mean():.1f} (most {spent.max()}); {seconds:.1f} s",
        flush=True,
    )


def url(rows: int, steps: int) -> None:
    splits = du.datasets.url()
    for name, make in NETWORKS.items():
        torch.manual_seed(0)
        model = train(splits.train, make())
        with torch.no_grad():
            accuracy = (model(splits.test.x).argmax(1) == splits.test.y).double().mean()
        data = attackable(model, splits.test, rows)
        print(f"URL, {name}, test accuracy {accuracy:.3f}")
        attack("CAPGD", model, data, du.CAPGD(steps))
        if name.startswith("MLP"):
            for label, how in {
                "CAPGD, 100 steps": du.CAPGD(100),
                "NREP": du.CAPGD(steps, repair=False),
                "NINI": du.CAPGD(steps, clean=False),
                "NRAN": du.CAPGD(steps, random=False),
                "NADA": du.CAPGD(steps, adaptive=False),
                "CPGD, published schedule": du.CPGD(steps),
                "CPGD, constant step 0.4": du.CPGD(steps, step=0.4),
                "LowProFool, 300 steps": du.LowProFool(300).noticed(splits.train.x, splits.train.y),
            }.items():
                attack(label, model, data, how)


def published(path: str, rows: int, steps: int) -> None:
    for name, splits in (("lcld", du.datasets.lcld(47)), ("botnet", du.datasets.ctu13())):
        model = published_models.load(path, name)
        data = attackable(model, splits.test, rows)
        print(f"{data.schema.name}, MOEVA's published network")
        attack("CAPGD", model, data, du.CAPGD(steps))
        attack("CAPGD without repair", model, data, du.CAPGD(steps, repair=False))
        attack("CPGD, published schedule", model, data, du.CPGD(steps))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", help="MOEVA's published networks (.npz); without: URL only")
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--steps", type=int, default=10)
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.models:
        published(given.models, given.rows, given.steps)
    url(given.rows, given.steps)


if __name__ == "__main__":
    main()
