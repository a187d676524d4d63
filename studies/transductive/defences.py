"""The ladder for thirteen test-time defences on MNIST's and CIFAR-10's samples, three seeds each.

    python studies/transductive/defences.py --out runs/defences [--most 250]   goes on where it was
    python studies/transductive/defences.py --smoke

One small network with BatchNorm per data set and seed, by adversarial training; every defence gets
the same. Rungs: nobody attacks, the static attack transferred, FPA, GMSA-AVG, and GMSA refined
by the gradient through the adaptation (`Unrolled`). Defenders that draw are played three times by
the referee and rehearsed three times per candidate; for the others three moves would be the same
one. A cell (data, seed, defence) is a file; the time is CPU seconds of one thread.

EATA, SAR, CoTTA, MEMO, LAME, T3A and RoTTA are the minimal modules of tests/toys/modules.py, each
written from its paper and wrapped unchanged by `Adapting`; the others are the library's. What a
reader would get wrong: the figure of a defence is its lowest rung, and it is an upper bound. That
it lies above the static one says that nothing here broke it, not that nothing can.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import durometer as du
from durometer.defenses import DENT, RMC, TENT, Adapting, MedBN, Norm, Purify
from durometer.report.stats import bootstrap
from durometer.training import accuracy, fit, fresh
from durometer.training.adversarial import Adversarial, CraftBy

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.toys import modules

EPS = {"mnist": 0.2, "cifar10": 4 / 255}
RUNGS = ("clean", "transfer", "FPA", "GMSA", "GMSA + Unrolled")
SINGLE = ("RMC",)  # adapts to one row at a time, as published
LATE = ("CoTTA", "RoTTA")  # may draw only after the first answer, which is all the probe sees


def build(channels: int) -> nn.Module:
    """A chain of layers, so that LAME and T3A find the features before the last one."""
    layers, before = [], channels
    for width in (8, 16, 32):
        layers += [nn.Conv2d(before, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 16, 10))


def network(name: str, seed: int, given: argparse.Namespace) -> tuple[nn.Module, du.Dataset]:
    """The network of a seed, trained once and kept."""
    parts = getattr(du.datasets, name)()
    train = parts.train.sample(min(given.train, len(parts.train)), seed)
    net = fresh(lambda: build(train.x.shape[1]), seed)
    file = given.out and given.out / f"{name}-{seed}.pt"
    if file and file.exists():
        net.load_state_dict(torch.load(file, weights_only=True))
        return net.eval(), train
    craft = CraftBy(du.PGD(3, step=0.5), du.Linf(EPS[name]))
    fit(net, train, Adversarial(craft), epochs=given.epochs, rate=3e-3, batch=64, seed=seed,
        progress=False)  # fmt: skip
    if file:
        torch.save(net.state_dict(), file)
    return net.eval(), train


def fishers(net, train):
    """EATA's: squared gradients of the likelihood, row by row on a few training images."""
    found = {n: torch.zeros_like(p) for n, p in net.named_parameters()}
    for x, y in zip(train.x[:32], train.y[:32], strict=True):
        net.zero_grad()
        nn.functional.cross_entropy(net(x[None]), y[None]).backward()
        for n, p in net.named_parameters():
            found[n] += p.grad.detach() ** 2 / 32
    net.zero_grad()
    return found


DEFENCES = {
    "Norm": lambda net, train, space: Norm(net),
    "MedBN": lambda net, train, space: MedBN(net),
    "TENT": lambda net, train, space: TENT(net),
    "DENT": lambda net, train, space: DENT(net),
    "EATA": lambda net, train, space: Adapting(modules.EATA(net, fishers(net, train))),
    "SAR": lambda net, train, space: Adapting(modules.SharpTent(net)),
    "CoTTA": lambda net, train, space: Adapting(modules.CoTTA(net), network="teacher"),
    "RoTTA": lambda net, train, space: Adapting(modules.RoTTA(net), network="teacher"),
    "LAME": lambda net, train, space: Adapting(modules.LAME(net)),
    "T3A": lambda net, train, space: Adapting(modules.T3A(net)),
    "MEMO": lambda net, train, space: Adapting(modules.MEMO(net)),
    "Purify": lambda net, train, space: Purify(net, noise=space.eps),
    "RMC": lambda net, train, space: RMC(
        net, train.head(400), space, du.PGD(5), k=32, epochs=5, calibrate=False
    ),
}


def attacks(steps: int) -> dict[str, object]:
    inner = du.APGD(steps)
    rehearsed = du.GMSA(inner, "avg", 2)
    return {
        "clean": None,
        "transfer": du.Transfer(inner),
        "FPA": du.FPA(inner, 2),
        "GMSA": rehearsed,
        "GMSA + Unrolled": du.Then(rehearsed, du.Unrolled(du.PGD(steps, step=0.1, start="best"))),
    }


