"""One small report of every kind, with names that would run as script if anything let them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import durometer as du
from durometer.core.spec import GateSpec
from durometer.report.page import comparison as compare
from durometer.report.page import ladder as rungs
from durometer.report.sweep import Sweep
from durometer.tables.feature import Feature

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


def linear(features: int, classes: int, seed: int = 0, scale: float = 1.0) -> torch.nn.Linear:
    g = torch.Generator().manual_seed(seed)
    net = torch.nn.Linear(features, classes)
    net.weight.data = scale * torch.randn(classes, features, generator=g)
    net.bias.data = -0.5 * net.weight.data.sum(1)  # every class somewhere in the unit cube
    return net


@cache
def table() -> du.Report:
    """Whole units and a relation that stops the attacker, among hostile names."""
    schema = du.Schema(
        [
            Feature("opened", "integer", 0, 20),
            Feature("total", "integer", 0, 20),
            Feature(HOSTILE, "real", 0, 1, unit="$"),
        ],
        ["opened <= total"],
        "accounts",
    )
    rng = np.random.default_rng(0)
    total = rng.integers(4, 16, 60)
    opened = (total * rng.uniform(0.2, 0.9, 60)).astype(int)
    x = np.stack([opened, total, rng.random(60)], 1).astype(np.float64)
    net = torch.nn.Linear(3, 2).double()
    net.weight.data = torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 3.0]]).double()
    net.bias.data = torch.tensor([11.0, -9.0]).double()
    y = net(torch.tensor(x)).argmax(1)
    data = du.Dataset(x, y, schema=schema, classes=("refuse", HOSTILE), name=HOSTILE)
    space = schema.space(eps=0.4, p=2)
    return du.evaluate(net, data.where(y=0), space=space, attack=du.MOEVA(generations=30))


@cache
def images(seed: int = 0) -> du.Report:
    x = torch.rand(70, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    net = torch.nn.Sequential(torch.nn.Flatten(), linear(64, 3, 0, 0.5))
    y = net(x).argmax(1).detach()
    y[:5] = 0
    data = du.Dataset(x, y, classes=("cat", "dog", HOSTILE), name="pictures")
    attack = du.Then(du.PGD(3), du.APGD(10))
    return du.evaluate(net, data, space=du.Linf(0.03 + 0.01 * seed), attack=attack, seed=seed)


@cache
def groups() -> du.Report:
    net, data = _signs()
    goal = du.Group({"stop": ["go", HOSTILE], "yield": ["go"]})
    return du.evaluate(net, data, space=du.Linf(0.06), goal=goal, attack=du.APGD(10))


@cache
def quota() -> du.Report:
    net, data = _signs()
    goal = du.Quota(k=2, sources=("stop", "yield"), targets=("go", HOSTILE))
    return du.evaluate(
        net, data, space=du.Linf(0.1), goal=goal, attack=du.Campaign(du.APGD(10))
    )  # fmt: skip


@cache
def long() -> du.Report:
    """More rows than are drawn, proven and open ones among them, in steps of a pixel."""
    x = torch.rand(700, 6, generator=torch.Generator().manual_seed(6))
    g = torch.Generator().manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=g)
    net[2].bias.data -= net(x).detach().median(0).values
    y = net(x).argmax(1).detach()
    y[:9] = 1 - y[:9]  # wrong before any attack
    data = du.Dataset(x, y, classes=("no", HOSTILE), ids=[f"r{i}" for i in range(700)])
    return du.evaluate(net, data, space=du.Linf(8 / 255), attack=du.Then(du.Bounds(), du.PGD(8)))


def _signs() -> tuple[torch.nn.Module, du.Dataset]:
    x = torch.rand(60, 12, generator=torch.Generator().manual_seed(2))
    net = linear(12, 4, 3)
    y = net(x).argmax(1).detach()
    return net, du.Dataset(x, y, classes=("stop", "yield", "go", HOSTILE), name="signs")


@cache
def nature() -> du.Report:
    x = torch.rand(50, 4, generator=torch.Generator().manual_seed(4))
    net = linear(4, 2, 5)
    data = du.Dataset(x, net(x).argmax(1).detach(), classes=("no", HOSTILE), name="measured")
    return du.evaluate(du.Nature(net, du.Normal(sd=0.1), tolerance=0.05, draws=2000), data)


@dataclass(frozen=True, eq=False)
class Shaky:
    """A defender whose border is at a random place."""

    stateful: bool = False

    def start(self) -> None:
        return None

    def base(self, state: None) -> Any:
        return du.wrap(self._net(0.0))

    def adapt(self, state: None, x: torch.Tensor, seed: int) -> tuple[Any, None]:
        at = torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
        return du.wrap(self._net(at - 0.5)), None

    def _net(self, shift: float) -> torch.nn.Linear:
        net = torch.nn.Linear(2, 2)
        net.weight.data = torch.tensor([[-5.0, 0.0], [5.0, 0.0]])
        net.bias.data = torch.tensor([2.5 + shift, -2.5 - shift])
        return net.eval()


@cache
def moving() -> Any:
    """The ladder of a defence."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(40, 2, generator=g)
    data = du.Dataset(x, (x[:, 0] > 0.5).long(), classes=("left", HOSTILE), name="plane")
    game = du.Transductive(Shaky(), batch=20, runs=2)
    attack = du.GMSA(du.PGD(5), iterations=2)
    return du.ladder(game, data, space=du.Linf(0.1), attacks=[attack])


@cache
def sweep() -> Sweep:
    reports = {f"eps={0.03 + 0.01 * k:g}": images(k) for k in range(3)}
    settings = {n: {"space.eps": round(0.03 + 0.01 * k, 2)} for k, n in enumerate(reports)}
    numbers = {"space.eps": {str(v["space.eps"]): v["space.eps"] for v in settings.values()}}
    return Sweep(settings, reports, numbers, {HOSTILE: HOSTILE})


def with_evidence(folder: Path, told: dict[str, str]) -> dict[str, tuple[du.Report, Path]]:
    """A saved run of every kind, its scope told and a bound fixed beforehand where one can be."""
    runs = {
        "images": images(), "table": table(), "nature": nature(), "groups": groups(),
        "moving": moving().reports["transfer"], "quota": quota(),
    }  # fmt: skip
    made = {}
    for name, report in runs.items():
        gate = None if name == "quota" else GateSpec(("robust >= 0.2",), 0.05)
        report = replace(report, spec=replace(report.spec, evidence=told, gate=gate))
        made[name] = report, report.save(folder / name)
    return made


def drawn(evidence: Any) -> str:
    from durometer.report.page.evidence import page

    return page(evidence)


def write_all(folder: Path) -> dict[str, Path]:
    """Every kind of page, as files."""
    made = {
        "table": table().html(),
        "images": images().html(),
        "groups": groups().html(),
        "quota": quota().html(),
        "long": long().html(),
        "nature": nature().html(),
        "moving": moving().reports["transfer"].html(),
        "ladder": rungs.page(moving().reports, moving().flags),
        "sweep": sweep().html(),
        "compare": compare.page(images(0), images(2), ("weak", HOSTILE)),
    }
    files = {}
    for name, text in made.items():
        files[name] = folder / f"{name}.html"
        files[name].write_text(text, encoding="utf-8")
    return files
