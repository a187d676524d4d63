"""Test-time defences and the attacks that break them (Chen et al. 2022), at a size for two cores.

    python studies/transductive.py rmc dann tadv dent url urejectron --seeds 0 1 2

The paper's findings in kind: small networks, subsets of MNIST, URL and GTSRB (the package's own
samples), fewer iterations and steps. Each study prints one line per seed and attack; every figure
is the referee's, after the defender has moved with random numbers of its own.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

import assay as ay
from assay import architectures, defenses
from assay.architectures.domain import Shift
from assay.report.rounds import curve
from assay.training.adversarial import Adversarial, craft_by
from assay.training.loop import accuracy, fit, fresh
from assay.training.standard import Standard

EPS = ay.Linf(0.3)
STEP = 1 / 15  # steps of 0.02 for eps = 0.3: half as many as the paper's, twice as long

Row = tuple[str, ay.Report]


def attacks(inner: ay.PGD, iterations: int, **more: object) -> list[ay.GMSA]:
    return [
        ay.Transfer(inner),
        ay.FPA(inner, iterations, **more),
        ay.GMSA(inner, "avg", iterations, **more),
        ay.GMSA(inner, "min", iterations, **more),
    ]


def trained(
    build: Callable[[], nn.Module], data: ay.Dataset, seed: int, **how: object
) -> nn.Module:
    net = fresh(build, seed)
    fit(net, data, how.pop("recipe", Standard()), seed=seed, progress=False, **how)
    return net


def mnist(train: int, test: int, seed: int) -> tuple[ay.Dataset, ay.Dataset]:
    parts = ay.datasets.mnist()
    return parts.train.sample(train, seed), parts.test.sample(test, seed)


def static(net: nn.Module, data: ay.Dataset, space: object, attack: object, seed: int) -> Row:
    return "static", ay.evaluate(net, data, space=space, attack=attack, seed=seed, progress=False)


def played(game: ay.Transductive, data: ay.Dataset, space: object, tried: list, seed: int,
           **more: object) -> Iterator[Row]:  # fmt: skip
    for attack in tried:
        yield (
            attack.name,
            ay.evaluate(game, data, space=space, attack=attack, seed=seed, progress=False, **more),
        )


def public(game: ay.Transductive) -> ay.Transductive:
    return ay.Transductive(**{**vars(game), "information": "seed"})


def rmc(seed: int) -> Iterator[Row]:
    """One test point per round; D' is half adversarial."""
    train, test = mnist(4000, 20, seed)
    net = trained(lambda: architectures.SmallCNN(10, channels=1, width=8), train, seed, epochs=8)
    inner = ay.PGD(20, step=0.1)
    yield static(net, test, EPS, inner, seed)
    defender = defenses.RMC(net, train, EPS, inner, k=96, rate=5e-4, epochs=25)
    game = ay.Transductive(defender, batch=1)
    yield from played(game, test, EPS, attacks(inner, 3)[:3], seed)


def dann(seed: int) -> Iterator[Row]:
    """One round: all test points at once, a network from scratch."""
    train, test = mnist(4000, 128, seed)

    def build() -> nn.Module:
        return architectures.domain_lenet(width=8, depth=(0, 0, 0))

    net = trained(build, train, seed, epochs=4)
    inner = ay.PGD(30, step=STEP)
    yield static(net, test, EPS, inner, seed)
    defender = defenses.DANN(build, train, net, iterations=250, batch=64)
    game = ay.Transductive(defender, batch=128, probe=False)
    tried = attacks(inner, 4, warm=15)
    tried[0] = ay.Transfer(inner)
    yield from played(game, test, EPS, tried, seed)
    yield (
        "public randomness",
        ay.evaluate(public(game), test, space=EPS, attack=tried[-1], seed=seed, progress=False),
    )
    control = defenses.Control(build, train, epochs=5, batch=64)
    game = ay.Transductive(control, batch=128, probe=False)
    yield (
        "control, transfer",
        ay.evaluate(game, test, space=EPS, attack=tried[0], seed=seed, progress=False),
    )


