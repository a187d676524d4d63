"""Tables: what relations cost. Ratios within one run, so a slow machine does not matter.

1. CTU-13's 360 relations on 756 features for 10,000 rows, compiled by shape against one by one.
2. CAPGD (22 gradients per row) against PGD with as many in a plain L2 ball of the scaled features:
   the same network, no types, no bounds, no relations. The network's answer is out of reach, so
   that no row is solved and both do all their work.

    python benchmarks/tables.py [--rows 1000] [--smoke]
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import durometer as du
from durometer.data.dataset import Dataset
from durometer.relations.program import Program


class Unreachable(nn.Module):
    """A network that always says 1, however its inputs move, with any network's gradients."""

    def __init__(self, features: int, low: Tensor, width: Tensor) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.low, self.width = low, width
        self.net = nn.Sequential(
            nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32),
            nn.ReLU(), nn.Linear(32, 2),
        ).double()  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.low) / self.width) + torch.tensor([0.0, 1e3])


def clock(work: Callable[[], object], times: int) -> float:
    """Processor seconds (one thread): the fastest of several runs, the least disturbed one."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def repeated(data: Dataset, rows: int) -> Tensor:
    return data.x[torch.arange(rows) % len(data)]


def relations(rows: int, times: int) -> None:
    data = du.datasets.ctu13().test
    program, x = data.schema.program, repeated(data, rows)
    x = torch.where(
        data.schema.mutable, x + (torch.arange(rows) % 3 == 0)[:, None], x
    )  # some break
    alone = [Program((r,), data.schema.layout) for r in data.schema.relations]
    together = clock(lambda: program.valid(x, x), times)
    single = clock(lambda: [p.valid(x, x) for p in alone], 1)
    print(f"{len(program)} relations, {x.shape[1]} features, {rows} rows: {together * 1e3:.0f} ms;"
          f" one by one {single * 1e3:.0f} ms, ratio {single / together:.1f}")  # fmt: skip


def attack(name: str, data: Dataset, rows: int, times: int) -> None:
    x, schema = repeated(data, rows), data.schema
    low = torch.tensor([f.range[0] for f in schema.features], dtype=torch.float64)
    width = torch.tensor([schema.layout.width(n) for n in schema.names], dtype=torch.float64)
    model = Unreachable(x.shape[1], low, width)
    table = Dataset(x, torch.ones(rows, dtype=torch.long), schema=schema)
    scaled = Dataset(((x - low) / width).clamp(0, 1), table.y)
    plain = Unreachable(x.shape[1], torch.zeros_like(low), torch.ones_like(width))

    def capgd() -> None:
        du.evaluate(
            model,
            table,
            space=schema.space(0.5),
            attack=du.CAPGD(loss="margin"),
            batch=rows,
            progress=False,
        )

    def pgd() -> None:
        du.evaluate(
            plain,
            scaled,
            space=du.L2(0.5),
            attack=du.PGD(21, loss="margin"),
            batch=rows,
            progress=False,
        )

    capgd()  # first use: modules are loaded
    ours, theirs = clock(capgd, times), clock(pgd, times)
    print(f"{name}: CAPGD {ours / rows * 1e6:.0f} ms per 1,000 rows, PGD without constraints "
          f"{theirs / rows * 1e6:.0f} ms, ratio {ours / theirs:.2f}")  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--smoke", action="store_true", help="small, to see that it runs")
    given = options.parse_args()
    torch.set_num_threads(1)
    rows, times = (50, 1) if given.smoke else (given.rows, 3)
    relations(10 * rows, times)
    attack("URL", du.datasets.url().test.where(y=1), rows, times)
    attack("CTU-13", du.datasets.ctu13().test, rows, times)


if __name__ == "__main__":
    main()
