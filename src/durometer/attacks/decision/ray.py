"""Ray: search by labels in Linf, after RayS (Chen & Gu, 2020).

A row has a target point T that reaches the goal. The path clip(T, origin - r, origin + r) leads to
it from the clean input, and turns at some radius R; R <= eps is a success. T is improved block by
block: mirrored to the far side of the box in a block of features, it is kept if the path still
reaches the goal a little before R.

    blocks    1, 2, 4, ... strips of all features; then random squares of a picture or random
              subsets of a row's features, four at once, of which those that help are joined
    a step    1 label at max(eps, 0.998 R); where it helps, 1 label 15 % of the way to eps; where
              that helps too, 5 halvings
    a start   the nearest donors of each label in turn, else random points of the box; the next one
              when R has not shrunk for 400 labels

What a reader would get wrong: points outside the ball are asked most of the time. They steer; only
points inside are candidates.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.attacks.base import ball
from durometer.attacks.decision.labels import Labels, blocks
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion

_AT_ONCE = 4
_TICK = 0.002  # of R: what a mirrored block must gain
_STEP = 0.15  # of the way to eps
_STRIPS = 800  # labels after which strips make way for squares
_STALL = 400  # labels without a gain, after which another start is taken
_GAIN = 0.01  # of R


@noun
class Ray:
    """Search that sees labels only, in Linf balls (after RayS, Chen & Gu 2020).

    Args:
        queries: Labels asked for one row, at most. 3,000 is the default of `Standard`.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.Ray(200)).metric("robust").value
    0.3125
    """

    queries: int = 3000

    @property
    def needs(self) -> Needs:
        return Needs(ANY, norms=(math.inf,), donors=True)

    def __call__(self, problem: Problem) -> None:
        for rows in blocks(problem, 4 * _AT_ONCE):
            _Rays(problem, rows, self.queries).run()


class _Rays:
    """The rows of one block, each with its target point."""

    def __init__(self, problem: Problem, rows: Tensor, queries: int) -> None:
        self.problem, self.labels = problem, Labels(problem, rows, queries)
        region = ball(problem, rows)
        self.rows, self.eps, self.size = rows, region.eps, region.origin.shape[1]
        self.target = region.origin.clone()  # T
        self.radius = region.origin.new_full((len(rows),), math.inf)  # R; infinite: no T yet
        self.mark = self.radius.clone()  # R at the last clear gain
        self.since = torch.zeros_like(rows)  # labels used at that time
        self.level, self.block = torch.zeros_like(rows), torch.zeros_like(rows)
        self.cycles = torch.zeros_like(rows)
        shape = region.shape
        self.canvas = shape if len(shape) == 3 and min(shape[1:]) > 1 else None

    def run(self) -> None:
        while self._keep(self.labels.alive(self.rows)):
            used = self.labels.used[self.rows]
            shrunk = self.radius < self.mark * (1 - _GAIN)
            self.mark = torch.where(shrunk, self.radius, self.mark)
            self.since = torch.where(shrunk, used, self.since)
            lost = self.radius.isinf() | (used - self.since > _STALL)
            if bool(lost.any()):
                self._start(lost.nonzero()[:, 0])
            if bool((~lost).any()):
                self._improve((~lost).nonzero()[:, 0])

    def _keep(self, alive: Tensor) -> bool:
        at = alive.nonzero()[:, 0]
        if len(at) < len(self.rows):
            for name in ("rows", "target", "radius", "mark", "since", "level", "block", "cycles"):
                setattr(self, name, getattr(self, name)[at])
        return bool(len(at))

    def _region(self, at: Tensor) -> LpRegion:
        return ball(self.problem, self.rows[at])

    def _path(self, at: Tensor, radius: Tensor, target: Tensor) -> Tensor:
        """(n, D): how far the way to the target has come at this radius."""
        origin = self._region(at).origin
        return target.maximum(origin - radius[:, None]).minimum(origin + radius[:, None])

    def _hits(self, at: Tensor, radius: Tensor, target: Tensor) -> Tensor:
        return self.labels.hits(self.rows[at], self._path(at, radius, target))

    def _start(self, at: Tensor) -> None:
        """Another target point for these rows, if it reaches the goal at all."""
        region = self._region(at)
        target = self.labels.start(self.rows[at])
        far = (target - region.origin).abs().amax(1)
        near = torch.full_like(far, self.eps)
        self._hits(at, near, target)  # all of it that lies in the ball
        fine = self._hits(at, far.maximum(near), target)
        at, target, far, near = at[fine], target[fine], far[fine], near[fine]
        self.target[at], self.radius[at] = target, self._halved(at, target, near, far, 8)
        self.mark[at], self.since[at] = self.radius[at], self.labels.used[self.rows[at]]
        self.level[at], self.block[at], self.cycles[at] = 0, 0, 0

    def _halved(self, at: Tensor, target: Tensor, low: Tensor, high: Tensor, steps: int) -> Tensor:
        """The smallest radius found between these two at which the path reaches the goal."""
        for _ in range(steps):
            middle = (low + high) / 2
            hit = self._hits(at, middle, target)
            low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
        return high

    def _improve(self, at: Tensor) -> None:
        masks, some = self._masks(at)  # (n, K, D), (n, K)
        region, target = self._region(at), self.target[at]
        mirrored = torch.where(target > region.origin, region.low, region.high).expand_as(target)
        radius = (self.radius[at] * (1 - _TICK)).clamp_min(self.eps)
        row, k = some.nonzero(as_tuple=True)
        tried = torch.where(masks[row, k], mirrored[row], target[row])
        hit = torch.zeros_like(some)
        hit[row, k] = self._hits(at[row], radius[row], tried)
        good = hit.any(1).nonzero()[:, 0]
        if not len(good):
            return
        at, radius, mirrored, target = at[good], radius[good], mirrored[good], target[good]
        hit, masks = hit[good], masks[good]
        first = masks[torch.arange(len(good), device=at.device), hit.int().argmax(1)]
        best = torch.where(first, mirrored, target)
        several = (hit.sum(1) > 1).nonzero()[:, 0]
        if len(several):
            every = (masks[several] & hit[several][..., None]).any(1)
            joined = torch.where(every, mirrored[several], target[several])
            fine = self._hits(at[several], radius[several], joined)
            best[several[fine]] = joined[fine]
        self.target[at], self.radius[at] = best, radius
        nearer = radius - (radius - self.eps) * _STEP
        more = self._hits(at, nearer, best).nonzero()[:, 0]
        if len(more):
            low = torch.full_like(nearer[more], self.eps)
            found = self._halved(at[more], best[more], low, nearer[more], 5)
            self.radius[at[more]] = found

    def _masks(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """(n, K, D): the blocks to mirror, and (n, K) which of them there are: one strip, or four
        squares or subsets."""
        used = self.labels.used[self.rows[at]]
        strips = (used < _STRIPS) & (self.cycles[at] == 0)
        count = _AT_ONCE if bool((~strips).any()) else 1
        masks = torch.zeros(len(at), count, self.size, dtype=torch.bool, device=at.device)
        some = torch.ones(len(at), count, dtype=torch.bool, device=at.device)
        some[strips, 1:] = False
        plain, other = strips.nonzero()[:, 0], (~strips).nonzero()[:, 0]
        if len(plain):
            masks[plain, 0] = self._strip(at[plain])
        if len(other):
            masks[other] = self._random_blocks(at[other], used[other])
        return masks, some

    def _strip(self, at: Tensor) -> Tensor:
        """(n, D): the next strip of each row."""
        level, block = self.level[at], self.block[at]
        strips = 2**level
        place = torch.arange(self.size, device=at.device)
        begin, end = (
            torch.div(self.size * b, strips, rounding_mode="floor") for b in (block, block + 1)
        )
        mask = (place >= begin[:, None]) & (place < end[:, None])
        block = block + 1
        level = torch.where(block >= strips, level + 1, level)
        self.block[at] = torch.where(block >= strips, 0, block)
        over = 2**level > self.size
        self.cycles[at] += over.long()
        self.level[at] = torch.where(over, 0, level)
        return mask

    def _random_blocks(self, at: Tensor, used: Tensor) -> Tensor:
        """(n, 4, D): squares over all channels of a picture, else subsets; smaller with time."""
        rows, n = self.rows[at], len(at)
        draw = self.problem.random.uniform
        shrink = 0.5 * (200 / (200 + used.double())).sqrt()
        if self.canvas is None:
            u = draw(rows, _AT_ONCE * (self.size + 1)).reshape(n, _AT_ONCE, self.size + 1)
            most = (self.size * shrink).clamp_min(1.0)[:, None]
            share = most ** u[..., 0] / self.size  # log-uniform between one feature and `most`
            mask = u[..., 1:] < share[..., None]
            least = torch.zeros_like(mask).scatter_(2, u[..., 1:].argmin(2, keepdim=True), True)
            return mask | least
        channels, height, width = self.canvas
        u = draw(rows, _AT_ONCE * 3).reshape(n, _AT_ONCE, 3)
        most = (max(height, width) * shrink).clamp_min(2.0)[:, None]
        side = (most ** u[..., 0]).round().clamp(1, min(height, width))
        square = None
        for which, length in ((1, height), (2, width)):
            begin = (u[..., which] * (length + side - 1)).floor() - side + 1
            place = torch.arange(length, device=at.device)
            inside = (place >= begin[..., None]) & (place < (begin + side)[..., None])
            square = inside if square is None else square[..., :, None] & inside[..., None, :]
        assert square is not None
        flat = square.reshape(n, _AT_ONCE, 1, height * width)
        return flat.expand(-1, -1, channels, -1).reshape(n, _AT_ONCE, self.size)
