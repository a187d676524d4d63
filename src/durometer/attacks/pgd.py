"""FGSM (Goodfellow et al. 2015) and PGD (Madry et al. 2018): gradient steps of fixed length.

PGD here is one loop for every space: the region knows what a step and a projection are. The step is
given relative to the region's size, as in the papers' scripts: alpha = step * eps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from durometer.attacks.base import Start, compact, start
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import Region

# (region, rows, points, gradients) -> points; the rows are for moves that remember something.
Move = Callable[[Region, Tensor, Tensor, Tensor], Tensor]


@noun
class PGD:
    """Projected gradient descent: gradient steps of fixed length, each projected into the region
    (Madry et al., 2018).

    In L1 use `start="clean"`, or `APGD`: a random start changes every feature, and steps of fixed
    length hardly undo that.

    Args:
        steps: Gradient steps per start.
        step: Length of a step, in units of the region's size. None: 2.5 / steps, the rule of Madry
            et al.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.
        start: "random" (a point of the region), "clean" (the input itself) or "best" (the best
            point found so far).
        restarts: Number of runs; each further one attacks the rows that are still open.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(10)).metric("robust").value
    0.3125
    """

    steps: int = 40
    step: float | None = None
    loss: Loss | LossName | None = None
    start: Start = "random"
    restarts: int = 1

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.restarts):
            if len(problem.open):
                self._run(problem)

    def _run(self, problem: Problem) -> None:
        rows = problem.open
        length = 2.5 / self.steps if self.step is None else self.step
        climb(problem, rows, start(problem, rows, self.start), [along(length)] * self.steps)


def along(length: float) -> Move:
    """A step of this length (in units of eps) along the gradient."""

    def move(region: Region, rows: Tensor, z: Tensor, grad: Tensor) -> Tensor:
        step = torch.full((len(z),), length * region.eps, dtype=z.dtype, device=z.device)
        return region.ascend(z, grad, step)

    return move


def climb(
    problem: Problem, rows: Tensor, z: Tensor, moves: Iterable[Move], loss: Loss | None = None
) -> None:
    """Move after move, each projected, on the rows still open."""
    for move in moves:
        _, grad = problem.value_and_grad(rows, z, loss)
        rows, z, grad = compact(problem.alive(rows), rows, z, grad)
        if not len(rows):
            return
        region = problem.region(rows)
        z = region.project(move(region, rows, z, grad))
    problem.submit(rows, z)


def places_of(rows: Tensor) -> Tensor:
    """Where each row stands among `rows`: what a move remembers is kept in the order of a start."""
    place = rows.new_zeros(int(rows[-1]) + 1 if len(rows) else 0)  # rows are in order
    place[rows] = torch.arange(len(rows), device=rows.device)
    return place


@noun
class FGSM:
    """The fast gradient sign method: one step of the full size from the clean input (Goodfellow et
    al., 2015).

    Args:
        loss: The loss to climb; see `losses`. None: the one that the goal implies.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.FGSM()).metric("robust").value
    0.375
    """

    loss: Loss | LossName | None = None

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        PGD(steps=1, step=1.0, loss=self.loss, start="clean")(problem)
