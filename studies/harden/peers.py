"""What others do: adversarial training with a search inside, robust split search (GROOT), networks.

GROOT 0.0.17 (Vos & Verwer 2021) is written for numpy 1: the one name that numpy 2 moved is put
back. It knows an Linf box per feature, no whole numbers and no relations; its forest is then judged
by `Exact` in the very space of the case. It is not among the package's dependencies.
"""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import torch

import durometer as du
from durometer.architectures.tables.tableinput import TableInput
from durometer.proofs.search.decide import decide
from durometer.training.hardening.refit import refit
from durometer.trees.builder import Grower


def with_graft(model: Any, case: Any, rounds: int, most: int, seed: int) -> Any:
    """The usual recipe: refit on what a search finds, all features, the last model is taken."""
    start = case.train.where(y=case.attacked)
    x, y = np.empty((0, case.train.x.shape[1])), np.empty(0, dtype=np.int64)
    fresh = refit(model, case.train)
    for step in range(rounds):
        part = start.sample(most, seed=1000 * seed + step)
        report = du.evaluate(fresh, part, space=case.space, goal=case.goal, attack=du.Graft(),
                             seed=seed, progress=False)  # fmt: skip
        broken = (report.table["verdict"] == "broken").to_numpy()
        x = np.concatenate([x, np.asarray(report.adversarial, dtype=float)[broken]])
        y = np.concatenate([y, np.full(len(x) - len(y), int(part.y[0]))])
        each = min(1.0, len(start) / max(1, len(x)))
        fresh = refit(model, case.train, x, y, np.full(len(x), each))
    return fresh


class Groot:
    """A forest of GROOT, and its reading as an `Ensemble`."""

    def __init__(self, case: Any, seed: int, trees: int = 25, depth: int = 6) -> None:
        moved = types.ModuleType("numpy.lib.function_base")
        moved.iterable = np.iterable  # type: ignore[attr-defined]
        sys.modules.setdefault(moved.__name__, moved)
        from groot.model import GrootRandomForestClassifier

        if getattr(case.space, "p", math.inf) != math.inf:
            raise SystemExit("GROOT knows Linf boxes only")
        width = [case.space.eps * (f.range[1] - f.range[0]) for f in case.train.schema.features]
        self.model = GrootRandomForestClassifier(
            n_estimators=trees, max_depth=depth, attack_model=width, one_adversarial_class=True,
            random_state=seed, compile=True,
        )  # fmt: skip
        x, y = case.train.x.numpy(), case.train.y.numpy()
        self.model.fit(x, y)  # its adversarial class is 1: in URL the phishing rows
        grower = Grower(2, "<=", "float64")
        for tree in self.model.estimators_:
            grower.close(self._grow(grower, tree.root_))
        self.ensemble = grower.ensemble(
            base=[0.0, 0.0], n_features=x.shape[1], classes=[0, 1], source="GROOT"
        )

    def _grow(self, grower: Grower, node: Any) -> int:
        if node.is_leaf():
            return grower.leaf([float(node.value[0]), float(node.value[1])])
        left, right = self._grow(grower, node.left_child), self._grow(grower, node.right_child)
        return grower.split(int(node.feature), float(node.threshold), left, right, False)

    def figures(self, case: Any, rows: int) -> dict[str, Any]:
        test = case.test
        y, own = test.y.numpy(), self.ensemble.predict(test.x.double().numpy())
        agree = float((own == self.model.predict(test.x.numpy())).mean())
        part = test.where(y=case.attacked)
        part = part.sample(min(rows, len(part)), seed=0)
        goal = np.tile(np.arange(2) != int(part.y[0]), (len(part), 1))
        known = decide(self.ensemble, case.space.around(part.x), goal, 1.0)
        right = self.ensemble.predict(part.x.double().numpy()) == part.y.numpy()
        return {
            "agree": agree, "accuracy": float((own == y).mean()),
            "recall": [float((own == y)[y == c].mean()) for c in np.unique(y)],
            "proven": float((known.proven & right).mean()),
            "broken": float((known.broken | ~right).mean()),
            "open": float((known.open & right).mean()), "n": len(part),
        }  # fmt: skip


def network(case: Any, seed: int, certified: bool, epochs: int = 15) -> torch.nn.Module:
    """63-64-32-2, adversarially trained (Madry with CAPGD) or by interval bounds."""
    d = case.train.x.shape[1]  # of URL, whose class 1 is phishing

    def made() -> torch.nn.Module:
        return torch.nn.Sequential(
            TableInput(case.train.schema), torch.nn.Linear(d, 64), torch.nn.ReLU(),
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2),
        )  # fmt: skip

    net = du.training.fresh(made, seed)
    recipe = (
        du.training.Certified(case.space, case.goal)
        if certified
        else du.training.Adversarial(
            du.training.CraftBy(du.CAPGD(5), case.space, du.Group({1: [0]})), clean=0.5
        )
    )
    du.training.fit(net, case.train, recipe, epochs=epochs, seed=seed, progress=False)
    return net
