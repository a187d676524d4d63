"""Attacks on a group goal: success against gradients per image, in one run.

The traffic signs of Lin et al. (NDSS 2024): speed signs to be read as "stop" or as half the limit,
Linf 4/255 and 8/255, small networks by free adversarial training, one per training seed. Best guess
(one run per target), average and worst guess, the published losses, and ours; all through the same
attack with the same steps. MDMAX and MDMUL also twice on what is still open, so that `Escalation`
can be compared at no higher cost than theirs. At 4/255, where few rows are within reach, the
question is what it pays for them: MDMUL once and twice, `Escalation`, best guess. Intervals are a
bootstrap over images, each drawn for all networks together; differences are paired by image and
network.

    python benchmarks/groups.py                          bundled GTSRB sample, trains the networks
    python benchmarks/groups.py --kind VGG --first 40    another architecture, training seeds 40 ...
    python benchmarks/groups.py --data gtsrb32.npz --rows 500 --cache runs/groups
    python benchmarks/groups.py --smoke
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.architectures.images.vgg import VGG
from durometer.report.stats import bootstrap
from durometer.training import Free, accuracy, fit, fresh

KINDS = {
    "SmallCNN": lambda: SmallCNN(43, 3),
    "VGG": lambda: VGG(43, 3, 12, (1, 1, 1, 1)),
}
PAIRS = (
    ("escalation", "MDMUL"),
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
        "MDMAX": du.APGD(steps, loss="mdmax"),
        "MDMUL": du.APGD(steps, loss="mdmul"),
        "odds": du.APGD(steps, loss="odds"),
        "lse": du.APGD(steps, loss="lse"),
    }


def few(steps: int) -> dict[str, object]:
    """For the smaller size: the losses, and what `Escalation` has to be worth its price against."""
    wanted = ("MDMUL, twice", "escalation", "best guess")
    return losses(steps) | {name: attacks(steps)[name] for name in wanted}


def attacks(steps: int) -> dict[str, object]:
    single = du.APGD(steps, loss="md")
    return {
        **losses(steps),
        "best guess": du.Guess(single, mode="best"),
        "average guess": du.Guess(single, mode="average"),
        "MDMAX, twice": du.Restarts(du.APGD(steps, loss="mdmax"), 2),
        "MDMUL, twice": du.Restarts(du.APGD(steps, loss="mdmul"), 2),
        "top 1 by clean MD": du.Guess(single, most=1, order=du.orders.ByMD(0)),
        "escalation, 1 target": du.Escalation(steps, most=1),
        "escalation": du.Escalation(steps),
        "escalation, thorough": du.Escalation(steps, thorough=True),
        "best guess until success": du.Guess(single),
        "margin": du.APGD(steps, loss="margin"),
        "dlr": du.APGD(steps, loss="dlr"),
        "worst guess": du.Guess(single, mode="worst"),
    }


def network(data: du.Dataset, given: argparse.Namespace, seed: int) -> torch.nn.Module:
    net = fresh(KINDS[given.kind], seed)
    name = f"free-{given.kind}-{len(data)}-{given.epochs}-{seed}.pt"
    file = given.cache and given.cache / name
    fit(net, data, Free(replays=4), epochs=given.epochs, batch=64, seed=seed, checkpoint=file)
    return net


Found = dict[str, tuple[np.ndarray, np.ndarray]]


def measure(nets, speed, goal, eps, tried) -> Found:
    """Per attack the successes and the gradients (networks, images); prints a line each."""
    print(f"\n{'Linf ' + f'{eps * 255:.0f}/255':28s} success  95 % interval   by network"
          f"{'':{6 * len(nets) - 8}s}  gradients/image, 95 %  CPU-s")  # fmt: skip
    found = {}
    for name, attack in tried.items():
        began = time.process_time()
        reports = [du.evaluate(n, speed, space=du.Linf(eps), goal=goal, attack=attack)
                   for n in nets]  # fmt: skip
        spent = time.process_time() - began
        # Rows that are wrong without an attack cost nothing and count in both columns.
        hits, gradients = (
            np.stack([r.table[column].to_numpy().astype(float) for r in reports])
            for column in ("success", "backwards")
        )
        share, price = over_images(hits), over_images(gradients)
        each = " ".join(f"{s:.3f}" for s in hits.mean(1))
        print(f"{name:28s}   {share.value:.3f}  {share.low:.3f} - {share.high:.3f}   {each}  "
              f"{price.value:7.1f}  {price.low:4.1f} - {price.high:4.1f}  {spent:5.1f}",
              flush=True)  # fmt: skip
        found[name] = hits, gradients
    return found


def over_images(values: np.ndarray):
    """Mean over (networks, images), with an interval for the choice of images."""
    images = np.tile(np.arange(values.shape[1]), len(values))
    return bootstrap(values.reshape(-1), images)


def compare(found: Found) -> None:
    print(f"\n{'difference':36s} of success [95 %]            by network"
          f"{'':{7 * len(next(iter(found.values()))[0]) - 10}s}  of gradients [95 %]")  # fmt: skip
    for first, second in PAIRS:
        if first in found and second in found:
            gain, price = (one - two for one, two in zip(found[first], found[second], strict=True))
            e, p = over_images(gain), over_images(price)
            each = " ".join(f"{g:+.3f}" for g in gain.mean(1))
            print(f"{first + ' - ' + second:36s} {e.value:+.4f} [{e.low:+.4f}, {e.high:+.4f}]"
                  f"   {each}  {p.value:+.1f} [{p.low:+.1f}, {p.high:+.1f}]",
                  flush=True)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", help="the full GTSRB as an .npz file or folder; else the sample")
    options.add_argument("--rows", type=int, default=180, help="test images of speed signs")
    options.add_argument("--train", type=int, default=3000, help="training images, at most")
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--seeds", type=int, default=3, help="networks, each of its own seed")
    options.add_argument("--first", type=int, default=0, help="the first network's training seed")
    options.add_argument("--kind", choices=list(KINDS), default="SmallCNN")
    options.add_argument("--cache", type=Path, help="folder for the networks' checkpoints")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.rows, given.train, given.epochs, given.steps, given.seeds = 18, 400, 1, 3, 2
    torch.set_num_threads(1)
    signs = du.datasets.gtsrb(given.data)
    train = signs.train.sample(min(given.train, len(signs.train)))
    nets = [network(train, given, seed) for seed in range(given.first, given.first + given.seeds)]
    goal = signs.slow_down_goal()
    speed = signs.test.where(y=list(goal.relation))
    speed = speed.sample(min(given.rows, len(speed)))
    right = " ".join(f"{accuracy(net, signs.test):.3f}" for net in nets)
    print(
        f"{len(nets)} networks, {given.kind}: {len(train)} training images, test accuracy {right}"
    )
    print(f"{len(speed)} images of speed signs, {given.steps} steps, torch {torch.__version__}")
    compare(measure(nets, speed, goal, 4 / 255, few(given.steps)))
    compare(measure(nets, speed, goal, 8 / 255, attacks(given.steps)))


if __name__ == "__main__":
    main()
