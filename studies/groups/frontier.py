"""Does the group defence do more than refuse to say "stop"? Accuracy on T against Rob.

    python studies/groups/frontier.py --out runs/group-frontier [--most 250]    goes on where it was
    python studies/groups/frontier.py --smoke

Taking a constant b from the logits of the targeted classes T raises Rob and lowers accuracy on T,
for any network and without training: that is the price list a defence must beat. Per seed: free
adversarial training, then as many further epochs of it ("free") or of the group defence ("group");
for either, b from -1.5 to 1. The question, fixed beforehand: with b of the group network chosen on
the validation tracks so that its accuracy on T is no lower than that of the free network as it is,
is its Rob higher, on other images, paired? And by how much does it beat the free network with a b
of its own at the same accuracy on T?
"""

import argparse
import copy
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import durometer as du
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.report.stats import bootstrap
from durometer.training import Free, Group, fit, fresh

LINF = du.Linf(8 / 255)
SHIFTS = (-1.5, -1.0, -0.5, -0.25, 0.0, 0.5, 1.0)


class Shifted(nn.Module):
    """`net` with `b` taken from the logits of T."""

    def __init__(self, net: nn.Module, wanted: torch.Tensor, b: float) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("off", b * wanted.float())

    def forward(self, x):
        return self.net(x) - self.off


def right(net: nn.Module, data: du.Dataset) -> np.ndarray:
    with torch.no_grad():
        answers = [net(x).argmax(1) for x in data.x.split(256)]
    return (torch.cat(answers) == data.y).numpy()


def measure(seed: int, given: argparse.Namespace) -> dict[str, object]:
    began = time.process_time()
    signs = du.datasets.gtsrb()
    goal = signs.slow_down_goal()
    wanted = goal.allowed(43, signs.test.classes).any(0)
    train = signs.train.sample(min(given.train, len(signs.train)))
    net = fresh(lambda: SmallCNN(43, 3, width=16), seed)
    how = {"seed": seed, "progress": False}
    fit(net, train, Free(replays=4), epochs=given.epochs, batch=64, **how)
    group = Group(goal, LINF, kappa=given.kappa, replays=4, weight=given.weight)
    found: dict[str, object] = {}
    for name, recipe, size in (("free", Free(replays=4), 64), ("group", group, 48)):
        model = copy.deepcopy(net)
        fit(model, train, recipe, epochs=given.more, batch=size, rate=5e-4, **how)
        model.eval()
        for part, data in (("val", signs.val), ("test", signs.test)):
            on_t = data.where(torch.isin(data.y, wanted.nonzero()[:, 0]).numpy())
            speed = data.where(y=list(goal.relation))
            speed = speed.sample(min(given.rows, len(speed)))
            for b in SHIFTS:
                shifted = Shifted(model, wanted, b).eval()
                line = {"t": right(shifted, on_t).astype(int).tolist(), "t_ids": on_t.ids.tolist(),
                        "all": float(right(shifted, data).mean())}  # fmt: skip
                if part == "test":
                    report = du.evaluate(shifted, speed, space=LINF, goal=goal,
                                         attack=du.Escalation(given.steps), **how)  # fmt: skip
                    line["held"] = (~report.table["success"]).astype(int).tolist()
                    line["ids"] = [str(i) for i in report.table["id"]]
                found[f"{name} {part} {b}"] = line
    return found | {"seconds": time.process_time() - began}


def chosen(f: dict, name: str, least: float) -> float:
    """The largest b whose accuracy on T of the validation tracks is no lower than `least`."""
    good = [b for b in SHIFTS if np.mean(f[f"{name} val {b}"]["t"]) >= least]
    return max(good, default=SHIFTS[0])


def show(found: list[dict]) -> None:
    print(f"{len(found)} networks, {sum(f['seconds'] for f in found):.0f} CPU-s")
    print("| b | free: accuracy, on T, Rob | group: accuracy, on T, Rob |\n|---|---|---|")
    for b in SHIFTS:
        cells = []
        for name in ("free", "group"):
            lines = [f[f"{name} test {b}"] for f in found]
            cells.append(" ".join(f"{np.mean([np.mean(v[k]) for v in lines]):.3f}"
                                  for k in ("all", "t", "held")))  # fmt: skip
        print(f"| {b} | {cells[0]} | {cells[1]} |")
    picks = []
    for f in found:
        least = float(np.mean(f["free val 0.0"]["t"]))
        picks.append((chosen(f, "group", least), chosen(f, "free", least)))
    print("b of group, and of free, chosen on the validation tracks: " + ", ".join(map(str, picks)))
    ways = {"free": "free test 0.0", "group": "group test 0.0"}
    for first, second in (("group, b", "free"), ("group, b", "free, b"), ("group", "free")):

        def of(way: str, p: tuple[float, float]) -> str:
            return ways.get(way) or f"{way[:-3]} test {p[0 if way == 'group, b' else 1]}"

        said = []
        for key, ids, what in (("t", "t_ids", "accuracy on T"), ("held", "ids", "Rob")):
            gain = np.concatenate([np.array(f[of(first, p)][key], float) - f[of(second, p)][key]
                                   for f, p in zip(found, picks, strict=True)])  # fmt: skip
            names = np.concatenate([np.array(f[of(first, p)][ids]).astype(str)
                                    for f, p in zip(found, picks, strict=True)])  # fmt: skip
            nets = np.repeat(np.arange(len(found)), len(gain) // len(found))
            e = bootstrap(gain, names, second=nets if len(found) > 1 else None)
            said.append(f"{what} {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]")
        print(f"{first} - {second}: {', '.join(said)}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--train", type=int, default=1892)
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--more", type=int, default=3)
    options.add_argument("--rows", type=int, default=180)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--kappa", type=float, default=3.0)
    options.add_argument("--weight", type=float, default=4.0)
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.seeds, given.train, given.epochs, given.more, given.rows = 1, 100, 1, 1, 20
        given.steps = 1
    torch.set_num_threads(1)
    found = []
    for seed in range(given.seeds):
        file = given.out and given.out / f"{seed}.json"
        if file and file.exists():
            found.append(json.loads(file.read_text()))
            continue
        if time.process_time() > given.most:
            break
        found.append(measure(seed, given))
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(found[-1]))
        print(f"seed {seed}: {found[-1]['seconds']:.0f} CPU-s", flush=True)
    if found:
        show(found)


if __name__ == "__main__":
    main()
