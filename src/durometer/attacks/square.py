"""Square (Andriushchenko et al. 2020): random search that changes a small patch at a time.

A proposal is kept where it raises the margin. The share of features it touches starts at `p` and is
halved at 0.1, 0.5, 2, 5, 10, 20, 40, 60 and 80 % of the queries; in L2 and L1 at twice these
shares, for squares below three pixels do not exist there. With 5,000 queries AutoAttack takes the
slow schedule in Linf too, where the fast one found more (1.0 to 1.5 points on an adversarially
trained network).

    Linf    a square is set to +eps or -eps (one sign per channel); the start is vertical stripes
    L2, L1  a bump is added to one square, paid for by emptying another; the start is a grid of
            bumps

What has no neighbourhoods (a row of a table) has random subsets of features for squares, each
feature with its own sign. Newer AutoAttack has the L1 version: the L2 one with another norm.

With `prune` a row is given up that is not going to arrive: as in FAB, a doubling of the queries
gains at most twice what the doubling before it gained.

What a reader would get wrong: every row has its own squares and its own signs. The published code
uses one position for the whole batch, which makes a row's fate depend on its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import field

import torch

from durometer.attacks.base import Start, ball, compact, overwrite, start
from durometer.attacks.square_moves.moves import Bumps, Canvas, Corners
from durometer.core.validation import noun
from durometer.losses import margin
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
_PACE = 2.0  # of what a doubling gained, what the next may: chance comes in leaps
_AHEAD = 256  # random numbers drawn at once per row, for speed


@noun
class Square:
    """`queries` forward passes per start; the first proposals touch a share `p` of the features.

    `start="best"` goes on from what other attacks have come to, `prune` gives up hopeless rows.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.Square(50)).metric(
    ...     "robust"
    ... ).value
    0.3125
    """

    queries: int = 5000
    p: float = field(default=0.8, metadata={"most": 1.0})
    restarts: int = 1
    start: Start = "random"
    prune: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(norms=(1.0, 2.0, math.inf))

    def share(self, query: int, pace: float = 1.0) -> float:
        """The share of features that proposal number `query` touches."""
        return self.p * 0.5 ** sum(query * pace > h * self.queries for h in _HALVINGS)

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.restarts):
            if len(problem.open):
                self._run(problem)

    def _run(self, problem: Problem) -> None:
        rows = problem.open
        region = ball(problem, rows)
        moves = (Corners if region.p == math.inf else Bumps)(Canvas.of(region))
        if self.start == "random":
            z = moves.start(region, problem.random, rows)
        else:
            z = start(problem, rows, self.start)
        best = problem.value(rows, z, margin)
        doublings = [self.queries >> j for j in (4, 3, 2, 1)] if self.prune else []
        before = best  # at the last doubling of the queries
        drawn = max(1, _AHEAD // moves.numbers) * moves.numbers
        draws, used = problem.random.uniform(rows[:0], 0).new_empty(len(z), 0), 0
        for query in range(1, self.queries):
            alive = problem.alive(rows)
            if query in doublings:
                rest = math.log2(self.queries / query)
                alive &= best + _PACE * rest * (best - before) >= 0
                before = best
            rows, z, best, before, draws = compact(alive, rows, z, best, before, draws)
            if not len(rows):
                return
            if used == draws.shape[1]:
                draws, used = problem.random.uniform(rows, drawn), 0
            now, used = draws.narrow(1, used, moves.numbers), used + moves.numbers
            new = moves.propose(ball(problem, rows), z, self.share(query, moves.pace), now)
            value = problem.value(rows, new, margin)
            better = value > best
            best = torch.where(better, value, best)
            overwrite(z, better, new)
