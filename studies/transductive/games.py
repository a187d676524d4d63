"""The six settings of the transductive study: lines by name, each computed only when asked for.

A setting gives {line: function that plays it}; what lines share (networks, D', adversarial copies)
is made at most once, and not at all if every line is known already. `quick`: the same on toy sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from torch import nn

import durometer as du
from durometer import architectures, defenses
from durometer.architectures.domain import Shift
from durometer.training.adversarial import Adversarial, CraftBy
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard

EPS = du.Linf(0.3)
STEP = 1 / 15  # steps of 0.02 for eps = 0.3: half as many as the paper's, twice as long

Line = Callable[[], du.Report]
Lines = dict[str, Line]


def trained(build: Callable[[], nn.Module], data: du.Dataset, seed: int, **how: Any) -> nn.Module:
    net = fresh(build, seed)
    fit(net, data, how.pop("recipe", Standard()), seed=seed, progress=False, **how)
    return net


def mnist(train: int, test: int, seed: int) -> tuple[du.Dataset, du.Dataset]:
    parts = du.datasets.mnist()
    return parts.train.sample(train, seed), parts.test.sample(test, seed)


def line(target: Callable[[], Any], data: du.Dataset, space: Any, attack: Any, seed: int) -> Line:
    return lambda: du.evaluate(
        target(), data, space=space, attack=attack, seed=seed, progress=False
    )


def attacks(inner: Any, iterations: int, **more: Any) -> list[du.GMSA]:
    return [
        du.Transfer(inner),
        du.FPA(inner, iterations, **more),
        du.GMSA(inner, "avg", iterations, **more),
        du.GMSA(inner, "min", iterations, **more),
    ]


def rmc(seed: int, quick: bool) -> Lines:
    """One test point per round; D' is half adversarial."""
    train, test = mnist(300 if quick else 3000, 2 if quick else 20, seed)
    inner = du.PGD(4 if quick else 20, step=0.1)

    @cache
    def net() -> nn.Module:
        build = lambda: architectures.SmallCNN(10, channels=1, width=8)  # noqa: E731
        return trained(build, train, seed, epochs=1 if quick else 8)

    @cache
    def game() -> du.Transductive:
        epochs = 2 if quick else 20
        defender = defenses.RMC(net(), train, EPS, inner, k=64, rate=5e-4, epochs=epochs)
        return du.Transductive(defender, batch=1)

    tried = attacks(inner, 1 if quick else 4)[:3]
    return {"static": line(net, test, EPS, inner, seed)} | {
        a.name: line(game, test, EPS, a, seed) for a in tried
    }


