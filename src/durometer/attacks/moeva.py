"""MOEVA (Simonetto et al. 2022; CAA paper, section 5): a genetic search with three objectives.

Minimised at once by R-NSGA-III: the probability the model gives to classes outside the goal (p_true
when untargeted), the distance to the clean row, the violation of its relations. The published code
runs one optimiser per row; here all open rows evolve together as arrays (rows, population, genes),
with one model call per generation, block by block so that memory stays within a budget.

Every individual is judged the moment it is evaluated; the published attack hands in its last
population only. So a solved row stops at once, and with `keep="best"` nothing found is ever lost.

What a reader would get wrong: eps is no objective and no bound of the search. A population spreads
over the whole front between "near" and "misclassified", and some of it lies within eps.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np
from torch import Tensor

from durometer.attacks.base import Pace
from durometer.attacks.evolution.population import Population, blocks, genetic
from durometer.attacks.evolution.survival import Survival, reference_points, replace
from durometer.attacks.evolution.variation import vary
from durometer.core.validation import noun
from durometer.kernels.arrays import Array
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.genes import Genes

_AXES = 3  # extreme directions that R-NSGA-III adds to its reference points

_REDRAWN = 0.2  # of the categories, where eps counts features


@noun
class MOEVA:
    """A genetic search with three objectives: misclassification, distance, broken relations
    (Simonetto et al., 2022).

    It needs no gradients. Unlike the published code, every individual is judged when it is
    evaluated, so a solved row stops at once.

    Args:
        generations: Generations, the first one included; 100 as published.
        population: Individuals that survive; 206 as published (203 reference points and 3 axes).
        offspring: Children per generation; 100 as published.
        memory: Bytes that a block of rows may take.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net,
    ...     data,
    ...     space=du.Linf(0.1),
    ...     attack=du.MOEVA(generations=3, population=10, offspring=6),
    ... ).metric("robust").value
    0.9375
    """

    generations: int = 100
    population: int = field(default=206, metadata={"least": _AXES + 1})
    offspring: int = field(default=100, metadata={"least": 2})
    memory: int = 2 * 10**9
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        held = self.population + 2 * self.offspring
        for rows in blocks(problem, held, self.offspring, self.memory):
            self._run(problem, rows)

    def _run(self, problem: Problem, rows: Tensor) -> None:
        genes = genetic(problem).take(rows).genes()
        start, low, high = (t.cpu().numpy() for t in (genes.start, genes.low, genes.high))
        # The first population is copies of the clean row: one evaluation tells them all.
        first = Population(problem, rows, genes, 1).evaluate(start[:, None])
        population = np.repeat(start[:, None], self.population, axis=1)
        values = np.repeat(first, self.population, axis=1)
        survival = Survival.of(reference_points(self.population - _AXES), len(rows))
        evaluator = Population(problem, rows, genes, self.offspring)
        pace = Pace(problem, self.generations)
        for k in range(self.generations - 1):
            pace.step(k)
            words = problem.random.bits(rows, 2).cpu().numpy().view(np.uint64)
            mate, fate = np.ascontiguousarray(words.T)
            children = vary(population, low, high, genes.kinds, mate, self.offspring)
            if problem.regions.p == 0 or genes.most is not None:
                _few(children, start, genes, problem, rows)
            found = evaluator.evaluate(children)
            alive = problem.alive(rows)
            if not bool(alive.all()):
                rows, genes, kept = rows[alive], genes.take(alive), alive.cpu().numpy()
                population, values, children, found, low, high, fate, start = (
                    a[kept] for a in (population, values, children, found, low, high, fate, start)
                )
                if not len(rows):
                    return
                survival = survival.take(kept)
                evaluator = Population(problem, rows, genes, self.offspring)
            chosen = survival(np.concatenate([values, found], axis=1), fate, self.population)
            replace(chosen, population, values, children, found)
        pace.end(rows)


def _few(children: Array, start: Array, genes: Genes, problem: Problem, rows: Tensor) -> None:
    """Where changes are counted: redraw some categories, then undo all but as many, at random.

    A kind of few genes mutates in nearly every child (one real gene in all of them), so that no
    other feature would ever be changed alone; and the published mutation goes from a category's
    value to the next, while its values have no order.
    """
    n, k, g = children.shape
    drawn = problem.random.uniform(rows, k * 2 * g).reshape(n, k, 2, g).cpu().numpy()
    codes = slice(g - genes.kinds[2], g)
    choices = genes.high[:, codes].cpu().numpy()[:, None] + 1
    redrawn = np.floor(drawn[:, :, 1, codes] * choices / _REDRAWN)
    np.copyto(children[:, :, codes], redrawn, where=drawn[:, :, 1, codes] < _REDRAWN)
    lot = np.where(children == start[:, None], 2.0, drawn[:, :, 0])
    rank = lot.argsort(axis=2).argsort(axis=2)
    most = int(problem.regions.eps) if genes.most is None else genes.most.numpy()[:, None, None]
    np.copyto(children, start[:, None], where=rank >= most)
