"""Networks from both sides: what `Bounds` proves, what attacks break, what proving first saves.

Networks of two hidden layers (64, 32), trained here: standard, and adversarially (Madry: CAPGD of
5 steps in the table inside, half of each batch). Rows are as many of each class. `Standard()`
(certify, attack, certify what is left) stands against the same attack alone, in CPU seconds of one
thread; the last part attacks random valid points of proven rows.

    OMP_NUM_THREADS=1 python studies/proofs/networks.py [--smoke] [--part NAME] [--folder FOLDER]

Networks and finished lines are kept in the folder, so that a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch

import durometer as du
from durometer.training import Adversarial, CraftBy

# data, training eps (Linf; 0: standard training), seed
NETWORKS = {
    **{f"url, Madry .05, seed {s}": ("url", 0.05, s) for s in range(3)},
    "bank, Madry .05, seed 0": ("bank", 0.05, 0),
    **{f"url, standard, seed {s}": ("url", 0.0, s) for s in range(3)},
}
SPACES = {
    "Linf .02": (0.02, math.inf), "Linf .05": (0.05, math.inf), "Linf .1": (0.1, math.inf),
    "L2 .1": (0.1, 2.0), "L1 .2": (0.2, 1.0),
}  # fmt: skip
HEAD = (
    "| network | space | accuracy by class | at least | at most | gap, points | vacuous "
    "| same rows broken | CPU s: certify first, attack alone | ratio |"
)


def both_classes(data: du.Dataset, count: int) -> du.Dataset:
    """As many rows of each class, the first of a fixed shuffle."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    chosen = [order[data.y[order] == c][: count // 2] for c in (0, 1)]
    return data.take(torch.cat(chosen))


def balanced(data: du.Dataset, most: int) -> du.Dataset:
    """At most so many rows, as many of each class: a rare class must be worth learning."""
    fewer = int(torch.bincount(data.y).min())
    return both_classes(data, min(most, 2 * fewer))


def network(splits: Any, eps: float, seed: int, smoke: bool, folder: Path, name: str) -> Any:
    train = balanced(splits.train, 600 if smoke else 4000)
    net = du.architectures.MLP(train.schema, widths=(64, 32), seed=seed)
    kept = folder / f"{name.replace(' ', '_')}.pt"
    if kept.exists():
        net.load_state_dict(torch.load(kept, weights_only=True))
        return net.eval()
    began = time.process_time()
    if eps == 0:
        validation = (splits.val.x, splits.val.y)
        net.fit(train.x, train.y, validation=validation, epochs=1 if smoke else 30)
    else:
        inside = CraftBy(du.CAPGD(5, clean=False), train.schema.space(eps=eps, p=math.inf))
        net.fit(
            train.x, train.y, recipe=Adversarial(inside, 0.5, "balanced"), validation=None,
            epochs=1 if smoke else 8, batch=512, rate=3e-3,
        )  # fmt: skip
    print(f"{name}: trained in {time.process_time() - began:.0f} CPU s", flush=True)
    torch.save(net.state_dict(), kept)
    return net.eval()


def timed(net: Any, data: du.Dataset, space: Any, attack: Any) -> tuple[du.Report, float]:
    """The report and its CPU seconds; a few rows are played before: imports do not count."""
    du.evaluate(net, data.take(torch.arange(3)), space=space, attack=attack, progress=False)
    began = time.process_time()
    report = du.evaluate(net, data, space=space, attack=attack, progress=False)
    return report, time.process_time() - began


def line(name: str, title: str, net: Any, data: du.Dataset, space: Any) -> str:
    alone, attack = timed(net, data, space, du.Standard(proofs=False))
    first, certify = timed(net, data, space, du.Standard())
    clean = " ".join(f"{e.value:.3f}" for e in first.metric("clean", by="y").values())
    low, high = first.metric("proven").value, first.metric("robust").value
    same = first.table["success"].tolist() == alone.table["success"].tolist()
    more = int((first.table["success"] & ~alone.table["success"]).sum())
    return (
        f"| {name} | {title} | {clean} | {low:.3f} | {high:.3f} | {100 * (high - low):.1f} "
        f"| {int(first.table['vacuous'].sum())} | {'yes' if same else f'no ({more} more)'} "
        f"| {certify:.1f}, {attack:.1f} | {attack / certify:.1f} |"
    )


def attacked(net: Any, data: du.Dataset, space: Any, points: int) -> tuple[int, int, int]:
    """(proven rows, random valid points of them, how many of these points succeed)"""
    report = du.evaluate(net, data, space=space, attack=du.Bounds(), progress=False)
    rows = torch.from_numpy((report.table["verdict"] == "proven").to_numpy().nonzero()[0])
    region, stream = space.around(data.x), torch.Generator().manual_seed(0)
    asked = hits = 0
    while asked < points:
        of = rows[torch.randint(len(rows), (5000,), generator=stream)]
        part = region.take(of)
        step = torch.randn(part.origin.shape, generator=stream, dtype=part.origin.dtype)
        step = torch.where(torch.rand(len(of), 1, generator=stream) < 0.5, step.sign(), step)
        few = torch.rand(part.origin.shape, generator=stream) < torch.rand(
            len(of), 1, generator=stream
        )
        x = part.decode(part.project(part.origin + 2 * space.eps * step * few))
        valid = part.contains(x)
        with torch.no_grad():
            label = net(x[valid]).argmax(1)
        asked += int(valid.sum())
        hits += int((label != data.y[of[valid]]).sum())
    return len(rows), asked, hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--part", help="only networks whose name holds this")
    parser.add_argument("--spaces", nargs="*", choices=[*SPACES], default=[*SPACES])
    parser.add_argument("--folder", type=Path, default=Path("build/networks"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.folder / "smoke" if options.smoke else options.folder
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "lines.txt"
    known = done.read_text().splitlines() if done.exists() else []
    splits = {name: getattr(du.datasets, name)() for name in ("url", "bank")}
    print(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|")
    for name, (source, eps, seed) in NETWORKS.items():
        if options.part and options.part not in name:
            continue
        net = network(splits[source], eps, seed, options.smoke, folder, name)
        data = both_classes(splits[source].test, 30 if options.smoke else options.rows)
        for title in options.spaces:
            key = f"| {name} | {title} |"
            found = next((each for each in known if each.startswith(key)), None)
            if found is None:
                size, p = SPACES[title]
                found = line(name, title, net, data, data.schema.space(eps=size, p=p))
                with done.open("a") as out:
                    print(found, file=out)
            print(found, flush=True)
        if eps and seed == 0 and not any(each.startswith(f"{name}: ") for each in known):
            space = data.schema.space(eps=eps, p=math.inf)
            rows, asked, hits = attacked(net, data, space, 1000 if options.smoke else 25_000)
            with done.open("a") as out:
                said = f"{name}: {asked} valid points of {rows} proven rows, {hits} succeed"
                print(said, file=out)
                print(said, flush=True)


if __name__ == "__main__":
    main()
