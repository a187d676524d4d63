"""Graft: our own search. Find single changes that help, then graft them onto one another.

The question is whether a valid point within eps reaches the goal, not what the front between near
and misclassified looks like (MOEVA). So every candidate is projected into the ball and decoded
(rounded, repaired) before it is asked: nearly all are valid, and what is left is to climb one
number, the log odds of the goal. Points that still break a relation rank below all that do not.

1. Screening: one feature at a time to the end of its reach, up and down, in random order.
2. Grafting: from the best so far, children by uniform crossover, by adding two parents' changes, or
   by a differential step a + F (b - c); a few changes are redrawn or undone; half of the children
   are stretched to use the whole of eps. The best of parents and children stay.

What a reader would get wrong: undoing matters as much as changing. A change that no longer helps
still costs distance, and in an L2 ball the distance is shared by all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from assay import losses
from assay.attacks.base import compact
from assay.attacks.evolution.population import blocks
from assay.errors import AssayError
from assay.problem.problem import Needs, Problem
from assay.spaces.region import Region

_BROKEN = 1e9  # taken off what breaks a relation: more than any log odds


@dataclass(frozen=True)
class Graft:
    """At most `evaluations` per row, `offspring` at a time, from the best `population` so far.

    `scale` is F of the differential step. `memory` in bytes bounds the block of rows.
    """

    evaluations: int = 3000
    population: int = 40
    offspring: int = 50
    scale: float = 0.6
    memory: int = 2 * 10**9

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        for name in ("evaluations", "population", "offspring"):
            if getattr(self, name) < 1:
                raise AssayError(f"Graft({name}={getattr(self, name)}): expected at least 1")
        held = self.population + 8 * self.offspring  # parents' changes and random numbers too
        for rows in blocks(problem, held, self.offspring, self.memory):
            self._run(problem, rows)

    def _run(self, problem: Problem, rows: Tensor) -> None:
        region = problem.region(rows)
        origin, reach = region.origin, _reach(region)
        moves, count = _moves(problem, rows, region, reach)
        best, value = origin[:, None], torch.full_like(origin[:, :1], -torch.inf).double()
        for used in range(0, self.evaluations, self.offspring):
            # Rows differ in how many moves they have, and a row must not wait for its neighbours.
            screening = used < count.clamp_max(self.evaluations // 2)
            change = origin.new_zeros(len(rows), self.offspring, origin.shape[1])
            some = moves[screening].roll(-used, dims=1)[:, : self.offspring]
            change[screening, : some.shape[1]] = _single(some, origin, reach)
            rest = ~screening
            change[rest] = self._children(problem, rows[rest], (best - origin[:, None])[rest],
                                          count[rest], reach)  # fmt: skip
            change = change[:, : self.evaluations - used]
            z, found = _look(problem, rows, origin[:, None] + change)
            best, value = torch.cat([best, z], dim=1), torch.cat([value, found], dim=1)
            alive = problem.alive(rows)
            if not bool(alive.all()):
                rows, origin, moves, count, best, value = compact(
                    alive, rows, origin, moves, count, best, value
                )
                if not len(rows):
                    return
            order = value.argsort(dim=1, descending=True, stable=True)[:, : self.population]
            value = value.gather(1, order)
            best = _pick(best, order)

    def _children(
        self, problem: Problem, rows: Tensor, change: Tensor, count: Tensor, reach: float
    ) -> Tensor:
        """(n, offspring, D) changes made from those of the parents (n, P, D), best first."""
        n, k, size = len(rows), self.offspring, change.shape[2]
        draw = problem.random.uniform

        def uniform(width: int) -> Tensor:
            return draw(rows, k * width, change.dtype).reshape(n, k, width)

        way = uniform(6)
        rank = torch.stack([way[..., 0] ** 2, way[..., 1], way[..., 2]])  # the first from the best
        a, b, c = (_pick(change, i) for i in (rank * change.shape[1]).long())
        crossed = torch.where(uniform(size) < way[..., 3:4], b, a)
        child = torch.where(way[..., 4:5] < 0.35, crossed, a + b)
        child = torch.where(way[..., 4:5] > 0.65, a + self.scale * (b - c), child)
        fate, step = uniform(size), 2 * uniform(size) - 1
        rate = 2 / count.clamp_min(2)[:, None, None]  # one feature redrawn, two undone
        child = torch.where(fate < rate, child + 0.6 * reach * step, child)
        child = torch.where(fate > 1 - 2 * rate, 0.0, child)
        p = problem.regions.p
        if p > 0:
            length = torch.linalg.vector_norm(child, p, dim=2, keepdim=True).clamp_min(1e-12)
            child = torch.where(way[..., 5:] < 0.5, child * (reach / length), child)
        return child


def _reach(region: Region) -> float:
    """How far one feature can go; where eps counts features (L0), across its whole range."""
    return region.eps if region.p > 0 else 1.0


def _moves(problem: Problem, rows: Tensor, region: Region, reach: float) -> tuple[Tensor, Tensor]:
    """(n, 2D) moves in random order, those that lead nowhere last; (n,) how many lead somewhere.

    Move m < D takes feature m up, move D + m takes it down.
    """
    origin = region.origin
    can = torch.ones(len(rows), 2 * origin.shape[1], dtype=torch.bool, device=origin.device)
    if region.p > 0:
        ways = (region.project(origin + way) != origin for way in (reach, -reach))
        can = torch.cat(tuple(ways), dim=1)
    order = problem.random.order(rows, can.shape[1])
    stuck = (~can).gather(1, order).long()
    return order.gather(1, stuck.argsort(dim=1, stable=True)), can.sum(1)


def _single(moves: Tensor, origin: Tensor, reach: float) -> Tensor:
    """(n, k, D) changes of one feature each."""
    size = origin.shape[1]
    step = torch.where(moves < size, reach, -reach).to(origin.dtype)
    change = origin.new_zeros(*moves.shape, size)
    return change.scatter_(2, (moves % size)[..., None], step[..., None])


def _look(problem: Problem, rows: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """The points (n, k, D), brought into the region, and their worth (n, k)."""
    n, k, _ = z.shape
    at = rows.repeat_interleave(k)
    region = problem.region(at)
    with torch.no_grad():
        flat = region.project(z.flatten(0, 1))
        penalty = flat.new_zeros(len(flat))
        if region.constrained:
            penalty = region.penalty(flat)
        logits = problem.query(at, region.decode(flat), penalty)
        worth = losses.odds(logits.double(), problem.targets[at])
        worth = worth - torch.where(penalty > 0, _BROKEN * (1 + penalty), 0.0)
    return flat.reshape(z.shape), worth.nan_to_num(-torch.inf).reshape(n, k)


def _pick(individuals: Tensor, places: Tensor) -> Tensor:
    """(n, k, D): the individuals (n, P, D) at these places (n, k)."""
    return individuals.gather(1, places[..., None].expand(-1, -1, individuals.shape[2]))
