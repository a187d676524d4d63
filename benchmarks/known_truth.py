"""What searches miss, on rows whose answer is known: tables and tree models decided by `Exact`.

    python benchmarks/known_truth.py [--rows 100] [--out FILE] [--only URL] [--methods M] [--smoke]
    python benchmarks/known_truth.py --out FILE --table

A miss is a row that `Exact` broke and the search did not within so many questions. Every method
works on the same model, rows and space; "labels" see the class alone, "scores" the log odds.
`Mirror` and MOEVA are played once, and their first success counts; Graft is played with each budget
as its own setting. The public attacks know no relations and no whole numbers: they search in the
search coordinates of the region, from the clean row in the middle of [0, 1], and each point they
ask is projected, rounded and repaired before the model sees it, so that they are not beaten by the
format of the data. Models are trained here with seeds of their own, and the rows drawn with them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import exact
import numpy as np
import torch
from torch import Tensor

import durometer as du

SEED = 17
BUDGETS = (100, 300, 1000)
INF = math.inf


class Cell(NamedTuple):
    """A model on a table, and the threat."""

    data: str
    model: str
    eps: float
    p: float


CELLS = {
    "URL, XGB 100x4, Linf .05": Cell("url", "XGB 100x4", 0.05, INF),
    "URL, XGB 100x6, L2 .1": Cell("url", "XGB 100x6", 0.1, 2.0),
    "URL, LightGBM 100x31, Linf .05": Cell("url", "LGB 100x31", 0.05, INF),
    "URL, CatBoost 100x6, Linf .05": Cell("url", "CatBoost 100x6", 0.05, INF),
    "Adult, XGB 60x4, L0 2": Cell("adult", "XGB 60x4", 2, 0.0),
    "Adult, XGB 60x4, L2 .3": Cell("adult", "XGB 60x4", 0.3, 2.0),
    "LCLD, XGB 60x4, Linf .05": Cell("lcld", "XGB 60x4", 0.05, INF),
    "German, XGB 60x4, Linf .05": Cell("german", "XGB 60x4", 0.05, INF),
}


def parts(name: str) -> tuple[np.ndarray, np.ndarray, du.Dataset]:
    if name != "german":
        return exact.parts(name)
    splits = du.datasets.german()
    return splits.train.x.numpy(), splits.train.y.numpy(), splits.test


def asked(cell: Cell, n: int, small: bool) -> tuple[Any, du.Dataset, Any]:
    """The model, rows that it gets right, and the space."""
    x, y, test = parts(cell.data)
    most = 400 if small else 10**9
    made = exact.model(cell.model)
    made.set_params(**{"random_seed" if "CatBoost" in cell.model else "random_state": SEED})
    made.fit(x[:most], y[:most])
    right = np.asarray(made.predict(test.x.numpy())).ravel().astype(int) == test.y.numpy()
    order = np.random.default_rng(SEED).permutation(np.flatnonzero(right))[:n]
    at = torch.from_numpy(np.sort(order))
    rows = du.Dataset(test.x[at], test.y[at], schema=test.schema)  # codes, as it was fitted
    return made, rows, rows.schema.space(eps=cell.eps, p=cell.p)


def won(report: Any) -> list[float]:
    """At which question each row was broken; infinite: never."""
    table = report.table
    return [float(f) - 1 if s else INF
            for s, f in zip(table["success"], table["forwards"], strict=True)]  # fmt: skip


class Labels:
    """The model, giving labels only."""

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, model.classes_

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(x)).ravel()


def play(model: Any, data: du.Dataset, space: Any, attack: Any, most: int) -> list[float]:
    return won(
        du.evaluate(
            model, data, space=space, attack=attack, budget=du.Budget(forwards=most + 1),
            progress=False,
        )
    )  # fmt: skip


def graft(model: Any, data: du.Dataset, space: Any, budgets: tuple[int, ...]) -> list[list[float]]:
    return [play(model, data, space, du.Graft(q), q) for q in budgets]


METHODS: dict[str, Callable[[Any, du.Dataset, Any, tuple[int, ...]], Any]] = {
    "Mirror, labels": lambda m, d, s, b: play(Labels(m), d, s, du.Mirror(b[-1]), b[-1]),
    "Mirror, scores": lambda m, d, s, b: play(m, d, s, du.Mirror(b[-1]), b[-1]),
    "Graft, scores": graft,
    "MOEVA, scores": lambda m, d, s, b: play(m, d, s, du.MOEVA(), b[-1]),
}


class Asked:
    """A model that is asked about points of the search coordinates, as records; it counts."""

    def __init__(self, model: Any, region: Any, y: int, most: int) -> None:
        self.model, self.region, self.y, self.most = model, region, y, most
        self.used, self.won = 0, INF

    def __call__(self, unit: np.ndarray) -> np.ndarray:
        """One-hot labels of points in [0, 1], the middle of which is the clean row."""
        if self.used >= self.most or self.won < INF:
            raise Spent
        near = self.region.take(torch.zeros(len(unit), dtype=torch.long))
        step = torch.from_numpy(np.asarray(unit, dtype=np.float64).reshape(len(unit), -1))
        reach = self.region.eps if self.region.p == INF else 1.0
        x = near.decode(near.project(near.origin + 2 * reach * (step - 0.5)))
        label = np.asarray(self.model.predict(x.numpy())).ravel().astype(int)
        hit = near.contains(x).numpy() & (label != self.y)
        if hit.any():
            place = self.used + int(hit.argmax()) + 1
            self.won = place if place <= self.most else INF
        self.used += len(unit)
        return np.eye(2)[label]


class Spent(Exception):
    """The questions of a row are used up, or it is broken."""


def foolbox_hsj(asked: Asked, x: Tensor, p: float) -> None:
    import foolbox

    class Module(torch.nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return torch.from_numpy(asked(z.numpy())).float()

    attack = foolbox.attacks.HopSkipJumpAttack(
        steps=64, initial_gradient_eval_steps=30, constraint="linf" if p == INF else "l2",
        init_attack=foolbox.attacks.LinearSearchBlendedUniformNoiseAttack(steps=20),
    )  # fmt: skip
    y = torch.tensor([asked.y])
    attack(foolbox.PyTorchModel(Module().eval(), bounds=(0, 1)), x[None], y, epsilons=None)


def art_hsj(asked: Asked, x: Tensor, p: float) -> None:
    from art.attacks.evasion import HopSkipJump
    from art.estimators.classification import BlackBoxClassifier

    victim = BlackBoxClassifier(asked, tuple(x.shape), 2, (0.0, 1.0))
    attack = HopSkipJump(
        victim, norm=np.inf if p == INF else 2, max_iter=64, max_eval=1000, init_eval=30,
        init_size=20, verbose=False, batch_size=64,
    )  # fmt: skip
    attack.generate(x[None].numpy(), np.array([asked.y]))


def public(attack: Callable[..., None]) -> Callable[..., list[float]]:
    def each(model: Any, data: du.Dataset, space: Any, budgets: tuple[int, ...]) -> list[float]:
        found = []
        for i in range(len(data)):
            region = space.around(data.x[[i]])
            one = Asked(model, region, int(data.y[i]), budgets[-1])
            torch.manual_seed(i)
            np.random.seed(i)  # noqa: NPY002 (ART draws from it)
            start = torch.full((region.origin.shape[1],), 0.5)
            try:
                attack(one, start, space.p)
            except Spent:
                pass
            except Exception as error:  # a peer that dies on a row has not broken it
                print(f"    row {i}: {type(error).__name__}: {error}", flush=True)
            found.append(one.won)
        return found

    return each


METHODS |= {
    "foolbox HopSkipJump, labels": public(foolbox_hsj),
    "ART HopSkipJump, labels": public(art_hsj),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--only", default="", help="tables whose name holds this")
    parser.add_argument("--methods", default="", help="methods whose name holds one of these, a,b")
    parser.add_argument("--out", type=Path, help="a line of JSON for each cell and method")
    parser.add_argument("--table", action="store_true", help="print FILE as a table")
    parser.add_argument("--smoke", action="store_true", help="toy size: does it still run?")
    args = parser.parse_args()
    found = []
    if args.out is not None and args.out.exists():
        found = [json.loads(line) for line in args.out.read_text().splitlines()]
    if args.table:
        table(found)
        return
    budgets = (5, 10, 20) if args.smoke else BUDGETS
    n = 4 if args.smoke else args.rows
    for name, cell in CELLS.items():
        todo = [m for m in METHODS if any(part in m for part in args.methods.split(","))
                and not any(d["cell"] == name and d["method"] == m for d in found)]  # fmt: skip
        if args.only not in name or not todo or (args.smoke and cell.data != "german"):
            continue
        model, data, space = asked(cell, n, args.smoke)
        truth = du.evaluate(model, data, space=space, attack=du.Exact(), progress=False).table
        broken, left = (np.asarray(truth["verdict"] == v) for v in ("broken", "open"))
        for method in todo:
            began = time.process_time()
            play = np.array(METHODS[method](model, data, space, budgets))
            play = np.tile(play, (len(budgets), 1)) if play.ndim == 1 else play
            hit = np.stack([w <= q for w, q in zip(play, budgets, strict=True)])
            assert not (hit & ~broken & ~left).any(), "a proven row is broken"
            line = {
                "cell": name, "method": method, "rows": len(data), "attackable": int(broken.sum()),
                "open": int(left.sum()), "budgets": budgets,
                "missed": (~hit & broken).sum(1).tolist(),
                "cpu": round(time.process_time() - began, 1),
            }  # fmt: skip
            found.append(line)
            print(json.dumps(line), flush=True)
            if args.out is not None:
                with args.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    table(found)


def table(found: list[dict[str, Any]]) -> None:
    if not found:
        return
    print("| table, model, threat | rows, attackable | search | "
          + " | ".join(f"missed at {q}" for q in found[0]["budgets"]) + " | CPU s |\n|---|---|---|"
          + "---|" * (len(found[0]["budgets"]) + 1))  # fmt: skip
    for d in sorted(found, key=lambda d: list(CELLS).index(d["cell"])):
        n = max(1, d["attackable"])
        figures = " | ".join(f"{m / n:.3f}" for m in d["missed"])
        rows = f"{d['rows']}, {d['attackable']}"
        print(f"| {d['cell']} | {rows} | {d['method']} | {figures} | {d['cpu']} |")


if __name__ == "__main__":
    main()
