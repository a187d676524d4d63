"""Which loss should a group goal steer by? Six architectures x three seeds, paired by image.

    python studies/groups/architectures.py --out runs/group-losses [--nets runs/nets] [--most 250]
    python studies/groups/architectures.py --smoke

Speed signs to be read as "stop" or at most half the limit (Lin et al. 2024), on small networks of
six kinds: a few epochs of standard, then of free adversarial training on the bundled signs. Every
loss gets the same attack with as many steps, and MDMUL and lse a second start on what is open, so
that `Escalation` is compared at no smaller cost. Differences are paired by network and image. The
interval is a bootstrap that draws images *and* networks: the question is about networks not tried.

With `--out` it goes on where it was; answers that are taken out of a file there (an attack that has
changed) are measured again, on the same network or not at all.

What a reader would get wrong: success on different architectures is not compared. Networks are
cheap here; what is asked is only which loss finds more on the same one.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import durometer as du
from durometer.architectures.images.mobilenet import MobileNet
from durometer.architectures.images.resnet import ResNet
from durometer.architectures.images.shufflenet import ShuffleNet
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.architectures.images.squeezenet import SqueezeNet
from durometer.architectures.images.vgg import VGG
from durometer.report.stats import bootstrap
from durometer.training import Free, Standard, accuracy, fit, fresh

KINDS = {
    "SmallCNN": lambda: SmallCNN(43, 3, width=16),
    "ResNet": lambda: ResNet((1, 1, 1), 43, 3, 8),
    "MobileNet": lambda: MobileNet(43, 3, 6, times=2),
    "ShuffleNet": lambda: ShuffleNet(43, 3, 24, (1, 2, 1)),
    "VGG": lambda: VGG(43, 3, 12, (1, 1, 1, 1)),
    "SqueezeNet": lambda: SqueezeNet(43, 3, 24),
}
RECIPES = {"Linf": Free(replays=2), "L2": Free(replays=2, p=2, eps=0.5)}
PAIRS = (
    ("lse", "mdmul"),
    ("odds", "mdmul"),
    ("lse", "odds"),
    ("mdmul", "mdmax"),
    ("escalation", "best guess"),
    ("escalation", "mdmul, twice"),
    ("escalation", "lse, twice"),
)


def attacks(steps: int, few: bool) -> dict[str, object]:
    """By name; `few`: the losses alone."""
    losses = {loss: du.APGD(steps, loss=loss) for loss in ("mdmul", "lse", "odds", "mdmax")}
    if few:
        return losses
    return losses | {
        "mdmul, twice": du.Restarts(losses["mdmul"], 2),
        "lse, twice": du.Restarts(losses["lse"], 2),
        "escalation": du.Escalation(steps),
        "best guess": du.Guess(du.APGD(steps, loss="md"), mode="best"),
    }


def network(kind: str, norm: str, seed: int, given: argparse.Namespace) -> nn.Module:
    """A few epochs of standard, then of free adversarial training in that norm; kept in `nets`."""
    net = fresh(KINDS[kind], seed)
    file = given.nets and given.nets / f"{kind}-{norm}-{seed}.pt"
    if file and file.exists():
        net.load_state_dict(torch.load(file, weights_only=True))
        return net.eval()
    signs = du.datasets.gtsrb()
    train = signs.train.sample(min(given.train, len(signs.train)))
    how = {"batch": 32, "rate": 3e-3, "seed": seed, "progress": False}
    fit(net, train, Standard(), epochs=given.epochs, **how)
    fit(net, train, RECIPES[norm], epochs=given.epochs, **how)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(net.state_dict(), file)
    return net.eval()


def measure(kind: str, seed: int, given: argparse.Namespace, kept: dict) -> dict[str, object]:
    """One network: accuracy, and per budget and attack the successes and gradients by image.

    What is in `kept` is not measured again; the network must still be the one it was measured on,
    and the images are the same.
    """
    began = time.process_time()
    net = network(kind, "Linf", seed, given)
    signs = du.datasets.gtsrb()
    goal = signs.slow_down_goal()
    speed = signs.test.where(y=list(goal.relation))
    if kept:
        place = {name: i for i, name in enumerate(speed.ids.tolist())}
        speed = speed.take([place[name] for name in kept["ids"]])
    else:
        speed = speed.sample(min(given.images, len(speed)))
    now = {"accuracy": accuracy(net, signs.test), "ids": speed.ids.tolist()}
    if kept.get("accuracy", now["accuracy"]) != now["accuracy"]:
        raise SystemExit(
            f"{kind} {seed} has accuracy {now['accuracy']}, but the answers that were kept are of "
            f"a network with {kept['accuracy']}; use a new --out"
        )
    found = now | kept
    for budget in (8, 4):
        for name, attack in attacks(given.steps, budget == 4).items():
            if f"{budget} {name}" in found:
                continue
            report = du.evaluate(net, speed, space=du.Linf(budget / 255), goal=goal, attack=attack,
                                 seed=11, progress=False)  # fmt: skip
            found[f"{budget} {name}"] = {
                "success": report.table["success"].astype(int).tolist(),
                "gradients": report.table["backwards"].tolist(),
            }
    return found | {"seconds": time.process_time() - began + kept.get("seconds", 0.0)}


def complete(kept: dict, steps: int) -> bool:
    return all(f"{b} {name}" in kept for b in (8, 4) for name in attacks(steps, b == 4))


def table(runs: dict[tuple[str, int], dict]) -> None:
    kinds = dict.fromkeys(kind for kind, _ in runs)
    print("accuracy  " + "  ".join(
        f"{k} " + " ".join(f"{runs[r]['accuracy']:.3f}" for r in runs if r[0] == k) for k in kinds
    ))  # fmt: skip
    print(f"{len(runs)} networks, {sum(r['seconds'] for r in runs.values()):.0f} CPU-s")
    for budget in (8, 4):
        print(f"\nLinf {budget}/255    success by architecture (mean over seeds), mean, gradients, "
              "networks")  # fmt: skip
        print(f"{'':14s}" + "".join(f"{k:>11s}" for k in kinds))
        for name in attacks(1, budget == 4):
            cells = {r: f[f"{budget} {name}"] for r, f in runs.items() if f"{budget} {name}" in f}
            rates = {r: np.mean(cell["success"]) for r, cell in cells.items()}
            by_kind = [[v for r, v in rates.items() if r[0] == k] for k in kinds]
            cost = np.mean([cell["gradients"] for cell in cells.values()])
            print(f"{name:14s}" + "".join(f"{np.mean(v) if v else np.nan:11.3f}" for v in by_kind)
                  + f"{np.mean(list(rates.values())):9.4f}{cost:8.1f}{len(rates):5d}")  # fmt: skip
        for one, two in PAIRS:
            paired(list(runs.values()), f"{budget} {one}", f"{budget} {two}")


def paired(runs: list[dict], one: str, two: str) -> None:
    """On the networks that both attacks were played on."""
    runs = [r for r in runs if one in r and two in r]
    if not runs:
        return
    gain = [np.array(r[one]["success"], float) - r[two]["success"] for r in runs]
    images = np.concatenate([r["ids"] for r in runs])
    nets = np.repeat(np.arange(len(runs)), [len(g) for g in gain])
    e = bootstrap(np.concatenate(gain), images, second=nets)
    share = np.mean([np.mean(r[one]["gradients"]) for r in runs]) / np.mean(
        [np.mean(r[two]["gradients"]) for r in runs]
    )
    ahead, behind = (sum(s * g.mean() > 0 for g in gain) for s in (1, -1))
    print(f"{one[2:]} - {two[2:]}: {e.value:+.4f} [{e.low:+.4f}, {e.high:+.4f}] at {share:.2f} of "
          f"its gradients; ahead on {ahead}, behind on {behind} of {len(runs)}")  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path, help="folder that keeps what was measured")
    options.add_argument("--nets", type=Path, help="folder that keeps the networks")
    options.add_argument("--kinds", nargs="*", default=list(KINDS))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--train", type=int, default=1892)
    options.add_argument("--epochs", type=int, default=5, help="of standard, then of free training")
    options.add_argument("--images", type=int, default=120)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.seeds, given.train, given.epochs, given.images, given.steps = 1, 100, 1, 16, 2
    torch.set_num_threads(1)
    runs = {}
    for kind in given.kinds:
        for seed in range(given.seeds):
            file = given.out and given.out / f"{kind}-{seed}.json"
            kept = json.loads(file.read_text()) if file and file.exists() else {}
            if kept:
                runs[kind, seed] = kept
            if complete(kept, given.steps) or time.process_time() > given.most:
                continue
            runs[kind, seed] = measure(kind, seed, given, kept)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(runs[kind, seed]))
            print(f"{kind} {seed}: {runs[kind, seed]['seconds']:.0f} CPU-s", flush=True)
    if runs:
        table(runs)


if __name__ == "__main__":
    main()
