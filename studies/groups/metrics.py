"""C1 with power: is Rob another metric in disguise? Six architectures, two norms.

    python studies/groups/metrics.py --out runs/group-metrics [--nets runs/nets] [--most 250]
    python studies/groups/metrics.py --smoke

24 small networks by standard and then free adversarial training, three seeds of each architecture
in Linf (8/255; those of `architectures.py`, if `--nets` names the same folder) and one in L2 (0.5),
each judged in its own norm: Rob of the slow-down goal, clean accuracy, accuracy on T, untargeted
robustness and robustness to one random target (Lin et al. 2024, figure 3 in kind). Goes on where
it was.

Power, said beforehand: a correlation of 24 networks is found at the 5 % level with a chance of 0.8
if it is 0.56 or more, of the 18 in Linf alone 0.62 or more, of the six in L2 only 0.92 (Fisher's
z). Networks of different norms are not comparable as they stand, so correlations over all are of
residuals after the mean of each norm; p-values are of permutations within norms. Nothing smaller
than that can be excluded by this study, whatever it finds.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from architectures import KINDS, network

import durometer as du
from durometer.training import accuracy

NORMS = {"Linf": du.Linf(8 / 255), "L2": du.L2(0.5)}
TITLES = ("Rob", "accuracy", "accuracy on T", "untargeted", "targeted")


def measure(kind: str, norm: str, seed: int, given: argparse.Namespace) -> dict[str, object]:
    began = time.process_time()
    signs = du.datasets.gtsrb()
    net, space = network(kind, norm, seed, given), NORMS[norm]
    goal = signs.slow_down_goal()
    wanted = goal.allowed(43, signs.test.classes).any(0).nonzero()[:, 0]
    speed, every = signs.test.where(y=list(goal.relation)), signs.test
    found, sizes = [], []
    for data, aim, attack in (
        (speed, goal, du.Escalation(given.steps)),
        (every, du.Untargeted(), du.APGD(given.steps)),
        (every, du.RandomTarget(), du.APGD(given.steps)),
    ):
        data = data.sample(min(given.rows, len(data)))
        e = du.evaluate(net, data, space=space, goal=aim, attack=attack, progress=False).metric(
            "robust"
        )
        found.append(e.value)
        sizes.append(e.n)
    on_targets = every.where(torch.isin(every.y, wanted).numpy())
    return {
        "values": [found[0], accuracy(net, every), accuracy(net, on_targets), *found[1:]],
        "n": [sizes[0], len(every), len(on_targets), *sizes[1:]],
        "seconds": time.process_time() - began,
    }


def correlation(one: np.ndarray, two: np.ndarray, norms: np.ndarray) -> tuple[float, float]:
    """Of residuals within norms; p by permutations that keep a network in its norm."""
    a, b = (v - np.array([v[norms == n].mean() for n in norms]) for v in (one, two))

    def r(x: np.ndarray, y: np.ndarray) -> float:
        return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))

    rng, seen = np.random.default_rng(0), r(a, b)
    drawn = []
    for _ in range(5000):
        mixed = b.copy()
        for n in np.unique(norms):
            mixed[norms == n] = rng.permutation(b[norms == n])
        drawn.append(abs(r(a, mixed)) >= abs(seen) - 1e-12)
    return seen, (1 + sum(drawn)) / (1 + len(drawn))


def interval(r: float, n: int, groups: int) -> tuple[float, float]:
    half = 1.96 / np.sqrt(max(n - 3 - (groups - 1), 1))
    z = np.arctanh(np.clip(r, -0.9999, 0.9999))
    return float(np.tanh(z - half)), float(np.tanh(z + half))


def show(found: dict[tuple[str, str, int], dict]) -> None:
    print(f"\n{len(found)} networks, {sum(f['seconds'] for f in found.values()):.0f} CPU-s; "
          f"denominators {next(iter(found.values()))['n']}")  # fmt: skip
    print("| architecture, norm, seed | " + " | ".join(TITLES) + " |\n|" + "---|" * 6)
    for (kind, norm, seed), f in found.items():
        print(f"| {kind} {norm} {seed} | " + " | ".join(f"{v:.3f}" for v in f["values"]) + " |")
    table = np.array([f["values"] for f in found.values()])
    norms = np.array([norm for _, norm, _ in found])
    for chosen in ("both", *NORMS):
        mine = np.ones(len(norms), bool) if chosen == "both" else norms == chosen
        if mine.sum() < 6:
            continue
        said = []
        for k, title in enumerate(TITLES[1:], 1):
            r, p = correlation(table[mine, 0], table[mine, k], norms[mine])
            low, high = interval(r, int(mine.sum()), len(set(norms[mine])))
            said.append(f"{title} {r:+.2f} [{low:+.2f}, {high:+.2f}] (p = {p:.3f})")
        print(f"Rob with, {chosen}, n = {mine.sum()}: " + ", ".join(said), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--nets", type=Path, help="folder of networks, shared with the losses")
    options.add_argument("--kinds", nargs="*", default=list(KINDS))
    options.add_argument("--seeds", type=int, nargs=2, default=[3, 1], help="in Linf, in L2")
    options.add_argument("--train", type=int, default=1892)
    options.add_argument("--epochs", type=int, default=5, help="of standard, then of free training")
    options.add_argument("--rows", type=int, default=200, help="attacked, for each figure")
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.seeds, given.train, given.epochs, given.rows, given.steps = (1, 1), 64, 1, 60, 1
        given.kinds = given.kinds[:3]
    torch.set_num_threads(1)
    found: dict[tuple[str, str, int], dict] = {}
    for kind in given.kinds:
        for norm, seeds in zip(NORMS, given.seeds, strict=True):
            for seed in range(seeds):
                file = given.out and given.out / f"{kind}-{norm}-{seed}.json"
                if file and file.exists():
                    found[kind, norm, seed] = json.loads(file.read_text())
                    continue
                if time.process_time() > given.most:
                    continue
                found[kind, norm, seed] = measure(kind, norm, seed, given)
                if file:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(json.dumps(found[kind, norm, seed]))
                print(f"{kind} {norm} {seed}: {found[kind, norm, seed]['seconds']:.0f} CPU-s",
                      flush=True)  # fmt: skip
    show(found)


if __name__ == "__main__":
    main()
