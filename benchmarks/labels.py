"""Searches by labels in Lp balls beside foolbox and ART, and beside the truth by gradients.

    python benchmarks/labels.py [--rows 40] [--cache DIR] [--gtsrb FILE] [--only mnist] [--smoke]
    python benchmarks/labels.py --out FILE --table

Every victim is asked for labels only. A row counts as broken within Q labels if one of the first Q
points that were asked about it lies in the ball and has another label: peers are counted in this
way too, whatever they would hand in, one row at a time. "truth" is `Cascade` on the network itself
(gradients): an upper bound of robust accuracy, as everything here is. Each cell is a line of FILE.

Networks are trained here on the bundled samples (`--cache` keeps them): digits MLP; CNN on MNIST,
as usual, against PGD in Linf up to 0.3, against PGD in L2 up to 2; CNN on GTSRB.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lp_networks
import numpy as np
import torch
from torch import Tensor, nn

import durometer as du
from durometer.training import Adversarial, CraftBy, Standard, fit, fresh

BUDGETS = (250, 1000, 3000)
SEED = 5  # of networks and rows: not those the searches were tuned on
CELLS = {
    "digits Linf 0.15": ("digits", du.Linf(0.15)),
    "digits L2 0.6": ("digits", du.L2(0.6)),
    "digits L1 2": ("digits", du.L1(2.0)),
    "digits L0 4": ("digits", du.L0(4)),
    "mnist Linf 0.1": ("mnist", du.Linf(0.1)),
    "mnist L1 15": ("mnist", du.L1(15.0)),
    "mnist L0 15": ("mnist", du.L0(15)),
    "mnist L2 1.5": ("mnist", du.L2(1.5)),
    "mnist-linf Linf 0.2": ("mnist-linf", du.Linf(0.2)),
    "mnist-linf L2 1.5": ("mnist-linf", du.L2(1.5)),
    "mnist-l2 L2 2": ("mnist-l2", du.L2(2.0)),
    "gtsrb Linf 8/255": ("gtsrb", du.Linf(8 / 255)),
    "gtsrb L2 1": ("gtsrb", du.L2(1.0)),
}


def signs() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 64, 128), nn.ReLU(), nn.Linear(128, 43),
    )  # fmt: skip


def subject(name: str, cache: Path, gtsrb: str | None, small: bool) -> tuple[nn.Module, Any]:
    """A network and its test rows."""
    if name in ("digits", "mnist", "mnist-linf"):
        known = {"digits": "digits", "mnist": "standard", "mnist-linf": "adversarial"}[name]
        net = lp_networks.network(known, cache, small, seed=SEED)
        return net, lp_networks.splits(lp_networks.SUBJECTS[known].data)[1]
    data = du.datasets.gtsrb(gtsrb) if name == "gtsrb" else du.datasets.mnist()
    train, epochs = data.train, 1 if small else 12
    if small:
        train = train.take(slice(64))
    net = fresh(signs if name == "gtsrb" else lp_networks.cnn, SEED)
    cache.mkdir(parents=True, exist_ok=True)
    for part, eps in enumerate((0.0,) if name == "gtsrb" else (1.0, 2.0)):
        how = Adversarial(CraftBy(du.PGD(5, step=0.5), du.L2(eps))) if eps else Standard()
        file = cache / f"labels-{name}-{epochs}-{part}.pt"
        fit(net, train, how, epochs=epochs, seed=10 * SEED + part, checkpoint=file)
    return net.eval().requires_grad_(False), data.test


class Asked:
    """A network that counts the labels asked of one row, and when a point of the ball first won."""

    def __init__(self, net: nn.Module, x: Tensor, y: int, space: Any, most: int) -> None:
        self.net, self.region, self.y, self.most = net, space.around(x[None]), y, most
        self.used, self.won = 0, math.inf

    def __call__(self, x: Tensor) -> Tensor:
        if self.used >= self.most or self.won < math.inf:
            raise Spent
        with torch.no_grad():
            label = self.net(x.float()).argmax(1)
        near = self.region.take(torch.zeros(len(x), dtype=torch.long))
        # the slack is the peers': they compute in float32, and clip to eps themselves
        limit = self.region.eps * (1 + 1e-5)
        hit = (near.distance(x.to(near.origin.dtype)) <= limit) & (label != self.y)
        if bool(hit.any()):
            place = self.used + int(hit.int().argmax()) + 1
            self.won = place if place <= self.most else math.inf
        self.used += len(x)
        return nn.functional.one_hot(label, self.net(x[:1].float()).shape[1]).float()


class Spent(Exception):
    """The labels of a row are used up, or it is won."""


def foolbox_hsj(asked: Asked, x: Tensor, y: Tensor, p: float) -> None:
    import foolbox

    # the setting that was best of 1, 10 and 100 initial evaluations on digits; the rest is its own
    _foolbox(foolbox.attacks.HopSkipJumpAttack(
        steps=64, initial_gradient_eval_steps=30, constraint="linf" if p == math.inf else "l2",
        init_attack=foolbox.attacks.LinearSearchBlendedUniformNoiseAttack(steps=20),
    ), asked, x, y)  # fmt: skip


def foolbox_boundary(asked: Asked, x: Tensor, y: Tensor, p: float) -> None:
    import foolbox

    init = foolbox.attacks.LinearSearchBlendedUniformNoiseAttack(steps=20)
    _foolbox(foolbox.attacks.BoundaryAttack(steps=asked.most, init_attack=init), asked, x, y)


def foolbox_pointwise(asked: Asked, x: Tensor, y: Tensor, p: float) -> None:
    import foolbox

    init = foolbox.attacks.LinearSearchBlendedUniformNoiseAttack(steps=20)
    _foolbox(foolbox.attacks.PointwiseAttack(init_attack=init), asked, x, y)


def _foolbox(attack: Any, asked: Asked, x: Tensor, y: Tensor) -> None:
    import foolbox

    module = _Module(asked)
    attack(
        foolbox.PyTorchModel(module.eval(), bounds=(0, 1)), x[None].float(), y[None], epsilons=None
    )


class _Module(nn.Module):
    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


def _art(asked: Asked, x: Tensor) -> Any:
    from art.estimators.classification import BlackBoxClassifier

    classes = asked.net(x[None].float()).shape[1]
    return BlackBoxClassifier(
        lambda z: asked(torch.from_numpy(np.asarray(z))).numpy(),
        tuple(x.shape),
        classes,
        (0.0, 1.0),
    )


def art_hsj(asked: Asked, x: Tensor, y: Tensor, p: float) -> None:
    from art.attacks.evasion import HopSkipJump

    attack = HopSkipJump(
        _art(asked, x), norm=np.inf if p == math.inf else 2, max_iter=64, max_eval=1000,
        init_eval=30, init_size=20, verbose=False, batch_size=64,
    )  # fmt: skip
    attack.generate(x[None].float().numpy(), y[None].numpy())


def art_signopt(asked: Asked, x: Tensor, y: Tensor, p: float) -> None:
    from art.attacks.evasion import SignOPTAttack

    attack = SignOPTAttack(
        _art(asked, x), targeted=False, epsilon=0.001, num_trial=20, max_iter=1000, k=50,
        query_limit=asked.most, verbose=False,
    )  # fmt: skip
    one_hot = np.eye(_art(asked, x).nb_classes)[y[None].numpy()]
    attack.generate(x[None].float().numpy(), one_hot)


PEERS: dict[str, tuple[Callable[..., None], tuple[float, ...]]] = {
    "foolbox HopSkipJump": (foolbox_hsj, (math.inf, 2.0)),
    "foolbox Boundary": (foolbox_boundary, (math.inf, 2.0)),
    "foolbox Pointwise": (foolbox_pointwise, (1.0, 0.0)),
    "ART HopSkipJump": (art_hsj, (math.inf, 2.0)),
    "ART SignOPT": (art_signopt, (2.0,)),
}


def peer(name: str, net: nn.Module, data: Any, space: Any, most: int) -> list[float]:
    """At which label each row was won by a peer; infinite: never."""
    won = []
    for i in range(len(data)):
        asked = Asked(net, data.x[i], int(data.y[i]), space, most)
        torch.manual_seed(i)
        np.random.seed(i)  # noqa: NPY002 (ART draws from it)
        try:
            PEERS[name][0](asked, data.x[i], data.y[i], space.norm)
        except Spent:
            pass
        except Exception as error:  # a peer that dies on a row has not won it
            print(f"    {name}, row {i}: {type(error).__name__}: {error}", flush=True)
        won.append(asked.won)
    return won


def ours(net: nn.Module, data: Any, space: Any, most: int) -> list[float]:
    attack = du.Standard(proofs=False)

    def label(x: Tensor) -> Tensor:
        out = net(x.float())
        return nn.functional.one_hot(out.argmax(1), out.shape[1])

    model = du.wrap(label, answers="labels", inputs="tensor")
    report = du.evaluate(
        model, data, space=space, attack=attack, budget=du.Budget(forwards=most + 1), progress=False
    )
    table = report.table
    return [float(f) - 1 if s else math.inf
            for s, f in zip(table["success"], table["forwards"], strict=True)]  # fmt: skip


def rows(net: nn.Module, data: Any, n: int) -> Any:
    """Rows of the test part, drawn anew, that the network gets right."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        right = net(data.x[order].float()).argmax(1) == data.y[order]
    return data.take(order[right][:n])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--cache", type=Path, help="where networks are kept")
    parser.add_argument("--gtsrb", help="the full data; the bundled sample otherwise")
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--methods", default="", help="methods whose name holds one of these, a,b")
    parser.add_argument("--out", type=Path, help="a line of JSON for each cell and method")
    parser.add_argument("--table", action="store_true", help="print FILE as a table")
    parser.add_argument("--smoke", action="store_true", help="toy size: does it still run?")
    asked = parser.parse_args()
    if asked.table:
        table([json.loads(line) for line in asked.out.read_text().splitlines()])
        return
    budgets = (10, 20, 30) if asked.smoke else BUDGETS
    n = 2 if asked.smoke else asked.rows
    only = asked.only or ("digits" if asked.smoke else "")
    done = []
    if asked.out is not None and asked.out.exists():
        done = [json.loads(line) for line in asked.out.read_text().splitlines()]
    found = list(done)
    with tempfile.TemporaryDirectory() as folder:
        cache = asked.cache or Path(folder)
        for cell, (name, space) in CELLS.items():
            if only not in cell:
                continue
            net, test = subject(name, cache, asked.gtsrb, asked.smoke)
            data = rows(net, test, n)
            methods = ["truth", "durometer", *(k for k, v in PEERS.items() if space.norm in v[1])]
            for method in methods:
                known = any(d["cell"] == cell and d["method"] == method for d in done)
                if known or not any(part in method for part in asked.methods.split(",")):
                    continue
                began = time.process_time()
                if method == "truth":
                    truth = du.Cascade() if space.norm > 0 else du.Standard(proofs=False)
                    report = du.evaluate(net, data, space=space, attack=truth, progress=False)
                    robust = [float(report.metric("robust").value)] * len(budgets)
                else:
                    play = ours if method == "durometer" else None
                    won = np.array(
                        play(net, data, space, budgets[-1]) if play is not None
                        else peer(method, net, data, space, budgets[-1])
                    )  # fmt: skip
                    robust = [float((won > q).mean()) for q in budgets]
                line = {"cell": cell, "method": method, "rows": len(data), "budgets": budgets,
                        "robust": [round(r, 4) for r in robust],
                        "cpu": round(time.process_time() - began, 1)}  # fmt: skip
                found.append(line)
                print(json.dumps(line), flush=True)
                if asked.out is not None:
                    with asked.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    table(found)


def table(found: list[dict[str, Any]]) -> None:
    if not found:
        return
    print("| network, space, rows | truth | search | " + " | ".join(map(str, found[0]["budgets"]))
          + " | CPU s |\n|---|---|---|" + "---|" * (len(found[0]["budgets"]) + 1))  # fmt: skip
    truth = {d["cell"]: d["robust"][-1] for d in found if d["method"] == "truth"}
    for d in found:
        if d["method"] != "truth":
            figures = " | ".join(f"{r:.3f}" for r in d["robust"])
            print(f"| {d['cell']}, {d['rows']} | {truth.get(d['cell'], math.nan):.3f} | "
                  f"{d['method']} | {figures} | {d['cpu']} |")  # fmt: skip


if __name__ == "__main__":
    main()
