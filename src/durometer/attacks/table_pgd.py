"""TablePGD, ours: gradient ascent in a table that goes on from the record it would hand in.

    z <- project(repaired(z) + (1 - k / K) eps g / max |g|)

Auto-PGD's step in Linf is a sign step: it moves every feature by the same share of its reach, so
the repair of a relation takes as much from the features that matter as from those that do not. Here
a feature moves as far as its gradient says, and what the repair took off is taken off the point as
well: the next step starts where the relations hold, and gains by what it has room for.

What a reader would get wrong: only what the *repair* moved is taken over. A whole number that was
rounded keeps its fraction; otherwise steps of less than half a unit would never add up to one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.attacks.base import start
from durometer.attacks.pgd import Move, climb
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import Region
from durometer.tables.region import TableRegion


@noun
class TablePGD:
    """Gradient ascent for tables with relations, with steps in proportion to the gradient (ours).

    Every step starts from the repaired record; the first moves the steepest feature by the whole
    of eps, later ones by less and less. In Linf it finds what `CAPGD` misses where relations bind.
    The default for tables plays it between `CAPGD` and `Graft`. Where eps counts features (L0),
    take `CAPGD` or `Graft`.

    Args:
        steps: Gradient steps per start.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.
        restarts: Number of runs: the first from the record itself, further ones from random points,
            on the rows that are still open.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> schema = du.Schema(
    ...     [du.Feature(f"f{i}", low=0, high=1) for i in range(8)], ["f0 + f1 <= 2"]
    ... )
    >>> space = schema.space(eps=0.1, p=float("inf"))
    >>> du.evaluate(net, data, space=space, attack=du.TablePGD()).metric("robust").value
    0.25
    """

    steps: int = 20
    loss: Loss | LossName | None = "margin"
    restarts: int = 1

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        for run in range(self.restarts):
            rows = problem.open
            if not len(rows):
                return
            z = start(problem, rows, "random" if run else "clean")
            climb(problem, rows, z, [_step(1 - k / self.steps) for k in range(self.steps)])


def _step(length: float) -> Move:
    """A step along the gradient: the steepest feature moves by this length, in units of eps."""

    def move(region: Region, rows: Tensor, z: Tensor, grad: Tensor) -> Tensor:
        if isinstance(region, TableRegion):
            z, grad = region.repaired(z), region.tangent(z, grad)
        steepest = grad.abs().amax(1, keepdim=True).clamp_min(torch.finfo(grad.dtype).tiny)
        size = region.eps if region.p else 1.0
        return z + length * size * (grad / steepest)

    return move