def tadv(seed: int) -> Iterator[Row]:
    """Adversarial retraining with private randomness; all networks are shared by the attacks."""
    train, test = mnist(2000, 200, seed)
    defender = defenses.TADV(
        lambda: architectures.LeNet(width=8),
        train,
        EPS,
        ay.PGD(7, step=0.25),
        epochs=12,
        rate=2e-3,
        seed=seed,
    )
    inner = ay.PGD(40, step=STEP)
    yield static(defender.train(seed).module, test, EPS, inner, seed)
    game = ay.Transductive(defender, batch=200, probe=False)
    tried = [ay.Transfer(inner), *attacks(inner, 3, warm=20)[1:]]
    yield from played(game, test, EPS, tried, seed)
    yield (
        "public randomness",
        ay.evaluate(public(game), test, space=EPS, attack=tried[-2], seed=seed, progress=False),
    )


def dent(seed: int) -> Iterator[Row]:
    """Affine parameters per row; the high-confidence attack with 14 sub-routines."""
    train, test = mnist(2000, 128, seed)
    space = ay.Linf(0.2)
    recipe = Adversarial(craft_by(ay.PGD(7, step=0.25), space))
    net = trained(
        lambda: architectures.NormLeNet(width=8), train, seed, epochs=10, rate=2e-3, recipe=recipe
    )
    strong = ay.Then(ay.APGD(40, loss="ce"), ay.Guess(ay.APGD(20, loss="dlr"), most=5))
    yield static(net, test, space, strong, seed)
    inner = ay.Confident(ay.PGD(15, step=1 / 6))
    game = ay.Transductive(defenses.DENT(net), batch=128)
    yield (
        "APGD, transferred",
        ay.evaluate(game, test, space=space, attack=ay.APGD(40), seed=seed, progress=False),
    )
    tried = [ay.Transfer(inner), *attacks(inner, 1, fallback="clean")[1:]]
    yield from played(game, test, space, tried, seed)
    game = ay.Transductive(defenses.DENT(net), batch=64, order="sorted")
    yield (
        "sorted, transfer",
        ay.evaluate(game, test, space=space, attack=tried[0], seed=seed, progress=False),
    )


def url(seed: int) -> Iterator[Row]:
    """A constrained table: phishers change their rows, the others in the batch stay as they are."""
    parts = ay.datasets.url()
    train, test = parts.train.sample(3000, seed), parts.test.sample(200, seed)
    mean, deviation = train.x.mean(0).float(), train.x.std(0).clamp_min(1e-3).float()
    space = test.schema.space(eps=0.5, p=2)
    phish = (test.y == 1).numpy()
    inner = ay.CAPGD(10)

    def build() -> nn.Module:
        return architectures.domain_mlp(mean, deviation, width=32)

    def plain() -> nn.Module:
        return nn.Sequential(
            Shift(mean, deviation),
            *(nn.Linear(len(mean), 32), nn.BatchNorm1d(32), nn.ReLU()),
            *(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()),
            nn.Linear(32, 2),
        )

    rules = {"batch": 200, "controlled": phish, "scored": phish, "probe": False}
    train32 = ay.Dataset(train.x.float(), train.y)
    net = trained(plain, train32, seed, epochs=10)
    yield static(net, test.where(y=1), space, inner, seed)
    few = test.take(np.flatnonzero(phish)[:30])
    base = defenses.RMC(net, train, space, ay.CAPGD(5), k=128, rate=1e-3)
    game = ay.Transductive(base, batch=1)
    for name, report in played(game, few, space, attacks(inner, 3)[:3], seed):
        yield f"RMC {name}", report
    defender = defenses.DANN(build, train32, iterations=300, epochs=8, seed=seed)
    game = ay.Transductive(defender, runs=3, **rules)
    for name, report in played(game, test, space, attacks(inner, 3, simulations=3), seed):
        yield f"DANN {name}", report
    robust = defenses.TADV(plain, train, space, ay.APGD(3), epochs=4, rate=2e-3, seed=seed)
    yield "TADV static", static(robust.train(seed).module, test.where(y=1), space, inner, seed)[1]
    game = ay.Transductive(robust, runs=3, **rules)
    for name, report in played(game, test, space, attacks(inner, 3), seed):
        yield f"TADV {name}", report


