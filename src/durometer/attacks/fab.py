"""FAB (Croce & Hein 2020): the fast adaptive boundary attack, which looks for the nearest success.

With f(z) = z_t - max_i z_i (target t, i outside the goal) linearised at z, both z and the clean
input z0 are projected on the plane {f = 0} intersected with the box, by d and d0; the next point is

    (1 - alpha)(z + eta d) + alpha (z0 + eta d0),   alpha = min(|d| / (|d| + |d0|), alpha_max),

and a point across the boundary is drawn back to z0 + beta (z - z0) before the next linearisation.

What a reader would get wrong: the steps do not know eps. FAB walks outside the region too, and the
referee waits until the distance has come down to eps; the last query of a row is its nearest
crossing, projected into the region. The published code walks on to the last step; ours gives up a
walk that is not going to arrive. Walks slow down, so a doubling of the steps gains at most what the
doubling before it gained: with the nearest crossing at l after k steps and at l' after k / 2, it
ends no nearer than l (l / l')^log2(steps / k), and beyond eps that is no use. Not so in L1, where
walks come nearer in leaps: they are all taken to the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.attacks.base import ball, compact, overwrite
from durometer.attacks.combine import single_targets
from durometer.core.validation import noun
from durometer.goals.goal import reached
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.projections import level, room_to
from durometer.spaces.region import per_row

_DUAL = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}
_PACE = 0.8  # what a doubling of the steps may always gain: walks rest for a while, then go on


@noun
class FAB:
    """The fast adaptive boundary attack, which looks for the nearest adversarial point (Croce &
    Hein, 2020).

    Args:
        steps: Linearisations per run.
        targets: Number of target classes, the likeliest first (FAB-T); 9 as in AutoAttack. None:
            the untargeted version, with one backward pass per class and step.
        restarts: Runs per target; further ones start from a random point half-way into the region.
        alpha_max: Largest weight of the direction back to the clean input.
        eta: Overshoot beyond the linearised boundary.
        beta: How far a point across the boundary is drawn back to the clean input, as a factor.
        prune: Whether to give up runs that would end outside the region; not part of the published
            attack. Never done in L1.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.FAB(10)).metric("robust").value
    0.25
    """

    steps: int = 100
    targets: int | None = 9
    restarts: int = 1
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    prune: bool = True

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True, norms=(1.0, 2.0, math.inf), single_model=True)

    def __call__(self, problem: Problem) -> None:
        views = [problem] if self.targets is None else (
            problem.aim(targets=mask) for mask in single_targets(problem, self.targets)
        )  # fmt: skip
        for view in views:
            for restart in range(self.restarts):
                if len(view.open):
                    self._run(view, clean=restart == 0)

    def _run(self, problem: Problem, clean: bool) -> None:
        rows = problem.open
        region = ball(problem, rows)
        z = region.origin.clone()
        if not clean:
            z = (z + region.random(problem.random, rows)) / 2
        walk = _Walk(problem, rows, z)
        prune = self.prune and region.p != 1.0
        doublings = [self.steps >> j for j in (4, 3, 2, 1)] if prune else []
        for step in range(self.steps):
            if step or not clean:
                walk.look(self.beta)
            if not len(walk.rows):
                return
            if step and step in doublings:
                walk.drop_hopeless(math.log2(self.steps / step))
            f, w = walk.drop_solved(*_linearise(problem, walk.rows, walk.z, self.targets is None))
            if not len(walk.rows):
                return
            walk.z = self._step(ball(problem, walk.rows), walk.z, f, w)
        walk.look(self.beta)
        walk.hand_in(walk.length.isfinite())

    def _step(self, region: LpRegion, z: Tensor, f: Tensor, w: Tensor) -> Tensor:
        """From z to (just across) the plane f + <w, . - z> = 0, biased towards the clean input."""
        origin, p = region.origin, region.p
        change = torch.cat([-f, -f - (w * (origin - z)).sum(1)])
        d = to_plane(torch.cat([z, origin]), torch.cat([w, w]), change, region.low, region.high, p)
        size = _norm(d, p)[:, None].clamp_min(1e-8)
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
        self.nearest = self.z.clone()
        self.length = self.z.new_full((len(self.z),), math.inf)
        self.before = self.length  # at the last doubling of the steps

    def look(self, beta: float) -> None:
        """Ask for the class at z; draw back those that have crossed, noting how near that was."""
        goal = self.problem.goal[self.rows]
        seen = self.problem.value(self.rows, self.z, lambda z, _: reached(z, goal).to(z.dtype))
        across = seen > 0
        region = self.problem.region(self.rows)
        d = self.z - region.origin
        length = _norm(d, region.p).masked_fill_(~across, math.inf)
        overwrite(self.nearest, length < self.length, self.z)
        self.length = self.length.minimum(length)
        self.z = self.z.lerp(d.mul_(beta).add_(region.origin), across.to(d.dtype)[:, None])
        self.drop_solved()

    def drop_hopeless(self, doublings: float) -> None:
        """Give up the rows that would end outside the region: their pace times what is left."""
        end = self.length * (self.length / self.before).clamp_max(_PACE) ** doublings
        hopeless = end > ball(self.problem, self.rows).eps  # false where none has crossed yet
        self.hand_in(hopeless)
        self._keep(~hopeless)
        self.before = self.length.clone()

    def hand_in(self, mask: Tensor) -> None:
        """Submit the nearest crossings of these rows, projected into the region."""
        rows, nearest = compact(mask, self.rows, self.nearest)
        if len(rows):
            self.problem.submit(rows, self.problem.region(rows).project(nearest))

    def drop_solved(self, *others: Tensor) -> tuple[Tensor, ...]:
        """Forget the rows that are solved or have no budget left, in `others` too."""
        return self._keep(self.problem.alive(self.rows), *others)

    def _keep(self, mask: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        self.rows, self.z, self.nearest, self.length, self.before, *left = compact(
            mask, self.rows, self.z, self.nearest, self.length, self.before, *others
        )
        return tuple(left)


def _linearise(problem: Problem, rows: Tensor, z: Tensor, every: bool) -> tuple[Tensor, Tensor]:
    """f (n,) and its gradient (n, D) at z, for the row's one target or for the nearest of all."""
    goal = problem.goal[rows]
    if not every:
        f, w = problem.value_and_grad(
            rows, z,
            lambda logits, t: (logits * t).sum(1) - logits.masked_fill(goal, -torch.inf).amax(1),
        )  # fmt: skip
        return f.to(z.dtype), w
    logits, slopes = problem.jacobian(rows, z)
    best = logits.masked_fill(goal, -torch.inf).argmax(1, keepdim=True)
    f = logits - logits.gather(1, best)
    slopes = slopes - slopes.gather(1, best[:, :, None].expand(-1, -1, slopes.shape[2]))
    steep = torch.linalg.vector_norm(slopes, _DUAL[problem.region(rows).p], dim=2)
    away = (f.abs() / steep.clamp_min(1e-12)).masked_fill(~problem.targets[rows], torch.inf)
    t = away.argmin(1, keepdim=True)
    w = slopes.gather(1, t[:, :, None].expand(-1, -1, slopes.shape[2]))[:, 0]
    return f.gather(1, t)[:, 0].to(z.dtype), w


