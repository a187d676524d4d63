"""Attacks on a group goal: success against gradients per image, in one run.

The traffic signs of Lin et al. (NDSS 2024): speed signs to be read as "stop" or as half the limit,
Linf 8/255, a small CNN by free adversarial training. Best guess (one run per target), average and
worst guess, the published losses, and ours; all through the same attack with the same steps.

    python benchmarks/groups.py                          bundled GTSRB sample, trains a network
    python benchmarks/groups.py --data gtsrb32.npz --rows 500 --cache runs/groups
    python benchmarks/groups.py --smoke
"""

import argparse
import time
from pathlib import Path

import torch

import assay as ay
from assay.architectures.smallcnn import SmallCNN
from assay.training import Free, accuracy, fit, fresh


def attacks(steps: int) -> dict[str, object]:
    single = ay.APGD(steps, loss="md")
    near = ay.by_md(1)
    return {
        "best guess": ay.Guess(single, mode="best"),
        "best guess until success": ay.Guess(single),
        "average guess": ay.Guess(single, mode="average"),
        "worst guess": ay.Guess(single, mode="worst"),
        "margin": ay.APGD(steps, loss="margin"),
        "dlr": ay.APGD(steps, loss="dlr"),
        "MDMAX": ay.APGD(steps, loss="mdmax"),
        "MDMUL": ay.APGD(steps, loss="mdmul"),
        "odds (log-sum-exp)": ay.APGD(steps, loss="odds"),
        "top 1 by clean MD": ay.Guess(single, most=1, order=ay.by_md(0)),
        "top 2 by MD after one step": ay.Guess(single, most=2, order=near),
        "escalation (= top 1)": ay.Escalation(steps),
        "escalation, thorough": ay.Escalation(steps, thorough=True),
    }


def network(data: ay.Dataset, epochs: int, replays: int, seed: int, cache: Path | None):
    net = fresh(lambda: SmallCNN(43, 3), seed)
    file = None if cache is None else cache / f"free-{epochs}-{replays}-{seed}.pt"
    fit(net, data, Free(replays=replays), epochs=epochs, seed=seed, checkpoint=file)
    return net


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", help="the full GTSRB as an .npz file or folder; else the sample")
    options.add_argument("--rows", type=int, default=180, help="test images of speed signs")
    options.add_argument("--epochs", type=int, default=16)
    options.add_argument("--replays", type=int, default=4)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--seeds", type=int, default=1, help="seeds of the attacks")
    options.add_argument("--cache", type=Path, help="folder for the network's checkpoint")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.rows, given.epochs, given.replays, given.steps = 18, 1, 1, 3
    signs = ay.datasets.gtsrb(given.data)
    train = signs.train.sample(400) if given.smoke else signs.train
    net = network(train, given.epochs, given.replays, 0, given.cache)
    goal = signs.slow_down_goal()
    speed = signs.test.where(y=list(goal.relation))
    speed = speed.sample(min(given.rows, len(speed)))
    print(f"network: {len(train)} training images, test accuracy {accuracy(net, signs.test):.3f}")
    print(f"{len(speed)} images of speed signs, Linf 8/255, {given.steps} steps, torch "
          f"{torch.__version__}, {given.seeds} seed(s)\n")  # fmt: skip
    print(f"{'attack':28s} {'success':>8s}   95 % interval   gradients/image  seconds")
    for name, attack in attacks(given.steps).items():
        began = time.perf_counter()
        reports = [
            ay.evaluate(net, speed, space=ay.Linf(8 / 255), goal=goal, attack=attack, seed=s)
            for s in range(given.seeds)
        ]
        spent = (time.perf_counter() - began) / given.seeds
        robust = [1 - r.metric("robust").value for r in reports]
        # Rows that are wrong without an attack cost nothing and count in both columns.
        gradients = sum(float(r.table["backwards"].mean()) for r in reports) / given.seeds
        success = sum(robust) / given.seeds
        interval = reports[0].metric("robust")
        print(f"{name:28s} {success:8.3f}   {1 - interval.high:.3f} - {1 - interval.low:.3f}   "
              f"{gradients:15.1f}  {spent:7.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