def urejectron(seed: int) -> Iterator[Row]:
    """Figure 1: half of the batch is clean (z), half is PGD or CW; or z is a little brighter."""
    parts = ay.datasets.gtsrb()
    # As in the paper, frames of the same signs are on both sides: z must be like the training data.
    pool = both(parts.train, parts.val)
    test = pool.sample(600, seed)
    train = pool.take(~np.isin(pool.ids, test.ids))
    net = trained(lambda: architectures.SmallCNN(43, width=16), train, seed, epochs=15, rate=2e-3)
    print(f"  classifier: {accuracy(net, test):.3f} on {len(test)} clean test images")
    space = ay.Linf(8 / 255)
    pgd = ay.evaluate(
        net, test, space=space, attack=ay.PGD(40, step=1 / 8), seed=seed, progress=False
    )
    cw = ay.evaluate(net, test, space=ay.L2(3.0), attack=ay.CW(), seed=seed, progress=False)
    brighter = ay.Dataset(brightened(test.x), test.y, ids=test.ids)
    print(f"  under PGD {pgd.metric('robust')}, under CW {cw.metric('robust')}")
    print(f"  brightened: {accuracy(net, brighter):.3f}")
    for name, calm, bad in (
        ("PGD", test.x, pgd.adversarial),
        ("CW", test.x, cw.adversarial),
        ("PGD, z brightened", brighter.x, pgd.adversarial),
    ):
        mixed = ay.Dataset(
            torch.cat([calm, torch.as_tensor(bad)]),
            test.y.repeat(2),
            ids=np.concatenate([test.ids, np.char.add(test.ids.astype(str), "*")]),
        )
        controlled = np.arange(len(mixed)) >= len(test)
        defender = defenses.URejectron(
            net, lambda: architectures.SmallCNN(2, width=16), train, epochs=6
        )
        game = ay.Transductive(defender, batch=len(mixed), controlled=controlled, probe=False)
        report = ay.evaluate(
            game, mixed, attack=None, goal=ay.untargeted(reject=43), seed=seed, progress=False
        )
        line = curve(report, 101)
        doubt = 1 / (1 + np.exp(-report.table["doubt"].to_numpy()))
        odds = f"mean score clean {doubt[~controlled].mean():.2f}, "
        odds += f"attacked {doubt[controlled].mean():.2f}"
        at = {s: line.iloc[round(100 * s)] for s in (0.0, 0.25, 0.5, 0.75)}
        print(f"  {name}: {odds}")
        for share, row in at.items():
            print(
                f"    rejected {share:.2f} of the batch: error among accepted "
                f"{row['error_accepted']:.3f}, over all {row['error']:.3f}, "
                f"clean rejected {row['rejected_clean']:.3f}"
            )
        yield name, report


def both(one: ay.Dataset, two: ay.Dataset) -> ay.Dataset:
    return ay.Dataset(
        torch.cat([one.x, two.x]),
        torch.cat([one.y, two.y]),
        ids=np.concatenate([one.ids, two.ids]),
    )


def brightened(x: torch.Tensor) -> torch.Tensor:
    """HSV value + 0.05, then bytes and back: scaling a colour scales its value alone."""
    value = x.amax(1, keepdim=True)
    scaled = torch.where(
        value > 0, x * (value + 0.05).clamp_max(1) / value.clamp_min(1e-6), x + 0.05
    )
    return (scaled.clamp(0, 1) * 255).round() / 255


STUDIES = {f.__name__: f for f in (rmc, dann, tadv, dent, url, urejectron)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("studies", nargs="*", default=list(STUDIES), metavar="STUDY")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    for name in asked.studies or STUDIES:
        found: dict[str, list[float]] = {}
        for seed in asked.seeds:
            began, cpu = time.perf_counter(), time.process_time()
            print(f"{name}, seed {seed}", flush=True)
            for label, report in STUDIES[name](seed):
                clean, robust = report.metric("clean"), report.metric("robust")
                spent = time.process_time() - cpu
                found.setdefault(label, []).append(robust.value)
                print(
                    f"  {label:<20} clean {clean.value:.3f}  robust {robust}  cpu {spent:.0f} s",
                    flush=True,
                )
                for flag in report.flags:
                    print(f"    {flag.level} [{flag.id}] {flag.text}")
            print(f"  {time.perf_counter() - began:.0f} s wall", flush=True)
        if len(asked.seeds) > 1:
            for label, values in found.items():
                spread = np.std(values, ddof=1) / math.sqrt(len(values))
                print(f"{name}: {label:<20} {np.mean(values):.3f} +- {spread:.3f} (standard error)")


if __name__ == "__main__":
    main()
