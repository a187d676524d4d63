"""Attacks on a group goal: success against gradients per image, in one run.

The traffic signs of Lin et al. (NDSS 2024): speed signs to be read as "stop" or as half the limit,
Linf 8/255, a small CNN by free adversarial training, one network per training seed. Best guess (one
run per target), average and worst guess, the published losses, and ours; all through the same
attack with the same steps. MDMAX and MDMUL also twice on what is still open, so that `Escalation`
can be compared at no higher cost than theirs. Intervals are a bootstrap over images, each drawn
for all networks together; differences are paired by image and network.

    python benchmarks/groups.py                          bundled GTSRB sample, trains the networks
    python benchmarks/groups.py --data gtsrb32.npz --rows 500 --cache runs/groups
    python benchmarks/groups.py --smoke
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import assay as ay
from assay.architectures.images.smallcnn import SmallCNN
from assay.report.stats import bootstrap
from assay.training import Free, accuracy, fit, fresh

PAIRS = (
    ("escalation", "best guess"),
    ("escalation, 1 target", "best guess"),
    ("escalation", "MDMAX, twice"),
    ("escalation", "MDMUL, twice"),
    ("lse", "MDMAX"),
    ("lse", "MDMUL"),
    ("lse", "odds"),
    ("odds", "MDMUL"),
)


def losses(steps: int) -> dict[str, object]:
    return {
        "MDMAX": ay.APGD(steps, loss="mdmax"),
        "MDMUL": ay.APGD(steps, loss="mdmul"),
        "odds": ay.APGD(steps, loss="odds"),
        "lse": ay.APGD(steps, loss="lse"),
    }


def attacks(steps: int) -> dict[str, object]:
    single = ay.APGD(steps, loss="md")
    return {
        **losses(steps),
        "best guess": ay.Guess(single, mode="best"),
        "average guess": ay.Guess(single, mode="average"),
        "MDMAX, twice": ay.Restarts(ay.APGD(steps, loss="mdmax"), 2),
        "MDMUL, twice": ay.Restarts(ay.APGD(steps, loss="mdmul"), 2),
        "top 1 by clean MD": ay.Guess(single, most=1, order=ay.orders.ByMD(0)),
        "escalation, 1 target": ay.Escalation(steps, most=1),
        "escalation": ay.Escalation(steps),
        "escalation, thorough": ay.Escalation(steps, thorough=True),
        "best guess until success": ay.Guess(single),
        "margin": ay.APGD(steps, loss="margin"),
        "dlr": ay.APGD(steps, loss="dlr"),
        "worst guess": ay.Guess(single, mode="worst"),
    }


def network(data: ay.Dataset, given: argparse.Namespace, seed: int) -> torch.nn.Module:
    net = fresh(lambda: SmallCNN(43, 3), seed)
    file = given.cache and given.cache / f"free-{len(data)}-{given.epochs}-{seed}.pt"
    fit(net, data, Free(replays=4), epochs=given.epochs, batch=64, seed=seed, checkpoint=file)
    return net


def measure(nets, speed, goal, eps, tried) -> dict[str, np.ndarray]:
    """Per attack the successes (networks, images); prints a line each."""
    print(f"\n{'Linf ' + f'{eps * 255:.0f}/255':28s} success  95 % interval   by network"
          f"{'':{6 * len(nets) - 8}s}  gradients/image  CPU-s")  # fmt: skip
    found = {}
    for name, attack in tried.items():
        began = time.process_time()
        reports = [ay.evaluate(n, speed, space=ay.Linf(eps), goal=goal, attack=attack)
                   for n in nets]  # fmt: skip
        spent = time.process_time() - began
        hits = np.stack([r.table["success"].to_numpy() for r in reports])
        # Rows that are wrong without an attack cost nothing and count in both columns.
        gradients = np.mean([r.table["backwards"].mean() for r in reports])
        share = over_images(hits)
        each = " ".join(f"{s:.3f}" for s in hits.mean(1))
        print(f"{name:28s}   {share.value:.3f}  {share.low:.3f} - {share.high:.3f}   {each}  "
              f"{gradients:15.1f}  {spent:5.1f}", flush=True)  # fmt: skip
        found[name] = hits
    return found


def over_images(values: np.ndarray):
    """Mean over (networks, images), with an interval for the choice of images."""
    images = np.tile(np.arange(values.shape[1]), len(values))
    return bootstrap(values.astype(float).reshape(-1), images)


def compare(found: dict[str, np.ndarray]) -> None:
    print(f"\n{'difference of success':54s} mean [95 %]               by network")
    for first, second in PAIRS:
        if first in found and second in found:
            gain = found[first].astype(float) - found[second]
            e = over_images(gain)
            each = " ".join(f"{g:+.3f}" for g in gain.mean(1))
            print(f"{first + ' - ' + second:54s} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"
                  f"   {each}", flush=True)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", help="the full GTSRB as an .npz file or folder; else the sample")
    options.add_argument("--rows", type=int, default=180, help="test images of speed signs")
    options.add_argument("--train", type=int, default=3000, help="training images, at most")
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--seeds", type=int, default=3, help="networks, each of its own seed")
    options.add_argument("--cache", type=Path, help="folder for the networks' checkpoints")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.rows, given.train, given.epochs, given.steps, given.seeds = 18, 400, 1, 3, 2
    torch.set_num_threads(1)
    signs = ay.datasets.gtsrb(given.data)
    train = signs.train.sample(min(given.train, len(signs.train)))
    nets = [network(train, given, seed) for seed in range(given.seeds)]
    goal = signs.slow_down_goal()
    speed = signs.test.where(y=list(goal.relation))
    speed = speed.sample(min(given.rows, len(speed)))
    right = " ".join(f"{accuracy(net, signs.test):.3f}" for net in nets)
    print(f"{len(nets)} networks: {len(train)} training images, test accuracy {right}")
    print(f"{len(speed)} images of speed signs, {given.steps} steps, torch {torch.__version__}")
    compare(measure(nets, speed, goal, 4 / 255, losses(given.steps)))
    compare(measure(nets, speed, goal, 8 / 255, attacks(given.steps)))


if __name__ == "__main__":
    main()
