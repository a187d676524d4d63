"""What the proofs of the default cost beside its attack, and what they prove.

    python benchmarks/default_price.py                  # trains small networks on the first call
    python benchmarks/default_price.py --rule           # also without the rule, for lost proofs
    python benchmarks/default_price.py --smoke

`alone` is `Standard(proofs=False)`, `default` is `Standard()`, on the same rows, in CPU seconds
of this process, after one run of two rows that nobody counts. Where nothing can be proven the ratio
is the price of asking; where much is proven the attack has less to do, and it falls below 1.
`every row` is the same with `Bounds(within=None)`: slopes and cuts on rows at any distance.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import durometer as du
from durometer.training import Adversarial, CraftBy, fit, fresh
from durometer.training import Standard as Plain

CACHE = Path(tempfile.gettempdir()) / "durometer-default-price"


@dataclass(frozen=True)
class Case:
    """A network, how it is trained, and what it is asked."""

    name: str
    data: str
    make: Callable[[], nn.Module]
    trained_for: float  # the eps of adversarial training; 0: as usual
    space: object
    rows: int
    goal: object | None = None


def convolutional(channels: int, size: int, classes: int, wide: int = 16) -> nn.Module:
    left = size // 4
    return nn.Sequential(
        nn.Conv2d(channels, wide, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(wide, 2 * wide, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * wide * left * left, 100), nn.ReLU(), nn.Linear(100, classes),
    )  # fmt: skip


def signs() -> nn.Module:
    return convolutional(3, 32, 43)


def digits() -> nn.Module:
    return convolutional(1, 28, 10)


def dense() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(),
        nn.Linear(100, 10),
    )  # fmt: skip


def pictures() -> nn.Module:
    return convolutional(3, 32, 10)


# every sign but the first ten is to be taken for one of the ten speed limits and bans
LIMITS = du.Group({y: list(range(10)) for y in range(10, 43)})
CASES = (
    Case("signs 8/255, group of 10", "gtsrb", signs, 0.0, du.Linf(8 / 255), 12, LIMITS),
    Case("signs 8/255", "gtsrb", signs, 0.0, du.Linf(8 / 255), 12),
    Case("signs, adversarial 2/255", "gtsrb", signs, 4 / 255, du.Linf(2 / 255), 12),
    Case("pictures 2/255", "cifar10", pictures, 0.0, du.Linf(2 / 255), 12),
    Case("digits .1", "mnist", digits, 0.0, du.Linf(0.1), 30),
    Case("digits .01", "mnist", digits, 0.0, du.Linf(0.01), 30),
    Case("digits, adversarial .05", "mnist", digits, 0.1, du.Linf(0.05), 30),
    Case("dense digits .02", "mnist", dense, 0.0, du.Linf(0.02), 30),
)


def network(case: Case, small: bool) -> tuple[nn.Module, du.Dataset]:
    """The trained network, and the rows that it answers rightly and the goal asks about."""
    both = getattr(du.datasets, case.data)()
    train, test = both.train, both.test
    epochs = 1 if small else 6
    if small:
        train = train.take(slice(64))
    net = fresh(case.make)
    how = (
        Adversarial(CraftBy(du.PGD(3, step=0.5), du.Linf(case.trained_for)))
        if case.trained_for
        else Plain()
    )
    CACHE.mkdir(parents=True, exist_ok=True)
    file = CACHE / f"{case.data}-{case.make.__name__}-{case.trained_for:.4f}-{epochs}.pt"
    fit(net, train, how, epochs=epochs, checkpoint=file)
    net = net.eval().requires_grad_(False)
    x, y = torch.as_tensor(test.x).float(), torch.as_tensor(test.y)
    with torch.no_grad():
        right = net(x).argmax(1) == y
    if small:
        right = torch.ones_like(right)
    if case.goal is not None:
        right &= y >= 10
    rows = right.nonzero()[:, 0][: 4 if small else case.rows]
    return net, test.take(rows.numpy())


def stages(case: Case) -> du.Then:
    """The default's stages with every row climbed and cut."""
    return du.Then(du.Bounds(splits=0, seconds=0.0), du.Cascade(), du.Bounds(alpha=0))


def measured(case: Case, attack: object, net: nn.Module, data: du.Dataset) -> tuple[float, float]:
    """CPU seconds, and the share that is proven."""
    options = {} if case.goal is None else {"goal": case.goal}
    began = time.process_time()
    report = du.evaluate(net, data, space=case.space, attack=attack, progress=False, **options)
    return time.process_time() - began, report.metric("proven").value


def lines(small: bool, rule: bool) -> Iterator[str]:
    head = f"{'network':28}{'rows':>6}{'alone s':>9}{'default s':>11}{'ratio':>7}{'proven':>8}"
    yield head + (f"{'every row s':>13}{'proven':>8}" if rule else "")
    for case in CASES:
        net, data = network(case, small)
        for attack in (du.Standard(proofs=False), du.Standard()):
            measured(case, attack, net, data.take(slice(2)))
        alone, _ = measured(case, du.Standard(proofs=False), net, data)
        whole, proven = measured(case, du.Standard(), net, data)
        line = f"{case.name:28}{len(data):6d}{alone:9.2f}{whole:11.2f}{whole / alone:7.2f}"
        line += f"{proven:8.3f}"
        if rule:
            every, more = measured(case, stages(case), net, data)
            line += f"{every:13.2f}{more:8.3f}"
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="four rows, one epoch")
    parser.add_argument("--rule", action="store_true", help="also without the rule")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for line in lines(given.smoke, given.rule):
        print(line, flush=True)


if __name__ == "__main__":
    main()
