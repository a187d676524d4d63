"""BF*: search through a graph of records, a small change at a time (Kulynych et al. 2018).

A node is a record; its neighbours change one feature: a number by one bin up or down (a bin is the
feature's range / `bins`, for whole numbers rounded down but at least 1), a category to any other
value. Each iteration expands, in every open row at once, the node of lowest

    distance to the clean row + weight * (log odds still missing + violation of the relations)

`weight` 0 is uniform-cost search, 1 is A*, a large one is greedy: best-first, BF* of the CAA paper
(150 bins, 100 iterations). Nodes farther than eps are never expanded; every node is judged.

What a reader would get wrong: a record can be reached by changing features in any order. Of such
twins only one is expanded, or most iterations would go to permutations of one path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from durometer.attacks.base import compact
from durometer.attacks.evolution.population import Population, blocks, genetic
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.genes import Genes


@noun
class BFS:
    """Best-first graph search over records, one small change at a time (BF*, Kulynych et al.,
    2018).

    It needs no gradients, and works in tables and other spaces with discrete coordinates.

    Args:
        iterations: Nodes expanded per row; 100 in the CAA paper.
        bins: Bins that a numeric feature's range is cut into; a change moves it by one bin.
        weight: Weight of the missing log odds against the distance. 0: uniform-cost search, 1: A*,
            large: greedy best-first.
        memory: Bytes that a block of rows may take.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.BFS(3)).metric("robust").value
    1.0
    """

    iterations: int = 100
    bins: int = 150
    weight: float = 1e6
    memory: int = 2 * 10**9
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        if not len(problem.open):
            return
        moves = Moves.of(genetic(problem).take(problem.open[:1]).genes(), self.bins)
        for rows in blocks(
            problem, self.iterations + len(moves.gene), len(moves.gene), self.memory
        ):
            self._run(problem, rows)

    def _run(self, problem: Problem, rows: Tensor) -> None:
        genes = genetic(problem).take(rows).genes()
        moves = Moves.of(genes, self.bins)
        eps = problem.regions.eps
        node = genes.start  # (n, G): what is expanded now
        expanded = node[:, None]  # (n, t, G)
        queue = node.new_zeros(len(rows), 0)  # (n, t * moves): priority of each waiting node
        evaluator = Population(problem, rows, genes, len(moves.gene))
        for _ in range(self.iterations):
            children = moves.from_(node)
            odds, distance, violation = evaluator.measure(children.cpu().numpy())
            missing = (-odds).clamp_min(0.0) + violation
            cost = distance + self.weight * missing.nan_to_num(torch.inf)
            dead = (children == node[:, None]).all(2) | (distance > eps)
            queue = torch.cat([queue, cost.masked_fill(dead, torch.inf)], dim=1)
            node, waiting = _next(queue, expanded, moves)
            open_ = problem.alive(rows) & waiting
            if not bool(open_.all()):
                rows, queue, expanded, node = compact(open_, rows, queue, expanded, node)
                if not len(rows):
                    return
                genes, moves = genes.take(open_), moves.take(open_)
                evaluator = Population(problem, rows, genes, len(moves.gene))
            expanded = torch.cat([expanded, node[:, None]], dim=1)


def _next(queue: Tensor, expanded: Tensor, moves: Moves) -> tuple[Tensor, Tensor]:
    """(n, G): the waiting node of lowest priority that is no twin of an expanded one; is there one?

    What has been looked at is taken off the queue, in place.
    """
    node = expanded[:, 0].clone()
    waiting = torch.ones(len(queue), dtype=torch.bool, device=queue.device)
    search = waiting.nonzero()[:, 0]
    while len(search):
        lowest, at = queue[search].min(dim=1)
        waiting[search] = lowest.isfinite()
        search, at = search[lowest.isfinite()], at[lowest.isfinite()]
        queue[search, at] = torch.inf
        parent = expanded[search, at // len(moves.gene)]
        node[search] = moves.take(search).single(parent, at % len(moves.gene))
        search = search[(expanded[search] == node[search][:, None]).all(2).any(1)]
    return node, waiting


@dataclass(frozen=True, eq=False)
class Moves:
    """All changes of one gene: by a step (numbers) or to a value (categories)."""

    gene: Tensor  # (m,): which gene
    value: Tensor  # (m,): a category's new value, NaN for numbers
    step: Tensor  # (n, m): signed step, 0 for categories
    low: Tensor  # (n, m)
    high: Tensor

    @classmethod
    def of(cls, genes: Genes, bins: int) -> Moves:
        reals, whole, _ = genes.kinds
        count = genes.start.shape[1]
        width = (genes.high - genes.low) / bins
        width[:, reals:] = width[:, reals:].floor().clamp_min(1.0)
        numbers = reals + whole
        gene, value, sign = [*range(numbers)] * 2, [torch.nan] * 2 * numbers, [1.0] * numbers
        sign += [-1.0] * numbers
        for g in range(numbers, count):
            choices = int(genes.high[0, g]) + 1
            gene += [g] * choices
            value += [float(v) for v in range(choices)]
            sign += [0.0] * choices
        at, like = torch.tensor(gene, dtype=torch.int64), genes.start
        values, signs = (torch.tensor(v, dtype=like.dtype) for v in (value, sign))
        return cls(at, values, width[:, at] * signs, genes.low[:, at], genes.high[:, at])

    def take(self, rows: Tensor) -> Moves:
        return Moves(self.gene, self.value, self.step[rows], self.low[rows], self.high[rows])

    def _changed(self, now: Tensor) -> Tensor:
        """(n, m): each move's gene after the move, from what it is now (n, m)."""
        moved = (now + self.step).maximum(self.low).minimum(self.high)
        return torch.where(self.value.isnan(), moved, self.value)

    def from_(self, node: Tensor) -> Tensor:
        """(n, m, G): all neighbours of a node (n, G)."""
        children = node[:, None].repeat(1, len(self.gene), 1)
        at = self.gene.expand(len(node), -1)[..., None]
        return children.scatter_(2, at, self._changed(node[:, self.gene])[..., None])

    def single(self, node: Tensor, move: Tensor) -> Tensor:
        """(n, G): the neighbour by one move (n,)."""
        changed = self._changed(node[:, self.gene]).gather(1, move[:, None])
        return node.scatter(1, self.gene[move][:, None], changed)
