"""Circle: search by labels in L2, after CGBA (Reza et al., 2023).

A row has a point T on the far side of the boundary, at distance R. Labels of noise around T give
the boundary's normal; in the plane of that normal and of the direction e to T the search moves on
the circle through the clean input and T,

    origin + R cos(a) (cos(a) e + sin(a) v),    v the part of the normal that is not along e

whose points come nearer as the angle a grows: the largest angle that still reaches the goal is
found by halving, and the rest of the way straight towards the clean input likewise.

    normal    30 sqrt(step) labels; their mean is taken off (noise that mostly hits says little),
              and what would leave the box is left out
    a step    1 label at the angle of distance eps, 7 halvings of it, 4 of the straight way
    a start   five donors of different labels, each brought near by 7 halvings; the nearest is
              walked. Four steps that gain less than 1 %: the next donor

What a reader would get wrong: the circle is cut by the box, so a point of it may be nearer than its
angle says. Distances are those of the points as they are, after clipping.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.attacks.base import ball
from durometer.attacks.decision.labels import TURN, Labels, blocks, normal_by_labels
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion

_NOISE = 0.0025  # of R, for each feature: how far around T the labels are asked
_FIRST = 30  # labels of the first normal
_STARTS = 5
_STALL = 4  # steps
_GAIN = 0.01


@noun
class Circle:
    """Search that sees labels only, in L2 balls (after CGBA, Reza et al. 2023).

    Args:
        queries: Labels asked for one row, at most. 3,000 is the default of `Standard`.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.L2(0.3), attack=du.Circle(300)).metric("robust").value
    0.25
    """

    queries: int = 3000

    @property
    def needs(self) -> Needs:
        return Needs(ANY, norms=(2.0,), donors=True)

    def __call__(self, problem: Problem) -> None:
        for rows in blocks(problem, 2 * TURN):
            _Circles(problem, rows, self.queries).run()


class _Circles:
    """The rows of one block, each with a point beyond the boundary."""

    def __init__(self, problem: Problem, rows: Tensor, queries: int) -> None:
        self.problem, self.labels, self.rows = problem, Labels(problem, rows, queries), rows
        region = ball(problem, rows)
        self.eps, self.size = region.eps, region.origin.shape[1]
        self.point = region.origin.clone()  # T
        self.radius = region.origin.new_full((len(rows),), math.inf)  # R; infinite: no T yet
        self.mark = self.radius.clone()  # the smallest R so far
        self.stalled = torch.zeros_like(rows)  # steps without a gain
        self.steps = torch.zeros_like(rows)  # since the start

    def run(self) -> None:
        for _ in range(_STARTS):
            if not self._keep(self.labels.alive(self.rows)):
                return
            self._start(torch.arange(len(self.rows), device=self.rows.device), nearest=True)
        while self._keep(self.labels.alive(self.rows)):
            shrunk = self.radius < self.mark * (1 - _GAIN)
            self.stalled = torch.where(shrunk, 0, self.stalled + 1)
            self.mark = torch.minimum(self.mark, self.radius)
            lost = self.radius.isinf() | (self.stalled > _STALL)
            if bool(lost.any()):
                self._start(lost.nonzero()[:, 0], nearest=False)
            go = self.radius.isfinite().nonzero()[:, 0]
            if len(go):
                self._step(go)

    def _keep(self, alive: Tensor) -> bool:
        at = alive.nonzero()[:, 0]
        if len(at) < len(self.rows):
            for name in ("rows", "point", "radius", "mark", "stalled", "steps"):
                setattr(self, name, getattr(self, name)[at])
        return bool(len(at))

    def _region(self, at: Tensor) -> LpRegion:
        return ball(self.problem, self.rows[at])

    def _hits(self, at: Tensor, z: Tensor) -> Tensor:
        return self.labels.hits(self.rows[at], z)

    def _start(self, at: Tensor, nearest: bool) -> None:
        """A donor of each row, brought near; kept if it is nearer (`nearest`), or anyhow."""
        region = self._region(at)
        point = self.labels.start(self.rows[at])
        self._hits(at, region.project(point))
        fine = self._hits(at, point)
        at, point = at[fine], point[fine]
        point, far = self._straight(at, point, 7)
        better = far < self.radius[at] if nearest else torch.ones_like(far, dtype=torch.bool)
        at, point, far = at[better], point[better], far[better]
        self.point[at], self.radius[at], self.mark[at] = point, far, far
        self.stalled[at], self.steps[at] = 0, 0

    def _straight(self, at: Tensor, point: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Points that reach the goal, nearer on the straight way by halving; and how far."""
        origin = self._region(at).origin
        change = point - origin
        far = torch.linalg.vector_norm(change, dim=1, keepdim=True)
        low, high = (self.eps / far.clamp_min(1e-30)).clamp(max=0.999), torch.ones_like(far)
        for _ in range(steps):
            middle = (low + high) / 2
            hit = self._hits(at, origin + middle * change)[:, None]
            low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
        return origin + high * change, (high * far)[:, 0]

    def _step(self, at: Tensor) -> None:
        self.steps[at] += 1
        region, point = self._region(at), self.point[at]
        origin = region.origin
        change = point - origin
        far = torch.linalg.vector_norm(change, dim=1, keepdim=True)
        normal = self._normal(at, point, far)
        out = ((point <= region.low) & (normal < 0)) | ((point >= region.high) & (normal > 0))
        normal = normal.masked_fill(out, 0.0)
        e = change / far.clamp_min(1e-30)
        v = normal - (normal * e).sum(1, keepdim=True) * e
        v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True).clamp_min(1e-30)

        def on(angle: Tensor) -> Tensor:
            z: Tensor = origin + far * angle.cos() * (angle.cos() * e + angle.sin() * v)
            return z.maximum(region.low).minimum(region.high)

        low = torch.zeros_like(far)
        high = torch.arccos((self.eps / far.clamp_min(1e-30)).clamp(max=1.0))  # there it is eps far
        self._hits(at, region.project(on(high)))
        for _ in range(7):
            middle = (low + high) / 2
            hit = self._hits(at, on(middle))[:, None]
            low, high = torch.where(hit, middle, low), torch.where(hit, high, middle)
        self.point[at], self.radius[at] = self._straight(at, on(low), 4)

    def _normal(self, at: Tensor, point: Tensor, far: Tensor) -> Tensor:
        """(n, D): the direction in which labels reach the goal, from noise around the points."""
        region = self._region(at)
        wanted = (_FIRST * self.steps[at].double().sqrt()).long()
        scale = (far * _NOISE * math.sqrt(self.size)).clamp_min(1e-3 * self.eps)
        return normal_by_labels(
            self.labels, self.rows[at], point, scale, wanted, region.low, region.high
        )
