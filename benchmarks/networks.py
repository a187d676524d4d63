"""Networks from both sides: what `Bounds` proves, what attacks break, what proving first saves.

Networks 63-64-32-2 on URL phishing, trained here: standard, and adversarially (CAPGD of 5 steps in
the same space inside), three training seeds each. Rows of both classes. `Standard()` (certify,
attack, certify what is left) against the same attack alone, in CPU seconds of one thread.

    OMP_NUM_THREADS=1 python benchmarks/networks.py [--smoke] [--rows 200] [--seeds 3]
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import torch

import assay as ay
from assay.training import Adversarial, CraftBy

SPACES = (("Linf .02", 0.02, math.inf), ("Linf .05", 0.05, math.inf), ("L2 .1", 0.1, 2.0))


def both_classes(data: ay.Dataset, count: int) -> ay.Dataset:
    """As many rows of each class, the first of a fixed shuffle."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    chosen = [order[data.y[order] == c][: count // 2] for c in (0, 1)]
    return data.take(torch.cat(chosen))


def network(train: ay.Dataset, val: Any, space: Any, seed: int, madry: bool, epochs: int) -> Any:
    net = ay.architectures.MLP(train.schema, widths=(64, 32), seed=seed)
    if not madry:
        return net.fit(train.x, train.y, validation=(val.x, val.y), epochs=epochs)
    recipe = Adversarial(CraftBy(ay.CAPGD(5, clean=False), space), 0.5, "balanced")
    return net.fit(
        train.x, train.y, recipe=recipe, validation=None, epochs=epochs, batch=512, rate=3e-3
    )


def timed(net: Any, data: ay.Dataset, space: Any, attack: Any) -> tuple[ay.Report, float]:
    began = time.process_time()
    report = ay.evaluate(net, data, space=space, attack=attack, progress=False)
    return report, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--madry-epochs", type=int, default=8)
    options = parser.parse_args()
    splits = ay.datasets.url()
    train = splits.train.sample(600 if options.smoke else 4000)
    rows, seeds = (30, 1) if options.smoke else (options.rows, options.seeds)
    data = both_classes(splits.test, rows)
    print("| network, space | clean: legitimate, phishing | proven | at most | open | broken alike "
          "| CPU s, certify first | CPU s, attack alone | ratio | vacuous |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for madry in (False, True):
        for name, eps, p in SPACES:
            space = splits.test.schema.space(eps=eps, p=p)
            for seed in range(seeds):
                epochs = 1 if options.smoke else options.madry_epochs if madry else options.epochs
                net = network(train, splits.val, space, seed, madry, epochs)
                first, certify = timed(net, data, space, ay.Standard())
                alone, attack = timed(net, data, space, ay.standard(space))
                classes = first.metric("clean", by="y").values()
                clean = ", ".join(f"{e.value:.3f}" for e in classes)
                same = first.table["success"].tolist() == alone.table["success"].tolist()
                vacuous = int(first.table["vacuous"].sum())
                print(f"| {'Madry' if madry else 'standard'} {seed}, {name} | {clean} | "
                      f"{first.metric('proven').value:.3f} | {first.metric('robust').value:.3f} | "
                      f"{first.metric('open').value:.3f} | {'yes' if same else 'no'} | "
                      f"{certify:.1f} | {attack:.1f} | {attack / certify:.1f} | {vacuous} |",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
