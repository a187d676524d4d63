"""Auto-PGD (Croce & Hein 2020): PGD with momentum whose step length adapts by itself, row by row.

    z1 = P(z + eta * ascent),   z' = P(z + a (z1 - z) + (1 - a) (z - z_before)),   a = 0.75

At checkpoints (as shares of the steps: p_0 = 0, p_1 = 0.22, then p_{j+1} = p_j + max(p_j - p_{j-1}
- 0.03, 0.06)) eta is halved and the search goes back to its best point where, since the checkpoint
before, (1) fewer than rho of the steps raised the loss, or (2) neither eta nor the best loss has
changed. What a reader would get wrong: best and window are per row, never per batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.attacks.base import Pace, Start, ball, compact, overwrite, start
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import per_row


@noun
class APGD:
    """Auto-PGD: projected gradient ascent with momentum whose step length adapts to each row (Croce
    & Hein, 2020).

    Args:
        steps: Gradient steps per start. 100 is the published setting; 20 to 50 find most rows.
        loss: The loss to climb: "ce", "margin", "dlr", "md", "mdmax", "mdmul", "lse", "pm" ...; see
            `losses`. None: the one that the goal implies.
        restarts: Number of runs; each further one attacks the rows that are still open.
        rho: Share of the steps between two checkpoints that must raise the loss; otherwise the step
            is halved.
        step: Length of the first step, in units of the region's size.
        momentum: Weight of the new direction against the last one, in [0, 1].
        start: "random" (a point of the region), "clean" (the input itself) or "best" (the best
            point found so far).
        eot: Gradients to average per step, for models that are random (expectation over
            transformation).
        marks: Steps after which the step length is reconsidered. None: the published checkpoints.
        back: Whether a row goes back to its best point when its step is halved, as published.
        noise: Standard deviation of the noise that is added to the point before each of the `eot`
            gradients: per feature in units of eps in Linf, of eps / sqrt(features) in L2 and of
            eps / features in L1. It smooths gradients that mislead; 0 adds none. In Lp balls only.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.APGD(10)).metric(
    ...     "robust"
    ... ).value
    0.3125
    """

    steps: int = 100
    loss: Loss | LossName | None = None
    restarts: int = 1
    rho: float = 0.75
    step: float = 2.0
    momentum: float = 0.75
    start: Start = "random"
    eot: int = 1
    marks: tuple[int, ...] | None = None
    back: bool = True
    noise: float = 0.0

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True, norms=(1.0, 2.0, math.inf) if self.noise else None)

    def checkpoints(self) -> list[int]:
        """The steps after which the step length is reconsidered: `marks`, or the published ones."""
        if self.marks is not None:
            return list(self.marks)
        share, width, marks = 0.22, 0.22, []
        while share <= 1.0:
            marks.append(max(1, int(share * self.steps)))
            width = max(width - 0.03, 0.06)
            share += width
        return sorted(set(marks))

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.restarts):
            if len(problem.open):
                self._run(problem)

    def _gradient(self, problem: Problem, rows: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        if self.noise:
            return problem.value(rows, z), self._smoothed(problem, rows, z)
        value, grad = problem.value_and_grad(rows, z)
        if self.eot == 1:
            return value, grad
        for _ in range(self.eot - 1):
            v, g = problem.value_and_grad(rows, z)
            value, grad = value + v, grad + g
        return value / self.eot, grad / self.eot

    def _smoothed(self, problem: Problem, rows: Tensor, z: Tensor) -> Tensor:
        """The mean gradient of noisy copies; these may leave the ball, not the box."""
        region = ball(problem, rows)
        size = z.shape[1]
        sd = self.noise * region.eps / size ** (1 / region.p)
        total = torch.zeros_like(z)
        for _ in range(self.eot):
            near = z + sd * problem.random.normal(rows, size, z.dtype)
            total += problem.value_and_grad(rows, near.clamp(region.low, region.high))[1]
        return total / self.eot

    def _run(self, problem: Problem) -> None:
        rows = problem.open
        region = problem.region(rows)
        z = start(problem, rows, self.start)
        value, grad = self._gradient(problem, rows, z)
        before, best, best_grad, best_value = z, z.clone(), grad.clone(), value.clone()
        eta = torch.full_like(value, self.step * region.eps, dtype=z.dtype)
        gains = torch.zeros_like(rows)
        halved, last_best = torch.ones_like(rows, dtype=torch.bool), value.clone()
        marks, mark = set(self.checkpoints()), 0
        pace = Pace(problem, self.steps)
        for k in range(self.steps):
            pace.step(k)
            state = [z, value, grad, before, best, best_grad, best_value, eta, gains, halved]
            rows, last_best, *state = compact(problem.alive(rows), rows, last_best, *state)
            z, value, grad, before, best, best_grad, best_value, eta, gains, halved = state
            if not len(rows):
                return
            region = problem.region(rows)
            a = self.momentum if k else 1.0
            z1 = region.project(region.ascend(z, grad, eta))
            ahead = torch.add(z, z1 - z, alpha=a).add_(z - before, alpha=1 - a)
            z, before = region.project(ahead), z
            was = value
            value, grad = self._gradient(problem, rows, z)
            gains = gains + (value > was)
            up = value > best_value
            best_value = torch.where(up, value, best_value)
            overwrite(best, up, z)
            overwrite(best_grad, up, grad)
            if k + 1 in marks:
                stuck = gains < self.rho * (k + 1 - mark)
                stuck |= ~halved & (last_best >= best_value)
                eta = torch.where(stuck, eta / 2, eta)
                if self.back:
                    z = torch.where(per_row(stuck, z), best, z)
                    grad = torch.where(per_row(stuck, z), best_grad, grad)
                    value = torch.where(stuck, best_value, value)
                halved, last_best = stuck, best_value.clone()
                gains, mark = torch.zeros_like(gains), k + 1
        pace.end(rows)
