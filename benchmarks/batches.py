"""How many rows are played at once: the default against batches of one's own choice.

    python benchmarks/batches.py [--smoke]

A batch runs empty as its rows are broken, so narrow ones ask the model about a handful of rows.
Two jobs: 10,000 rows on a network of 8-16-3 under PGD(10), where nearly all is overhead, and 600
MNIST images on a small CNN under `Standard(proofs=False)`, most of which fall early. Prints CPU
time a row, model calls and rows a call, and whether the records are the same.

Aims: the default within 1.15 of the best batch, 20 us a row on the tiny network, the same records.
A network may compute other last digits in wider batches, so verdicts, classes and counts are
compared, and distances to 1e-4.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from lp_networks import network, splits
from torch import Tensor, nn

import durometer as du

SAME = ("id", "verdict", "final", "forwards", "backwards")
AIM, MOST = 1.15, 20.0


class Noted(nn.Module):
    """The network, noting how many rows each call has."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.calls = net, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(len(x))
        out: Tensor = self.net(x)
        return out


def tiny(rows: int) -> tuple[nn.Module, du.Dataset, object, object]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    x = torch.rand(rows, 8)
    with torch.no_grad():
        return net, du.Dataset(x, net(x).argmax(1)), du.Linf(0.05), du.PGD(10)


def images(rows: int, cache: Path, small: bool) -> tuple[nn.Module, du.Dataset, object, object]:
    space = du.Linf(0.15)
    net = network("standard", cache, small)
    return net, splits("mnist")[1].head(rows), space, du.Standard(proofs=False)


def measured(
    job: tuple[nn.Module, du.Dataset, object, object], batch: int | None, repeat: int
) -> tuple[float, list[int], pd.DataFrame]:
    """CPU seconds (the best of some), calls and records."""
    net, data, space, attack = job
    chosen = {} if batch is None else {"batch": batch}
    given = {"space": space, "attack": attack, "progress": False, **chosen}
    spent = []
    for _ in range(repeat):
        began = time.process_time()
        du.evaluate(net, data, **given)
        spent.append(time.process_time() - began)
    noted = Noted(net).eval()
    report = du.evaluate(noted, data, **given)
    return min(spent), noted.calls, report.table


def alike(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    exact = all(list(a[name]) == list(b[name]) for name in SAME)
    return exact and np.allclose(a["distance"], b["distance"], atol=1e-4, equal_nan=True)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="to see that it runs")
    given = options.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    home = Path(os.environ.get("DUROMETER_CACHE") or Path.home() / ".cache" / "durometer")
    rows, few = (300, 20) if given.smoke else (10_000, 600)
    repeat = 1 if given.smoke else 3
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) if given.smoke else home / "lp_strength"
        jobs = {
            "tiny": (tiny(rows), (256, 1024, 4096, 10_000)),
            "images": (images(few, cache, given.smoke), (64, 256, 600)),
        }
    missed = []
    for name, (job, batches) in jobs.items():
        print(
            f"{name}, {len(job[1])} rows\nbatch     us a row   calls   rows a call   same records"
        )
        found = {b: measured(job, b, repeat) for b in (None, *batches)}
        for batch, (spent, calls, table) in found.items():
            same = alike(table, found[None][2])
            said = "default" if batch is None else str(batch)
            print(f"{said:9s} {1e6 * spent / len(job[1]):8.1f} {len(calls):7d} "
                  f"{sum(calls) / len(calls):13.1f}   {'yes' if same else 'NO'}")  # fmt: skip
            missed += [] if same else [f"{name}: other records at batch {batch}"]
        ratio = found[None][0] / min(spent for spent, _, _ in found.values())
        print(f"default / best: {ratio:.2f} (aim {AIM})")
        missed += [f"{name}: {ratio:.2f} of the best"] if ratio > AIM else []
        if name == "tiny" and 1e6 * found[None][0] / len(job[1]) > MOST:
            missed.append(f"more than {MOST:.0f} us a row")
    print("bounds: " + ("; ".join(missed) or "all kept"))
    return int(bool(missed) and not given.smoke)


if __name__ == "__main__":
    sys.exit(main())
