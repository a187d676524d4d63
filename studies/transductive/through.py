"""Gradients through the adaptation, and poison, measured on MNIST's sample.

    python studies/transductive/through.py --out runs/through [--most 250]   goes on where it was
    python studies/transductive/through.py --smoke

unrolled   DENT and TENT: GMSA, GMSA refined by `Unrolled`, and GMSA with as many more iterations
           as the refinement's CPU time buys, rounded up; paired by row.
poison     Norm, TENT and MedBN: a quarter of each batch is the attacker's; accuracy of the others'
           rows under `Poison`, under random changes of the same rows, and with nobody attacking.

One small network with BatchNorm per seed, by adversarial training. Steps and step rule of
`Unrolled` were chosen on the network of seed 10, which is not among those reported. Times are CPU
seconds of one thread, of the whole evaluation.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.architectures import SmallCNN
from durometer.defenses import DENT, TENT, MedBN, Norm
from durometer.extend import Needs
from durometer.report.stats import bootstrap
from durometer.training import fit, fresh
from durometer.training.adversarial import Adversarial, CraftBy


class Shuffle:
    """The attacker's rows moved at random to a corner of what they may be."""

    needs = Needs()

    def __call__(self, problem):
        rows = problem.open
        region = problem.region(rows)
        size = region.origin.shape[1]
        step = region.eps * problem.random.sign(rows, size, region.origin.dtype)
        problem.submit(rows, region.project(region.origin + step))


def network(seed, given):
    train = du.datasets.mnist().train.sample(given.train, seed)
    net = fresh(lambda: SmallCNN(10, channels=1, width=8), seed)
    recipe = Adversarial(CraftBy(du.PGD(3, step=0.5), du.Linf(0.15)))
    fit(net, train, recipe, epochs=given.epochs, rate=3e-3, batch=64, seed=seed, progress=False)
    return net


def unrolled(net, seed, given):
    data, space = du.datasets.mnist().test.sample(given.rows, seed), du.Linf(given.eps)
    inner = du.APGD(given.steps)
    first = du.GMSA(inner, "avg", 2)
    refined = du.Then(first, du.Unrolled(du.APGD(given.through, start="best")))
    for name, defender in (("DENT", DENT(net)), ("TENT", TENT(net, episodic=True))):
        game = du.Transductive(defender, batch=64, probe=False)

        def line(attack, game=game):
            began = time.process_time()
            report = du.evaluate(game, data, space=space, attack=attack, seed=seed, progress=False)
            return {
                "held": (~report.table["success"]).astype(int).tolist(),
                "ids": report.table["id"].tolist(),
                "seconds": time.process_time() - began,
            }

        line(None)  # the game nobody attacks is played once, in nobody's time
        plain, more = line(first), line(refined)
        rounds = math.ceil(2 * more["seconds"] / plain["seconds"])
        yield f"{name} | GMSA", plain
        yield f"{name} | GMSA + Unrolled", more
        yield f"{name} | GMSA, as long", line(du.GMSA(inner, "avg", rounds)) | {"rounds": rounds}


def poison(net, seed, given):
    data = du.datasets.mnist().test.sample(given.rows, seed)
    mine = np.arange(len(data)) % 4 == 0
    rules = {"batch": 64, "probe": False, "controlled": mine, "scored": ~mine}
    for name, defender in (("Norm", Norm(net)), ("TENT", TENT(net)), ("MedBN", MedBN(net))):
        game = du.Transductive(defender, **rules)
        for eps in (0.15, 1.0):
            for line, attack in (
                ("Poison", du.Poison(du.APGD(given.steps))),
                ("random", Shuffle()),
            ):
                report = du.evaluate(game, data, space=du.Linf(eps), attack=attack, seed=seed,
                                     progress=False)  # fmt: skip
                others = report.table[~mine]
                yield (
                    f"{name} | {line} {eps}",
                    {
                        "right": (others["final"] == others["y"]).astype(int).tolist(),
                        "calm": (others["clean"] == others["y"]).astype(int).tolist(),
                        "ids": others["id"].tolist(),
                    },
                )


def show(found):
    def pooled(name, column):
        values = np.concatenate([np.array(f[name][column], float) for f in found])
        return values, np.concatenate([np.array(f[name]["ids"]) for f in found])

    if not found:
        return
    print(f"\n{len(found)} networks")
    for defence in ("DENT", "TENT") if "DENT | GMSA" in found[0] else ():
        held = {k: pooled(k, "held") for k in found[0] if k.startswith(f"{defence} | GMSA")}
        for name, (values, ids) in held.items():
            e = bootstrap(values, ids)
            cost = sum(f[name]["seconds"] for f in found)
            print(f"{name:26s} robust {e.value:.3f} [{e.low:.3f}, {e.high:.3f}]  n {len(values)}"
                  f"  {cost:.0f} CPU-s")  # fmt: skip
        refined, ids = held[f"{defence} | GMSA + Unrolled"]
        for other in ("GMSA", "GMSA, as long"):
            e = bootstrap(refined - held[f"{defence} | {other}"][0], ids)
            print(f"  refined - {other}: {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]")
    for name in found[0]:
        if "right" in found[0][name]:
            right, ids = pooled(name, "right")
            e, lost = bootstrap(right, ids), bootstrap(pooled(name, "calm")[0] - right, ids)
            print(f"{name:22s} others' rows right {e.value:.3f}, lost {lost.value:+.3f} "
                  f"[{lost.low:+.3f}, {lost.high:+.3f}]  n {len(right)}")  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--train", type=int, default=1500)
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--rows", type=int, default=128)
    options.add_argument("--eps", type=float, default=0.22, help="of the attacks on DENT and TENT")
    options.add_argument("--steps", type=int, default=25)
    options.add_argument("--through", type=int, default=10, help="steps of `Unrolled`")
    options.add_argument("--first", type=int, default=0, help="seed of the first network")
    options.add_argument("--parts", nargs="*", default=["unrolled", "poison"])
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    if given.smoke:
        given.seeds, given.train, given.epochs, given.rows, given.steps = 1, 100, 1, 16, 2
        given.through = 2
    torch.set_num_threads(1)
    for part in given.parts:
        found = []
        for seed in range(given.first, given.first + given.seeds):
            file = given.out and given.out / f"{part}-{seed}.json"
            if file and file.exists():
                found.append(json.loads(file.read_text()))
                continue
            if time.process_time() > given.most:
                break
            play = {"unrolled": unrolled, "poison": poison}[part]
            found.append(dict(play(network(seed, given), seed, given)))
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(found[-1]))
            print(f"{part} {seed}: {time.process_time():.0f} CPU-s so far", flush=True)
        show(found)


if __name__ == "__main__":
    main()
