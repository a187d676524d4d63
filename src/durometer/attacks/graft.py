"""Graft: our own search. Find single changes that help, then graft them onto one another.

The question is whether a valid point within eps reaches the goal, not what the front between near
and misclassified looks like (MOEVA). So every candidate is projected into the ball and decoded
(rounded, repaired) before it is asked: nearly all are valid, and what is left is to climb one
number, the log odds of the goal. Points that still break a relation rank below all that do not.

1. Screening: one feature at a time to the end of its reach, up and down, in random order; a
   category or one-hot group to each of its values; where eps counts features (L0), numbers also to
   values in between.
2. Grafting: from the best so far, children by uniform crossover, by adding two parents' changes, or
   by a differential step a + F (b - c); a few changes are redrawn or undone; half of the children
   are stretched to use the whole of eps. The best of parents and children stay.

What a reader would get wrong: undoing matters as much as changing. A change that no longer helps
still costs distance, and in an L2 ball the distance is shared by all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from durometer import losses
from durometer.attacks.base import compact
from durometer.attacks.evolution.population import blocks
from durometer.core.capabilities import HasCodes
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.region import Region
from durometer.tables.region import TableRegion

_NEARER = 0.01  # in log odds: coming nearer by less in a fifth of the budget is standing still
_ASKED = 64  # moves of all rows that are projected at once
_BROKEN = 1e9  # taken off what breaks a relation: more than any log odds


@noun
class Graft:
    """A black-box search that finds single helpful changes and combines them; no gradients needed.

    Half of the budget screens changes of one feature at a time; the rest combines the best points
    by crossover and differential steps. It works in Lp balls and in tables.

    Args:
        evaluations: Model queries per row.
        population: Number of best points that are kept as parents.
        offspring: Children per round.
        scale: Factor F of the differential step a + F (b - c).
        memory: Bytes that a block of rows may take.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.Graft(3)).metric(
    ...     "robust"
    ... ).value
    0.9375
    """

    evaluations: int = 3000
    population: int = 40
    offspring: int = 50
    scale: float = 0.6
    memory: int = 2 * 10**9
    cpu_only: ClassVar[bool] = True  # its arithmetic is numpy's

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        held = self.population + 8 * self.offspring  # parents' changes and random numbers too
        for rows in blocks(problem, held, self.offspring, self.memory):
            self._run(problem, rows)

    def _run(self, problem: Problem, rows: Tensor) -> None:
        region = problem.region(rows)
        origin, reach = region.origin, _reach(region)
        moves = Moves.of(problem, rows, region, reach, self.evaluations // 2)
        count = moves.count
        best, value = origin[:, None], torch.full_like(origin[:, :1], -torch.inf).double()
        before = value[:, 0]  # the best when four fifths of the budget were spent
        for used in range(0, self.evaluations, self.offspring):
            if used <= 0.8 * self.evaluations:
                before = value[:, 0].clone()
            # Rows differ in how many moves they have, and a row must not wait for its neighbours.
            screening = used < count.clamp_max(self.evaluations // 2)
            change = origin.new_zeros(len(rows), self.offspring, origin.shape[1])
            some = moves.changes(screening, used, self.offspring)
            change[screening, : some.shape[1]] = some
            rest = ~screening
            change[rest] = self._children(problem, rows[rest], (best - origin[:, None])[rest],
                                          count[rest], reach)  # fmt: skip
            change = change[:, : self.evaluations - used]
            z, found = _look(problem, rows, origin[:, None] + change)
            best, value = torch.cat([best, z], dim=1), torch.cat([value, found], dim=1)
            alive = problem.alive(rows)
            if not bool(alive.all()):
                rows, origin, count, best, value, before = compact(
                    alive, rows, origin, count, best, value, before
                )
                moves = moves.take(alive)
                if not len(rows):
                    return
            order = value.argsort(dim=1, descending=True, stable=True)[:, : self.population]
            value = value.gather(1, order)
            best = _pick(best, order)
        problem.improving(rows[value[:, 0] > before + _NEARER])

    def _children(
        self, problem: Problem, rows: Tensor, change: Tensor, count: Tensor, reach: float
    ) -> Tensor:
        """(n, offspring, D) changes made from those of the parents (n, P, D), best first."""
        n, k, size = len(rows), self.offspring, change.shape[2]
        draw = _random(problem).uniform

        def uniform(width: int) -> Tensor:
            return draw(rows, k * width, change.dtype).reshape(n, k, width)

        way = uniform(6)
        rank = torch.stack([way[..., 0] ** 2, way[..., 1], way[..., 2]])  # the first from the best
        a, b, c = (_pick(change, i) for i in (rank * change.shape[1]).long())
        crossed = torch.where(uniform(size) < way[..., 3:4], b, a)
        child = torch.where(way[..., 4:5] < 0.35, crossed, a + b)
        child = torch.where(way[..., 4:5] > 0.65, a + self.scale * (b - c), child)
        fate, step = uniform(size), 2 * uniform(size) - 1
        # One feature redrawn, two undone; with a handful of them that would undo every change.
        rate = 2 / count.clamp_min(10)[:, None, None]
        child = torch.where(fate < rate, child + 0.6 * reach * step, child)
        child = torch.where(fate > 1 - 2 * rate, 0.0, child)
        p = problem.regions.p
        if p > 0:
            length = torch.linalg.vector_norm(child, p, dim=2, keepdim=True).clamp_min(1e-12)
            child = torch.where(way[..., 5:] < 0.5, child * (reach / length), child)
        return child


def _random(problem: Problem) -> Stream:
    """Draws of its own: after other attacks it tries what it tries alone, and is never weaker."""
    return problem.random.part("Graft")


def _reach(region: Region) -> float:
    """How far one feature can go; where eps counts features (L0), across its whole range."""
    return region.eps if region.p > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Moves:
    """Changes of one feature each, in random order for each row; those that lead nowhere last.

    A move is a coordinate and what happens to it. Changes of all coordinates are made only for the
    few moves that are asked about: for all moves they would take the square of the features.
    """

    origin: Tensor  # (n, D)
    target: Tensor  # (M,): the coordinate that a move changes, or that it switches on
    delta: Tensor  # (M,): by how much; 0 for codes
    code: Tensor  # (M,): the one-hot code that a move belongs to; -1: none
    code_of: Tensor  # (D,): the same of coordinates
    on: Tensor  # (n, codes): a 1 as the encoding of each code writes it
    order: Tensor  # (n, M)
    count: Tensor  # (n,): how many lead somewhere

    @classmethod
    def of(cls, problem: Problem, rows: Tensor, region: Region, reach: float, most: int) -> Moves:
        """All ends of reaches, all values of codes, and in L0 as many values between as `most`."""
        origin = region.origin
        n, size = origin.shape
        blocks = region.blocks if isinstance(region, HasCodes) else ()
        code_of = torch.full((size,), -1, device=origin.device)
        for k, places in enumerate(blocks):
            code_of[places] = k
        numbers = (code_of < 0).nonzero()[:, 0]
        steps = [1.0, -1.0]
        if region.p == 0 and len(numbers):
            between = max(0, most // len(numbers) - 2) // 2
            steps += [s * (k + 1) / (between + 1) for k in range(between) for s in (1.0, -1.0)]
        target = torch.cat([numbers.repeat(len(steps)), *blocks])
        delta = origin.new_zeros(len(target))
        for k, step in enumerate(steps):
            delta[k * len(numbers) : (k + 1) * len(numbers)] = reach * step
        code = code_of[target]
        none = origin.new_zeros(n, 0)
        on = torch.cat([none, *(origin[:, places].amax(1, keepdim=True) for places in blocks)], 1)
        plain = len(steps) * len(numbers)
        can = [_single(region, target[:plain], delta[:plain])]
        can += [_switched(region, places) for places in blocks]
        leads = torch.cat(can, dim=1)
        order = _random(problem).order(rows, len(target))
        ranked = order.gather(1, (~leads).gather(1, order).long().argsort(dim=1, stable=True))
        return cls(origin, target, delta, code, code_of, on, ranked, leads.sum(1))

    def changes(self, rows: Tensor, used: int, most: int) -> Tensor:
        """(k, m, D) the next moves of these rows (a mask)."""
        some = self.order[rows].roll(-used, dims=1)[:, :most]
        origin, target, code = self.origin[rows], self.target[some], self.code[some]
        change = origin.new_zeros(*some.shape, origin.shape[1])
        value = self.delta[some]
        if self.on.shape[1]:
            own = (self.code_of == code[..., None]) & (code >= 0)[..., None]
            change = torch.where(own, 0.0 - origin[:, None], change)
            switched = self.on[rows].gather(1, code.clamp_min(0)) - origin.gather(1, target)
            value = torch.where(code >= 0, switched, value)
        return change.scatter_(2, target[..., None], value[..., None])

    def take(self, rows: Tensor) -> Moves:
        return replace(
            self, origin=self.origin[rows], on=self.on[rows], order=self.order[rows],
            count=self.count[rows],
        )  # fmt: skip


def _ball(region: Region) -> LpRegion | None:
    """The ball whose projection takes each coordinate by itself, where one alone is changed."""
    if isinstance(region, TableRegion):
        return region.ball
    return region if isinstance(region, LpRegion) else None


def _single(region: Region, target: Tensor, delta: Tensor) -> Tensor:
    """(n, M): does a change of one coordinate lead anywhere?"""
    origin = region.origin
    ball = _ball(region)
    if region.p == 0:
        return (delta != 0).expand(len(origin), -1)
    if ball is not None:
        low, high, here = (side[:, target] for side in (ball.low, ball.high, origin))
        return (here + delta).maximum(low).minimum(high) != here
    found = []
    for first in range(0, len(target), _ASKED):
        some, by = (t[first : first + _ASKED] for t in (target, delta))
        at = torch.arange(len(origin), device=origin.device).repeat_interleave(len(some))
        there = origin[:, None].repeat(1, len(some), 1)
        there[:, torch.arange(len(some)), some] += by
        moved = region.take(at).project(there.flatten(0, 1)) != origin[at]
        found.append(moved.any(1).reshape(len(origin), -1))
    return torch.cat(found, dim=1)


def _switched(region: Region, places: Tensor) -> Tensor:
    """(n, k): does switching a one-hot code to each of its k values lead anywhere?"""
    here = region.origin[:, None, places]
    on = region.origin[:, places].amax(1)
    k = len(places)
    change = torch.eye(k, dtype=here.dtype, device=here.device) * on[:, None, None] - here
    ball = _ball(region)
    if region.p == 0 or ball is None:
        return change.abs().sum(2) > 0
    low, high = (side[:, None, places] for side in (ball.low, ball.high))
    there = here + change.clamp(-ball.eps, ball.eps)
    return (there.maximum(low).minimum(high) != here).any(2)


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