def cell(name: str, seed: int, defence: str, given: argparse.Namespace) -> dict[str, object]:
    net, train = network(name, seed, given)
    data = getattr(du.datasets, name)().test.sample(given.rows, seed)
    space = du.Linf(EPS[name])
    how = {"space": space, "seed": seed, "progress": False}
    if defence == "static":
        began = time.process_time()
        report = du.evaluate(net, data, attack=du.Standard(proofs=False), **how)
        took = time.process_time() - began
        held = (~report.table["success"]).astype(int).tolist()
        right = (report.table["clean"] == report.table["y"]).astype(int).tolist()
        common = {"ids": [str(i) for i in report.table["id"]], "run": [0] * len(held)}
        return {
            "static": {"held": held, "seconds": took, **common},
            "static, clean": {"held": right, "seconds": 0.0, **common},
            "accuracy": accuracy(net, getattr(du.datasets, name)().test),
        }
    if defence in SINGLE:
        data = data.head(given.single)
    defender = DEFENCES[defence](net, train, space)
    game = du.Transductive(defender, batch=1 if defence in SINGLE else given.batch)
    game, facts = game.prepare(data, space, du.Untargeted(), None)
    game = replace(game, probe=False, runs=3 if facts.random or defence in LATE else 1)
    found: dict[str, object] = {"random": bool(facts.random)}
    for rung, attack in attacks(given.steps).items():
        began = time.process_time()
        report = du.evaluate(game, data, attack=attack, **how)
        table = report.table
        found[rung] = {
            "held": (~table["success"]).astype(int).tolist(),
            "ids": [str(i) for i in table["id"]],
            "run": table["run"].tolist(),
            "seconds": time.process_time() - began,
        }
    return found


def pooled(cells: list[dict], rung: str):
    """All rows of a rung over seeds: held, id, and which network and move."""
    held = np.concatenate([np.array(c[rung]["held"], float) for c in cells])
    ids = np.concatenate([np.array(c[rung]["ids"]) for c in cells])
    move = np.concatenate([10 * k + np.array(c[rung]["run"]) for k, c in enumerate(cells)])
    return held, ids, move


def said(cells: list[dict], rung: str) -> str:
    held, ids, move = pooled(cells, rung)
    e = bootstrap(held, ids, second=move)
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def gain(cells: list[dict], static: list[dict], rung: str) -> str:
    """A rung minus the static figure, paired by row."""
    held, ids, move = pooled(cells, rung)
    base = [dict(zip(s["static"]["ids"], s["static"]["held"], strict=True)) for s in static]
    before = np.array([base[m // 10][i] for i, m in zip(ids, move, strict=True)], float)
    e = bootstrap(held - before, ids, second=move)
    return f"{e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"


def show(found: dict[tuple[str, int, str], dict], seeds: int) -> None:
    for name in EPS:
        static = [found[name, s, "static"] for s in range(seeds) if (name, s, "static") in found]
        if len(static) < seeds:
            continue
        accuracies = " ".join(f"{s['accuracy']:.3f}" for s in static)
        before = f"static {said(static, 'static')}, clean {said(static, 'static, clean')}"
        print(f"\n{name}, Linf {EPS[name]:.4g}, {seeds} networks (test accuracy {accuracies}); "
              f"{before}")  # fmt: skip
        print("| defence | rows x moves | clean | transfer | FPA | GMSA | + Unrolled | "
              "lowest rung | its CPU-s | lowest - static, paired |\n|" + "---|" * 10)  # fmt: skip
        for defence in DEFENCES:
            cells = [found.get((name, s, defence)) for s in range(seeds)]
            if None in cells:
                continue
            mean = {r: pooled(cells, r)[0].mean() for r in RUNGS}
            lowest = min(RUNGS[1:], key=lambda r: mean[r])
            price = sum(c[lowest]["seconds"] for c in cells) / len(cells)
            rest = " | ".join(f"{mean[r]:.3f}" for r in RUNGS)
            drawn, n = " (random)" * cells[0]["random"], len(pooled(cells, "clean")[0])
            print(f"| {defence}{drawn} | {n} | {rest} | {lowest}: {said(cells, lowest)} | "
                  f"{price:.1f} | {gain(cells, static, lowest)} |")  # fmt: skip
    spent = sum(v["seconds"] for c in found.values() for v in c.values() if isinstance(v, dict))
    print(f"{len(found)} cells, {spent:.0f} CPU-s without training", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--data", nargs="*", default=list(EPS))
    options.add_argument("--defences", nargs="*", default=list(DEFENCES))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--train", type=int, default=1200)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--rows", type=int, default=40)
    options.add_argument("--single", type=int, default=10, help="rows where each is a round")
    options.add_argument("--batch", type=int, default=20)
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.data, given.seeds, given.train, given.epochs = ["mnist"], 1, 64, 1
        given.rows, given.batch, given.steps, given.single = 8, 4, 2, 1
    torch.set_num_threads(1)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, int, str], dict] = {}
    for defence in ("static", *given.defences):
        for name in given.data:
            for seed in range(given.seeds):
                file = given.out and given.out / f"{name}-{seed}-{defence}.json"
                if file and file.exists():
                    found[name, seed, defence] = json.loads(file.read_text())
                    continue
                if time.process_time() > given.most:
                    continue
                began = time.process_time()
                found[name, seed, defence] = cell(name, seed, defence, given)
                if file:
                    file.write_text(json.dumps(found[name, seed, defence]))
                print(f"{name} {seed} {defence}: {time.process_time() - began:.0f} CPU-s",
                      flush=True)  # fmt: skip
    show(found, given.seeds)


if __name__ == "__main__":
    main()
