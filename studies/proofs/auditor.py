"""The auditor against faults on purpose: which runs with false proofs does it catch, at what price?

    OMP_NUM_THREADS=1 python studies/proofs/auditor.py [--smoke]        # some CPU-minutes

Twenty-one faults are put into the proof code, one at a time: bounds that are too narrow, a bias or
a rival forgotten, parts called done that are not, a region too small. Each is played on several
models. A run counts where the fault made at least one false proof, by a search that is a hundred
times the auditor's (networks) or by the verdict of the code without the fault (trees, linear
models, enumeration, texts). It is caught where the report withdraws its proofs.

The price is the CPU time of the auditor as a share of the run without it, on code without faults.

What a reader would get wrong: a fault that makes no false proof on these models is not counted for
or against the auditor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

import durometer as du
from durometer.games import static
from durometer.proofs import enumerate as enumeration
from durometer.proofs import linear, networks, trees
from durometer.proofs.aten.affine import Linear as Layer
from durometer.proofs.aten.curves import Hinge, Smooth
from durometer.proofs.aten.maxima import Maximum
from durometer.proofs.aten.program import Affine
from durometer.proofs.bounds.crown import Network
from durometer.proofs.text import bag
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class Case:
    """One run: a model, rows, a space and the proof that is played."""

    model: Any
    data: du.Dataset
    space: Any
    attack: Any

    def play(self) -> du.Report:
        return du.evaluate(self.model, self.data, space=self.space, attack=self.attack)


def network(seed: int, curve: Callable[[], nn.Module] = nn.ReLU, pool: bool = False) -> Case:
    torch.manual_seed(seed)
    middle = [nn.Unflatten(1, (1, 12)), nn.MaxPool1d(2), nn.Flatten()] if pool else []
    net = nn.Sequential(
        nn.Linear(4, 12), curve(), *middle, nn.Linear(6 if pool else 12, 12), curve(),
        nn.Linear(12, 3),
    )  # fmt: skip
    x = torch.rand(60, 4)
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight *= 2.0
        net[-1].bias -= net(x).mean(0)
    net.eval()
    quick = du.Bounds(alpha=5, splits=32)
    return Case(net, du.Dataset(x, net(x).argmax(1)), du.Linf(0.08), quick)


def tabular(seed: int) -> tuple[np.ndarray, np.ndarray, Schema]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, (260, 4)).astype(float)
    x[:, 3] = x[:, 0] + rng.integers(0, 4, len(x))
    y = (x[:, 0] + x[:, 1] * rng.random(len(x)) > 6).astype(int)
    features = [Feature(f"v{i}", "integer", 0, 12) for i in range(4)]
    return x, y, Schema(features, ["v0 <= v3"])


def forest(seed: int) -> Case:
    x, y, schema = tabular(seed)
    model = RandomForestClassifier(9, max_depth=5, random_state=seed).fit(x[60:], y[60:])
    data = du.Dataset(x[:60], model.predict(x[:60]), schema=schema)
    return Case(model, data, schema.space(eps=0.2, p=np.inf), du.Exact())


def plane(seed: int, table: bool = False) -> Case:
    x, y, schema = tabular(seed)
    model = LogisticRegression().fit(x[60:], y[60:])
    if not table:
        data, space = du.Dataset(x[:60] / 12, model.predict(x[:60])), du.L2(0.1)
        model.coef_ = model.coef_ * 12
        return Case(model, data, space, du.Linear())
    data = du.Dataset(x[:60], model.predict(x[:60]), schema=schema)
    return Case(model, data, schema.space(eps=0.2, p=np.inf), du.Linear())


def listed(seed: int) -> Case:
    return replace(forest(seed), attack=du.Enumerate())


def words(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    every = [f"w{k}" for k in range(30)]
    texts = [" ".join(rng.choice(every, 7)) for _ in range(200)]
    worth = rng.normal(size=30)
    y = [int(sum(worth[int(w[1:])] for w in t.split()) > 0) for t in texts]
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, y)
    others = {w: tuple(rng.choice(every, 2)) for w in every}
    space = du.Text(du.Synonyms(others), most=0.3)
    return Case(model, du.Dataset(texts[:60], model.predict(texts[:60])), space, du.Linear())


Fault = Callable[[], Any]


def wrapped(where: Any, name: str, change: Callable[..., Any]) -> Fault:
    """Replace `where.name` by `change(original, *arguments)`."""
    own = getattr(where, name)

    def fault(*args: Any, **named: Any) -> Any:
        return change(own, *args, **named)

    return lambda: patch.object(where, name, fault)


def _halved(own: Any, region: Any, *rest: Any, **named: Any) -> Any:
    held = own(region, *rest, **named)
    low, high = held.centre + 0.5 * (held.low - held.centre), held.centre
    return replace(held, low=low, high=high + 0.5 * (held.high - held.centre))


def _line(own: Any, self: Any, low: Tensor, high: Tensor, **change: Any) -> Any:
    line = own(self, low, high)
    return replace(line, **{k: f(line) for k, f in change.items()})


def _some_called_done(own: Any, *args: Any, **named: Any) -> Any:
    found = own(*args, **named)
    wrong = found.broken & (np.arange(len(found.broken)) % 3 == 0)
    return replace(found, proven=found.proven | wrong, broken=found.broken & ~wrong)


def _smaller_box(own: Any, region: Any, *rest: Any) -> Any:
    box = own(region, *rest)
    middle = box.x0
    return replace(
        box,
        low=np.ceil(middle + 0.5 * (box.low - middle)),
        high=np.floor(middle + 0.5 * (box.high - middle)),
    )


NETS = [lambda s=s: network(s) for s in range(6)]
POOLED = [lambda s=s: network(s, pool=True) for s in range(6)]
CURVED = [lambda s=s: network(s, nn.Tanh) for s in range(6)]
FORESTS = [lambda s=s: forest(s) for s in range(6)]
FAULTS: dict[str, tuple[Fault, list[Callable[[], Case]]]] = {
    "Bounds: intervals of linear layers 0.7 as wide": (
        wrapped(Affine, "interval", lambda own, self, *t: [
            m + s * 0.7 for (a, b) in [own(self, *t)] for m in [(a + b) / 2]
            for s in (-(b - a) / 2, (b - a) / 2)]), NETS),
    "Bounds: the chord above a ReLU 0.8 as steep": (
        wrapped(Hinge, "relaxation", lambda own, self, a, b: _line(
            own, self, a, b, upper_slope=lambda r: r.upper_slope * 0.8)), NETS),
    "Bounds: the chord without its offset": (
        wrapped(Hinge, "relaxation", lambda own, self, a, b: _line(
            own, self, a, b, upper_bias=lambda r: r.upper_bias * 0)), NETS),
    "Bounds: the line below a ReLU lifted": (
        wrapped(Hinge, "relaxation", lambda own, self, a, b: _line(
            own, self, a, b, lower_bias=lambda r: r.upper_bias * 0.5)), NETS),
    "Bounds: biases forgotten": (
        wrapped(Layer, "constant", lambda own, self: None), NETS),
    "Bounds: half of the region": (wrapped(networks, "domain", _halved), NETS),
    "Bounds: one class of the goal suffices": (
        wrapped(networks, "proven", lambda own, behind, t, s, goal: own(
            behind, t, s, goal & (goal.cumsum(1) == 1))), NETS),
    "Bounds: a lead below 0.5 is behind": (
        wrapped(networks, "proven", lambda own, behind, *rest: own(behind, *rest)
                | (behind.float().mean(1) > 0.4)), NETS),
    "Bounds: leads 10 % too low": (
        wrapped(Network, "highest", lambda own, self, *a, **k: own(self, *a, **k)
                - 0.1 * own(self, *a, **k).abs()), NETS),
    "Bounds: climbing overshoots": (
        wrapped(networks, "climb", lambda own, *a: (own(*a)[0] - 0.5, own(*a)[1])), NETS),
    "Bounds: all parts are called done": (
        wrapped(networks, "branches", lambda own, program, held, *rest: torch.ones(
            len(held.centre), dtype=torch.bool)), NETS),
    "Bounds: halves of few features forgotten": (
        wrapped(networks, "split", lambda own, program, held, *rest: torch.ones(
            len(held.centre), dtype=torch.bool)), NETS),
    "Bounds: the surest of a maximum is all of it": (
        wrapped(Maximum, "chosen", lambda own, self, low, high: (
            own(self, low, high)[0], torch.ones_like(own(self, low, high)[1]))), POOLED),
    "Bounds: tanh without what lies between its lines": (
        wrapped(Smooth, "relaxation", lambda own, self, a, b: _line(
            own, self, a, b, upper_bias=lambda r: (r.upper_bias + r.lower_bias) / 2,
            lower_bias=lambda r: (r.upper_bias + r.lower_bias) / 2)), CURVED),
    "Exact: every third counterexample called a proof": (
        wrapped(trees, "decide", _some_called_done), FORESTS),
    "Exact: open rows called proven": (
        wrapped(trees, "decide", lambda own, e, r, g, seconds, **k: (lambda f: replace(
            f, proven=~f.broken))(own(e, r, g, 1e-9, **k))), FORESTS),
    "Exact: another goal": (
        wrapped(trees, "own_classes", lambda own, *a: own(*a) & False), FORESTS),
    "Linear: a ball of 0.8 eps": (
        wrapped(linear, "interval_max", lambda own, w, x, low, high, p, eps: own(
            w, x, low, high, p, 0.8 * eps)), [lambda s=s: plane(s) for s in range(6)]),
    "Linear: the program's bound 1 too low": (
        wrapped(linear, "best", lambda own, *a: (own(*a)[0] - 1.0, None)),
        [lambda s=s: plane(s, True) for s in range(6)]),
    "Enumerate: every other point": (
        wrapped(enumeration, "_joined", lambda own, part, held: own(
            part, [h[::2] for h in held])), [lambda s=s: listed(s) for s in range(6)]),
    "Linear, texts: a word's gain halved": (
        wrapped(bag, "highest", lambda own, *a: (own(*a)[0] - 1.0, own(*a)[1] * 0)),
        [lambda s=s: words(s) for s in range(6)]),
}  # fmt: skip


def false_proofs(case: Case, claimed: np.ndarray) -> int:
    """How many of the rows that were called proven can be broken."""
    if isinstance(case.model, nn.Module):
        return _searched(case, np.flatnonzero(claimed))
    true = case.play().records.columns["verdict"]
    return int((claimed & (true == "broken")).sum())


def _searched(case: Case, rows: np.ndarray) -> int:
    x, y, eps = case.data.x[rows], case.data.y[rows], case.space.eps
    draw = torch.Generator().manual_seed(7)
    fell = torch.zeros(len(rows), dtype=torch.bool)
    low, high = (x - eps).clamp_min(0), (x + eps).clamp_max(1)
    for k in range(3000):
        u = torch.rand(x.shape, generator=draw)
        z = low + (high - low) * (u.round() if k % 2 else u)
        fell |= case.model(z).argmax(1) != y
    for _ in range(10):
        z = low + (high - low) * torch.rand(x.shape, generator=draw)
        for step in range(30):
            z.requires_grad_()
            out = case.model(z)
            own = out.gather(1, y[:, None])[:, 0]
            other = out.scatter(1, y[:, None], -torch.inf).amax(1)
            (g,) = torch.autograd.grad((other - own).sum(), z)
            z = (z.detach() + eps * 0.5 * 0.9**step * g.sign()).clamp(low, high)
            fell |= case.model(z).argmax(1) != y
    return int(fell.sum())


@contextmanager
def without_audit() -> Iterator[None]:
    with patch.object(static, "cross_examine", lambda *a: None):
        yield


def claimed_by(case: Case) -> np.ndarray:
    """Rows that the proof calls proven, before anybody asks it."""
    with without_audit():
        return np.asarray(case.play().records.columns["verdict"] == "proven")


def price(cases: list[Case], rounds: int) -> float:
    """The auditor's CPU time as a share of the rest of the run."""
    spent, own = 0.0, static.cross_examine

    def timed(*args: Any) -> None:
        nonlocal spent
        began = time.process_time()
        own(*args)
        spent += time.process_time() - began

    for case in cases:
        case.play()  # whatever is done once
    total = time.process_time()
    with patch.object(static, "cross_examine", timed):
        for _ in range(rounds):
            for case in cases:
                case.play()
    total = time.process_time() - total
    return spent / (total - spent)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--smoke", action="store_true")
    smoke = arguments.parse_args().smoke
    count = 2 if smoke else 6
    print("| fault | runs with false proofs | caught | false proofs | rows overturned |")
    print("|---|---|---|---|---|")
    runs = hits = 0
    for name, (fault, cases) in list(FAULTS.items())[:: 4 if smoke else 1]:
        wrong = caught = rows = fell = 0
        for make in cases[:count]:
            case = make()
            with ExitStack() as stack:
                stack.enter_context(fault())
                claimed = claimed_by(case)
                report = case.play()
            false = false_proofs(case, claimed)
            if not false:
                continue
            wrong, rows = wrong + 1, rows + false
            caught += any(f.id == "contradiction" for f in report.flags)
            fell += int((report.records.columns["overturned"] != "").sum())
        runs, hits = runs + wrong, hits + caught
        print(f"| {name} | {wrong} | {caught} | {rows} | {fell} |", flush=True)
    print(f"\ncaught {hits} of {runs} runs with false proofs")
    kinds = {
        "Bounds": [network(0), network(1)], "Exact": [forest(0), forest(1)],
        "Linear, ball": [plane(0)], "Linear, table": [plane(0, True)],
        "Enumerate": [listed(0)], "Linear, texts": [words(0)],
    }  # fmt: skip
    for kind, some in kinds.items():
        print(f"price, {kind}: {price(some, 1 if smoke else 3):.1%} of the run", flush=True)


if __name__ == "__main__":
    main()