def dann(seed: int, quick: bool) -> Lines:
    """One round: all test points at once, a network from scratch."""
    train, test = mnist(300 if quick else 4000, 16 if quick else 128, seed)
    inner = du.PGD(4 if quick else 30, step=0.1)

    def build() -> nn.Module:
        # Strided and without dropout: as cheap a network as attacks still carry over between.
        encoder = (
            *(nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.BatchNorm2d(12), nn.ReLU()),
            *(nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU()),
            nn.Flatten(),
        )
        classes = (nn.Linear(1176, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
        domains = (nn.Linear(1176, 64), nn.ReLU(), nn.Linear(64, 2))
        return architectures.Domain(*(nn.Sequential(*p) for p in (encoder, classes, domains)))

    @cache
    def net() -> nn.Module:
        return trained(build, train, seed, epochs=1 if quick else 5)

    @cache
    def game() -> du.Transductive:
        length = 5 if quick else 250
        defender = defenses.DANN(build, train, net(), iterations=length, batch=64)
        return du.Transductive(defender, batch=128, probe=False)

    def control() -> du.Transductive:
        defender = defenses.Control(build, train, epochs=1 if quick else 5, batch=64)
        return du.Transductive(defender, batch=128, probe=False)

    tried = attacks(inner, 1 if quick else 4)
    tried[-1] = replace(tried[-1], warm=2 if quick else 20)  # MIN takes (i + 1) times the steps
    return {
        "static": line(net, test, EPS, inner, seed),
        **{a.name: line(game, test, EPS, a, seed) for a in tried},
        "public randomness": line(
            lambda: replace(game(), information="seed"),
            test,
            EPS,
            replace(tried[2], iterations=2),
            seed,
        ),
        "control, transfer": line(control, test, EPS, tried[0], seed),
    }


def tadv(seed: int, quick: bool) -> Lines:
    """Adversarial retraining with private randomness; all networks are shared by the attacks.

    A perceptron and eps = 0.1: the networks must be trained well enough to be alike. Convolutions
    at 0.2 and 0.3 are not within this budget, and then it is their differences that defend.
    """
    train, test = mnist(200 if quick else 3000, 16 if quick else 128, seed)
    space = du.Linf(0.1)
    inner = du.PGD(4 if quick else 40, step=STEP)

    def build() -> nn.Module:
        return nn.Sequential(
            *(nn.Flatten(), nn.Linear(784, 128), nn.ReLU()),
            *(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
        )

    how = {"epochs": 1 if quick else 8, "batch": 64, "rate": 2e-3, "seed": seed}
    defender = defenses.TADV(build, train, space, du.PGD(4, step=0.4), **how)
    game = du.Transductive(defender, batch=128, probe=False)
    tried = attacks(inner, 1 if quick else 3, warm=2 if quick else 20)
    return {
        "static": line(lambda: defender.train(seed).module, test, space, inner, seed),
        **{a.name: line(lambda: game, test, space, a, seed) for a in tried},
        "public randomness": line(
            lambda: replace(game, information="seed"), test, space, tried[2], seed
        ),
    }


def dent(seed: int, quick: bool) -> Lines:
    """Affine parameters per row; the high-confidence attack with 14 sub-routines."""
    train, test = mnist(200 if quick else 2000, 16 if quick else 128, seed)
    space = du.Linf(0.2)
    recipe = Adversarial(CraftBy(du.PGD(4, step=0.4), space))
    long, short = (4, 2) if quick else (40, 20)
    strong = du.Then(du.APGD(long, loss="ce"), du.Guess(du.APGD(short, loss="dlr"), most=5))
    inner = du.Confident(du.PGD(2 if quick else 15, step=1 / 6))

    @cache
    def net() -> nn.Module:
        build = lambda: architectures.SmallCNN(10, channels=1, width=8)  # noqa: E731
        epochs = 1 if quick else 10
        return trained(build, train, seed, epochs=epochs, rate=2e-3, batch=64, recipe=recipe)

    @cache
    def game() -> du.Transductive:
        return du.Transductive(defenses.DENT(net()), batch=128)

    tried = attacks(inner, 1, fallback="clean")
    return {
        "static": line(net, test, space, strong, seed),
        "static, confident": line(net, test, space, inner, seed),
        "APGD ensemble, transferred": line(game, test, space, strong, seed),
        **{a.name: line(game, test, space, a, seed) for a in tried},
        "sorted, transfer": line(
            lambda: replace(game(), batch=64, order="sorted"), test, space, tried[0], seed
        ),
    }


def url(seed: int, quick: bool) -> Lines:
    """A constrained table: phishers change their rows, the others in the batch stay as they are."""
    parts = du.datasets.url()
    train = parts.train.sample(300 if quick else 3000, seed)
    test = parts.test.sample(24 if quick else 200, seed)
    mean, deviation = train.x.mean(0).float(), train.x.std(0).clamp_min(1e-3).float()
    space = test.schema.space(eps=0.5, p=2)
    phish = (test.y == 1).numpy()
    rules = {"batch": len(test), "controlled": phish, "scored": phish, "probe": False}
    rules["runs"] = 1 if quick else 3
    lone, few = test.where(y=1), test.take(np.flatnonzero(phish)[: 2 if quick else 30])
    train32 = du.Dataset(train.x.float(), train.y)
    inner, rounds = du.CAPGD(2 if quick else 10), 1 if quick else 3

    def plain() -> nn.Module:
        return nn.Sequential(
            Shift(mean, deviation),
            *(nn.Linear(len(mean), 32), nn.BatchNorm1d(32), nn.ReLU()),
            *(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()),
            nn.Linear(32, 2),
        )

    @cache
    def net() -> nn.Module:
        return trained(plain, train32, seed, epochs=1 if quick else 10)

    @cache
    def near() -> du.Transductive:
        epochs = 2 if quick else 40
        defender = defenses.RMC(net(), train, space, du.CAPGD(5), k=128, rate=1e-3, epochs=epochs)
        return du.Transductive(defender, batch=1)

    @cache
    def alike() -> du.Transductive:
        build = lambda: architectures.domain_mlp(mean, deviation, width=32)  # noqa: E731
        length, epochs = (5, 1) if quick else (300, 8)
        defender = defenses.DANN(build, train32, iterations=length, epochs=epochs, seed=seed)
        return du.Transductive(defender, **rules)

    @cache
    def robust() -> du.Transductive:
        epochs = 1 if quick else 4
        defender = defenses.TADV(
            plain, train, space, du.APGD(3), epochs=epochs, rate=2e-3, seed=seed
        )
        return du.Transductive(defender, **rules)

    return {
        "static": line(net, lone, space, inner, seed),
        **{f"RMC {a.name}": line(near, few, space, a, seed) for a in attacks(inner, rounds)[:3]},
        "DANN static": line(lambda: alike().defender.start(), lone, space, inner, seed),
        **{
            f"DANN {a.name}": line(alike, test, space, a, seed)
            for a in attacks(inner, rounds, simulations=1 if quick else 3)
        },
        "TADV static": line(lambda: robust().defender.train(seed).module, lone, space, inner, seed),
        **{f"TADV {a.name}": line(robust, test, space, a, seed) for a in attacks(inner, rounds)},
    }
