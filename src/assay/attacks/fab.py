"""FAB (Croce & Hein 2020): the fast adaptive boundary attack, which looks for the nearest success.

With f(z) = z_t - max_i z_i (target t, i outside the goal) linearised at z, both z and the clean
input z0 are projected on the plane {f = 0} intersected with the box, by d and d0; the next point is

    (1 - alpha)(z + eta d) + alpha (z0 + eta d0),   alpha = min(|d| / (|d| + |d0|), alpha_max),

and a point across the boundary is drawn back to z0 + beta (z - z0) before the next linearisation.

What a reader would get wrong: FAB does not know eps. It walks outside the region too, and the
referee waits until the distance has come down to eps; the last query of a row is its nearest
crossing, projected into the region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from assay.attacks.base import ball, compact, single_targets
from assay.errors import AssayError
from assay.goals import reached
from assay.problem import Needs, Problem
from assay.spaces.lp import LpRegion
from assay.spaces.region import per_row

_DUAL = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}


@dataclass(frozen=True)
class FAB:
    """`steps` linearisations for each of the `targets` likeliest target classes (FAB-T).

    `targets=None` is the untargeted variant: each step takes the nearest of all boundaries, at the
    price of one backward pass per class. Restarts begin at a random point half-way into the region.
    """

    steps: int = 100
    targets: int | None = 9
    restarts: int = 1
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True, norms=(1.0, 2.0, math.inf))

    def __call__(self, problem: Problem) -> None:
        if self.targets is not None and self.targets < 1:
            raise AssayError(
                f"FAB(targets={self.targets}): expected at least 1, or None for all at once"
            )
        views = [problem] if self.targets is None else (
            problem.aim(targets=mask) for mask in single_targets(problem, self.targets)
        )  # fmt: skip
        for view in views:
            for restart in range(self.restarts):
                if len(view.open):
                    self._run(view, clean=restart == 0)

    def _run(self, problem: Problem, clean: bool) -> None:
        rows = problem.open
        region = problem.region(rows)
        z = region.origin.clone()
        if not clean:
            z = (z + region.random(problem.random, rows)) / 2
        walk = _Walk(problem, rows, z)
        for _ in range(self.steps):
            # Who crossed last time has probably crossed again: a forward pass tells, and the
            # gradient is then taken where it is wanted. For all others the gradient query tells.
            if bool(walk.crossed.any()):
                walk.look(walk.crossed.clone(), self.beta)
            f, w, over = _linearise(problem, walk.rows, walk.z, self.targets is None)
            late = over & ~walk.crossed
            if bool(late.any()):
                walk.draw_back(late, self.beta)
                walk.crossed |= late
                again = late & problem.alive(walk.rows)
                f[again], w[again], _ = _linearise(
                    problem, walk.rows[again], walk.z[again], self.targets is None
                )
            f, w = walk.drop_solved(f, w)
            if not len(walk.rows):
                return
            walk.z = self._step(ball(problem, walk.rows), walk.z, f, w)
        walk.look(torch.ones_like(walk.crossed), self.beta)
        rows, nearest = compact(walk.length.isfinite(), walk.rows, walk.nearest)
        if len(rows):
            problem.submit(rows, problem.region(rows).project(nearest))

    def _step(self, region: LpRegion, z: Tensor, f: Tensor, w: Tensor) -> Tensor:
        """From z to (just across) the plane f + <w, . - z> = 0, biased towards the clean input."""
        origin, p = region.origin, region.p
        change = torch.cat([-f, -f - (w * (origin - z)).sum(1)])
        d = to_plane(torch.cat([z, origin]), torch.cat([w, w]), change, region.low, region.high, p)
        size = d.norm(p, dim=1, keepdim=True).clamp_min(1e-8)
        (d, d0), (size, size0) = d.chunk(2), size.chunk(2)
        alpha = (size / (size + size0)).clamp_max(self.alpha_max)
        z = (1 - alpha) * (z + self.eta * d) + alpha * (origin + self.eta * d0)
        return z.clamp(region.low, region.high)


@dataclass(eq=False)
class _Walk:
    """Where each open row stands, and the nearest point at which it has crossed the boundary."""

    problem: Problem
    rows: Tensor
    z: Tensor

    def __post_init__(self) -> None:
        self.crossed = torch.zeros_like(self.rows, dtype=torch.bool)  # at the last look
        self.nearest = self.z.clone()
        self.length = self.z.new_full((len(self.z),), math.inf)

    def look(self, who: Tensor, beta: float) -> None:
        """Ask for the class at z of these rows, and draw those back that have crossed."""
        rows = self.rows[who]
        goal = self.problem.referee.targets[rows]
        seen = self.problem.value(rows, self.z[who], lambda z, _: reached(z, goal).to(z.dtype))
        self.crossed = torch.zeros_like(self.crossed)
        self.crossed[who] = seen > 0
        self.draw_back(self.crossed, beta)
        self.drop_solved()

    def draw_back(self, who: Tensor, beta: float) -> None:
        """Note how near the crossing was, and go back towards the clean input."""
        region = self.problem.region(self.rows)
        d = self.z - region.origin
        length = d.norm(region.p, dim=1)
        better = who & (length < self.length)
        self.length = torch.where(better, length, self.length)
        self.nearest = torch.where(per_row(better, d), self.z, self.nearest)
        self.z = torch.where(per_row(who, d), region.origin + beta * d, self.z)

    def drop_solved(self, *others: Tensor) -> tuple[Tensor, ...]:
        """Forget the rows that are solved or have no budget left, in `others` too."""
        alive = self.problem.alive(self.rows)
        if bool(alive.all()):
            return others
        self.rows, self.z, self.crossed, self.nearest, self.length, *others_left = compact(
            alive, self.rows, self.z, self.crossed, self.nearest, self.length, *others
        )
        return tuple(others_left)


def _linearise(
    problem: Problem, rows: Tensor, z: Tensor, every: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """f (n,) and its gradient (n, D) at z, for one target or the nearest; who has crossed."""
    goal = problem.referee.targets[rows]
    over = torch.zeros_like(rows, dtype=torch.bool)
    if every:
        logits, slopes = problem.jacobian(rows, z)
        best = logits.masked_fill(goal, -torch.inf).argmax(1, keepdim=True)
        f = logits - logits.gather(1, best)
        slopes = slopes - slopes.gather(1, best[:, :, None].expand(-1, -1, slopes.shape[2]))
        steep = slopes.norm(_DUAL[problem.region(rows).p], dim=2)
        away = (f.abs() / steep.clamp_min(1e-12)).masked_fill(~problem.targets[rows], torch.inf)
        t = away.argmin(1, keepdim=True)
        w = slopes.gather(1, t[:, :, None].expand(-1, -1, slopes.shape[2]))[:, 0]
        return f.gather(1, t)[:, 0].to(z.dtype), w, reached(logits, goal)

    def boundary(logits: Tensor, target: Tensor) -> Tensor:
        over.copy_(reached(logits.detach(), goal))
        return (logits * target).sum(1) - logits.masked_fill(goal, -torch.inf).amax(1)

    f, w = problem.value_and_grad(rows, z, boundary)
    return f.to(z.dtype), w, over


def to_plane(z: Tensor, w: Tensor, change: Tensor, low: Tensor, high: Tensor, p: float) -> Tensor:
    """The smallest d in the p norm with <w, d> = change and z + d in the box.

    Where the box does not let the plane be reached, d goes as far as it can. Every feature moves in
    its own right direction, so only sizes are sought: with a = |w| and the room r to the box,

        Linf  min(t, r)        L2  min(t a, r)        L1  r for the largest a, as long as needed.
    """
    sign = w.sign() * per_row(change.sign(), w)
    room = torch.where(sign > 0, high - z, z - low).masked_fill(sign == 0, 0.0).clamp_min(0.0)
    top = w.abs().amax(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    a, need = w.abs() / top, change.abs()[:, None] / top
    if p == math.inf:
        return sign * _fill(a, torch.ones_like(a), room, need)
    if p == 2.0:
        return sign * _fill(a, a, room, need)
    a, order = a.sort(dim=1, descending=True)
    space = room.gather(1, order)
    gain = torch.where(space > 0, a * space, 0.0)  # not 0 * inf
    left = need - torch.cat([torch.zeros_like(need), gain.cumsum(1)[:, :-1]], dim=1)
    size = torch.where(left > 0, space.minimum(left / a.clamp_min(1e-30)), 0.0)
    return sign * torch.zeros_like(size).scatter_(1, order, size)


def _fill(a: Tensor, rate: Tensor, room: Tensor, need: Tensor) -> Tensor:
    """min(t rate, room) with sum a * size = need, by Newton's method on t.

    The sum is concave and piecewise linear in t, so Newton from t = 0 never overshoots and ends at
    the exact t, after a handful of rounds and without sorting.
    """
    free = room > 0
    size = torch.zeros_like(room)
    for _ in range(room.shape[1] + 1):
        fixed = torch.where(free, 0.0, a * room).sum(1, keepdim=True)
        slope = (a * rate * free).sum(1, keepdim=True)
        t = ((need - fixed) / slope).clamp(0.0, 1e30)
        size = torch.where(free, t.nan_to_num(0.0) * rate, room)
        hit = free & (size >= room)
        if not bool(hit.any()):
            break
        free &= ~hit
    return size.minimum(room)
