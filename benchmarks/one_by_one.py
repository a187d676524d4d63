"""MOEVA as published: one pymoo R-NSGA-III per row, from pymoo's public classes.

Model, distance, violation and validity are those of the space under test, so only the search
differs. As in the published attack, the last population is what is handed in.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from pymoo.algorithms.moo.rnsga3 import RNSGA3
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.operators.mutation.pm import mut_pm
from pymoo.optimize import minimize

import durometer as du
from durometer.goals.goal import reached


class ByKind(Crossover):
    """Two-point crossover within the real, the integer and the category genes."""

    def __init__(self, ends: list[int]) -> None:
        super().__init__(2, 2, prob=1.0)
        self.ends, self.point = ends, TwoPointCrossover()

    def _do(self, problem: Any, x: np.ndarray, random_state: Any = None, **_: Any) -> np.ndarray:
        out = x.copy()
        for start, stop in zip(self.ends[:-1], self.ends[1:], strict=True):
            if stop - start < 2:
                continue
            mixed = self.point._do(None, x[:, :, start:stop], random_state=random_state)
            cross = random_state.random(x.shape[1]) < 0.9
            out[:, cross, start:stop] = mixed[:, cross]
        return out


class MutateByKind(Mutation):
    """Polynomial mutation at a rate of one gene per kind; whole genes are rounded."""

    def __init__(self, ends: list[int]) -> None:
        super().__init__(prob=1.0)
        self.ends = ends

    def _do(self, problem: Any, x: np.ndarray, random_state: Any = None, **_: Any) -> np.ndarray:
        out = x.astype(float)
        for kind, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            if start == stop:
                continue
            wide = 0.0 if kind == 0 else 0.5
            low, high = problem.xl[start:stop], problem.xu[start:stop]
            fixed = low == high
            part = mut_pm(
                out[:, start:stop], low - wide * ~fixed, high + wide * ~fixed,
                np.full(len(x), 20.0), np.full(len(x), 1 / (stop - start)), False,
                random_state=random_state,
            )  # fmt: skip
            out[:, start:stop] = part if kind == 0 else np.clip(np.rint(part), low, high)
        return out


class OneRow(Problem):
    """Probability of the true class, distance and violation of the individuals of one row."""

    def __init__(self, model: Any, region: Any, target: torch.Tensor) -> None:
        self.genes = region.genes()
        low, high = self.genes.low[0].numpy(), self.genes.high[0].numpy()
        super().__init__(n_var=len(low), n_obj=3, xl=low, xu=high)
        self.model, self.region, self.target = model, region, target
        self.repeated: dict[int, Any] = {}

    def measure(self, genes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Logits and inputs of individuals (k, G), and the region around each of them."""
        k = len(genes)
        if k not in self.repeated:
            self.repeated[k] = self.region.take(torch.zeros(k, dtype=torch.int64))
        x = self.genes.express(torch.from_numpy(genes[None]))
        with torch.no_grad():
            return self.model.logits(x), x, self.repeated[k]

    def _evaluate(self, genes: np.ndarray, out: dict[str, Any], *_: Any, **__: Any) -> None:
        logits, x, region = self.measure(genes)
        outside = 1 - (logits.double().softmax(1) * self.target).sum(1)
        out["F"] = torch.stack([outside, region.distance(x), region.violation(x)], 1).numpy()


def attack_row(
    model: Any, region: Any, target: torch.Tensor, points: np.ndarray, seed: int, generations: int,
    offspring: int,
) -> tuple[bool, float]:  # fmt: skip
    """Does the last population hold a valid success? And the CPU seconds it took."""
    began = time.process_time()
    torch.set_num_threads(1)
    model = du.wrap(model)
    problem = OneRow(model, region, target)
    ends = [0, *np.cumsum(problem.genes.kinds).tolist()]
    start = np.repeat(problem.genes.start.numpy(), len(points) + 3, axis=0)
    algorithm = RNSGA3(
        ref_points=points, pop_per_ref_point=1, mu=0.05, sampling=start, n_offsprings=offspring,
        crossover=ByKind(ends), mutation=MutateByKind(ends), eliminate_duplicates=False,
    )  # fmt: skip
    with model.ready():
        result = minimize(problem, algorithm, ("n_gen", generations), seed=seed)
        logits, x, around = problem.measure(result.pop.get("X").astype(float))
    hit = reached(logits, target.expand(len(logits), -1), model.slack)
    return bool((hit & around.contains(x)).any()), time.process_time() - began


def attack(
    model: Any, x: torch.Tensor, space: Any, targets: torch.Tensor, points: np.ndarray,
    seed: int = 0, generations: int = 100, offspring: int = 100, jobs: int = 2,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Which rows are broken, one row at a time on `jobs` processes; CPU seconds in all."""
    region = space.around(x)
    each = (seed, generations, offspring)
    tasks = (
        delayed(attack_row)(
            model, region.take(torch.tensor([i])), targets[i : i + 1], points, *each
        )
        for i in range(len(x))
    )
    done = Parallel(n_jobs=jobs)(tasks)
    return np.array([d[0] for d in done], dtype=bool), sum(d[1] for d in done)