def _norm(d: Tensor, p: float) -> Tensor:
    """(n,); torch's own Linf norm takes ten times as long."""
    far: Tensor = d.abs().amax(1) if p == math.inf else torch.linalg.vector_norm(d, p, dim=1)
    return far


def to_plane(z: Tensor, w: Tensor, change: Tensor, low: Tensor, high: Tensor, p: float) -> Tensor:
    """The smallest d in the p norm with <w, d> = change and z + d in the box.

    Where the box does not let the plane be reached, d goes as far as it can. Every feature moves in
    its own right direction, so only sizes are sought: with a = |w| and the room r to the box,

        Linf  min(t, r)        L2  min(t a, r)        L1  r for the largest a, as long as needed.
    """
    sign = w.sign() * per_row(change.sign(), w)
    room = room_to(z, sign, low, high)
    top = w.abs().amax(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    a, need = w.abs() / top, change.abs()[:, None] / top
    if p != 1.0:
        rate = a if p == 2.0 else torch.ones_like(a)
        return sign * room.minimum(level(rate, room, need, a) * rate)
    a, order = a.sort(dim=1, descending=True)
    space = room.gather(1, order)
    gain = torch.where(space > 0, a * space, 0.0)  # not 0 * inf
    left = need - torch.cat([torch.zeros_like(need), gain.cumsum(1)[:, :-1]], dim=1)
    size = torch.where(left > 0, space.minimum(left / a.clamp_min(1e-30)), 0.0)
    return sign * torch.zeros_like(size).scatter_(1, order, size)
