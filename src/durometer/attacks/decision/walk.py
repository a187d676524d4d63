"""Walk: search by labels where few features change (L0, L1), and inside patches and windows.

A row has a point T on the far side of the boundary, and every change has a size: the number of
changed features (L0), their sum (L1), or what is changed outside of the patch (L2). T comes nearer
by two kinds of steps in turn,

    normal    labels of noise around T give the boundary's normal w; then the points that are
              steepest along w for their size are asked, 0.98 of T's first, then halved: the
              features of largest |w| moved to the end of the box (L1), of largest |w| times their
              room (L0), all inside the patch; and T moved along w and cut to size
    undo      four points at once: T with some of what it changes undone, or undone and other
              features moved along w; the smallest that reaches the goal is kept

and of both only sizes below T's are kept; a T that no longer shrinks gives way to the next donor.

What a reader would get wrong: points outside the region are asked most of the time, decoded in a
wider one (without ball, patch or levels). Only points inside are candidates, judged by the region
itself.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.attacks.decision.labels import Labels, blocks, box, normal_by_labels
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.images import ImageRegion
from durometer.spaces.quantised import QuantisedRegion
from durometer.spaces.region import Region

_NOISE = 0.0025  # of the change's length, for each feature
_FIRST = 15  # labels of the first normal
_STARTS = 3
_STALL = 6  # steps
_MEMORY = 0.5  # weight of the last normal in the next one
_CYCLE = 5  # steps, the first of which is along the normal
_GAIN = 0.005
_AT_ONCE = 4
_PUSH = (0.1, 0.3, 1.0)  # of the change's length: how far T is moved along the normal


@runtime_checkable
class Masked(Protocol):
    """A region whose points differ from the clean row inside a mask only."""

    def inside(self, change: Tensor) -> Tensor:
        """(n, D) bool: where a change may be, for the row that has this one (n, D)."""
        ...


@noun
class Walk:
    """Search that sees labels only, in L0 and L1 balls, patches and windows.

    Args:
        queries: Labels asked for one row, at most. 3,000 is the default of `Standard`.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.L1(0.5), attack=du.Walk(300)).metric("robust").value < 1
    True
    """

    queries: int = 3000

    @property
    def needs(self) -> Needs:
        return Needs(ANY, donors=True)

    def __call__(self, problem: Problem) -> None:
        if not walks(problem.regions):
            raise Unsupported(
                "Walk works in L1, L0, patches and windows; use Ray in Linf, Circle in L2, Mirror "
                "in a table"
            )
        for rows in blocks(problem, 4 * _AT_ONCE):
            _Walks(problem, rows, self.queries).run()


def walks(region: Region) -> bool:
    """Is it a region that `Walk` knows?"""
    inner = region.inner if isinstance(region, QuantisedRegion) else region
    return (isinstance(inner, LpRegion) and inner.p in (0.0, 1.0)) or (
        isinstance(inner, Masked) and isinstance(inner, ImageRegion)
    )


class _Walks:
    """The rows of one block, each with a point beyond the boundary."""

    def __init__(self, problem: Problem, rows: Tensor, queries: int) -> None:
        self.problem, self.labels, self.rows = problem, Labels(problem, rows, queries), rows
        region = problem.region(rows)
        inner = region.inner if isinstance(region, QuantisedRegion) else region
        self.masked = isinstance(inner, Masked)
        self.least = 0.0 if self.masked else region.eps
        self.point = region.origin.clone()  # T
        self.radius = region.origin.new_full((len(rows),), math.inf)  # its size; infinite: no T yet
        self.mark = self.radius.clone()  # the smallest so far
        self.normal = torch.zeros_like(self.point)  # the last one
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
            for step, turn in ((self._along, 0), (self._undo, 1)):
                go = self.radius.isfinite() & (
                    self.steps % _CYCLE > 0 if turn else self.steps % _CYCLE == 0
                )
                go = (go & self.labels.alive(self.rows)).nonzero()[:, 0]
                if len(go):
                    step(go)
            self.steps += 1

    def _keep(self, alive: Tensor) -> bool:
        at = alive.nonzero()[:, 0]
        if len(at) < len(self.rows):
            for name in ("rows", "point", "radius", "mark", "normal", "stalled", "steps"):
                setattr(self, name, getattr(self, name)[at])
        return bool(len(at))

    def _region(self, at: Tensor) -> Region:
        return self.problem.region(self.rows[at])

    def _inner(self, at: Tensor) -> Region:
        region = self._region(at)
        return region.inner if isinstance(region, QuantisedRegion) else region

    def _hits(self, at: Tensor, z: Tensor) -> Tensor:
        return self.labels.hits(self.rows[at], z, wide=True)

    def _inside(self, at: Tensor, z: Tensor) -> None:
        """Ask the nearest points of the regions themselves: the only ones that can win."""
        self.labels.hits(self.rows[at], self._region(at).project(z))

    def _size(self, at: Tensor, z: Tensor) -> Tensor:
        """(n,): of changes."""
        region = self._inner(at)
        change = z - region.origin
        if isinstance(region, Masked):
            outside = change.masked_fill(region.inside(change), 0.0)
            far: Tensor = torch.linalg.vector_norm(outside, dim=1)
            return far
        size: Tensor = (change != 0).to(z.dtype) if region.p == 0.0 else change.abs()
        return size.sum(1)

    def _cut(self, at: Tensor, z: Tensor, radius: Tensor) -> Tensor:
        """Points near z inside the box whose size is at most this (n,)."""
        region = self._inner(at)
        low, high = box(region)
        change = z.maximum(low).minimum(high) - region.origin
        if isinstance(region, Masked):
            free = region.inside(change)
            far = torch.linalg.vector_norm(change.masked_fill(free, 0.0), dim=1)
            share = (radius / far.clamp_min(1e-30)).clamp_max(1.0)[:, None]
            return region.origin + torch.where(free, change, share * change)
        size = change.abs()
        if region.p == 0.0:
            rank = size.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
            return region.origin + change.masked_fill(rank >= radius[:, None], 0.0)
        ordered = size.sort(dim=1, descending=True).values
        total = ordered.cumsum(1)
        count = torch.arange(1, size.shape[1] + 1, device=z.device)
        shrunk = (total - radius[:, None]) / count
        kept = ((ordered > shrunk) * count).amax(1).clamp_min(1)
        less = shrunk.gather(1, kept[:, None] - 1).clamp_min(0.0)
        return region.origin + (size - less).clamp_min(0.0) * change.sign()

    def _steepest(self, at: Tensor, normal: Tensor, radius: Tensor) -> Tensor:
        """The points of this size (n,) that lie furthest along the normal."""
        region = self._inner(at)
        low, high = box(region)
        end = torch.where(normal > 0, high.expand_as(normal), low.expand_as(normal))
        room = (end - region.origin) * (normal != 0)
        if isinstance(region, Masked):
            gain = room * normal  # never negative
            free = region.inside(gain.sqrt())
            length = torch.linalg.vector_norm(normal.masked_fill(free, 0.0), dim=1, keepdim=True)
            pushed = normal * (radius[:, None] / length.clamp_min(1e-30))
            z = region.origin + torch.where(free, room, pushed)
            return z.maximum(low).minimum(high)
        key = normal.abs() * (room.abs() if region.p == 0.0 else room != 0)
        order = key.argsort(dim=1, descending=True, stable=True)
        price = torch.ones_like(room) if region.p == 0.0 else room.abs().gather(1, order)
        before = price.cumsum(1) - price
        left = radius[:, None] - before
        share = (left / price.clamp_min(1e-30)).clamp(0.0, 1.0)
        share = (share >= 1.0).to(share.dtype) if region.p == 0.0 else share
        return region.origin + room * torch.zeros_like(share).scatter(1, order, share)

    def _start(self, at: Tensor, nearest: bool) -> None:
        """A donor of each row, brought near; kept if it is nearer (`nearest`), or anyhow."""
        point = self.labels.start(self.rows[at])
        self._inside(at, point)
        fine = self._hits(at, point)
        at, point = at[fine], point[fine]
        inside = self._region(at).project(point)
        low, high = torch.zeros_like(self.radius[at])[:, None], torch.ones_like(point[:, :1])
        for _ in range(6):
            middle = (low + high) / 2
            hit = self._hits(at, inside + middle * (point - inside))[:, None]
            low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
        point = inside + high * (point - inside)
        size = self._size(at, point)
        better = size < self.radius[at] if nearest else torch.ones_like(size, dtype=torch.bool)
        at, point, size = at[better], point[better], size[better]
        self.point[at], self.radius[at], self.mark[at] = point, size, size
        self.stalled[at], self.steps[at], self.normal[at] = 0, 0, 0.0

    def _take(self, at: Tensor, point: Tensor, hit: Tensor) -> None:
        """Points that reach the goal become T where they are smaller."""
        size = self._size(at, point)
        better = hit & (size < self.radius[at])
        at, point, size = at[better], point[better], size[better]
        self.point[at], self.radius[at] = point, size

    def _along(self, at: Tensor) -> None:
        origin, point = self._inner(at).origin, self.point[at]
        far = torch.linalg.vector_norm(point - origin, dim=1, keepdim=True)
        scale = (far * _NOISE * math.sqrt(point.shape[1])).clamp_min(1e-6)
        wanted = (_FIRST * (1 + self.steps[at].double() / _CYCLE).sqrt()).long()
        low, high = box(self._inner(at))
        normal = normal_by_labels(
            self.labels, self.rows[at], point, scale, wanted, low, high, wide=True
        )
        normal = normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True).clamp_min(1e-30)
        normal = normal + _MEMORY * self.normal[at]
        normal = normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True).clamp_min(1e-30)
        self.normal[at] = normal
        radius = self._below(at)

        def on(which: int, k: Tensor, radius: Tensor) -> Tensor:
            if which == 0:
                return self._steepest(at[k], normal[k], radius)
            pushed = point[k] + _PUSH[which - 1] * far[k] * normal[k]
            return self._cut(at[k], pushed, radius)

        every = torch.arange(len(at), device=at.device)
        least = torch.full_like(radius, self.least)
        for which in (0, 1):  # inside the region itself
            self._inside(at, on(which, every, least))
        left, chosen = every, torch.full_like(at, -1)
        for which in range(1 + len(_PUSH)):
            if len(left):
                hit = self._hits(at[left], on(which, left, radius[left]))
                chosen[left[hit]] = which
                left = left[~hit]
        for which in range(1 + len(_PUSH)):
            k = (chosen == which).nonzero()[:, 0]
            if not len(k):
                continue
            low_r, high_r = least[k], radius[k]
            for _ in range(6):
                middle = (low_r + high_r) / 2
                hit = self._hits(at[k], on(which, k, middle))
                low_r, high_r = torch.where(hit, low_r, middle), torch.where(hit, middle, high_r)
            self._take(at[k], on(which, k, high_r), torch.ones_like(k, dtype=torch.bool))

    def _below(self, at: Tensor) -> Tensor:
        """(n,): the size that a point must have to be worth asking."""
        count = not self.masked and self._inner(at).p == 0.0
        radius = self.radius[at] - 1 if count else 0.98 * self.radius[at]
        return radius.clamp_min(self.least)

    def _undo(self, at: Tensor) -> None:
        region, point = self._inner(at), self.point[at]
        change = point - region.origin
        paid = change != 0
        if isinstance(region, Masked):
            paid &= ~region.inside(change)
        n, size = point.shape
        u = self.problem.random.uniform(self.rows[at], _AT_ONCE * (size + 2), point.dtype)
        u = u.reshape(n, _AT_ONCE, size + 2)
        count = paid.sum(1)[:, None].clamp_min(1)
        share = (count / 2.0).clamp_min(1.0) ** u[..., 0] / count  # log-uniform: one to half of it
        fate = u[..., 2:].masked_fill(~paid[:, None], 1.0)
        gone = paid[:, None] & (fate < share[..., None])
        gone |= (
            torch.zeros_like(gone).scatter_(2, fate.argmin(2, keepdim=True), True) & paid[:, None]
        )
        tried = torch.where(gone, region.origin[:, None], point[:, None])
        low, high = box(region)
        normal = self.normal[at]
        end = torch.where(normal > 0, high.expand_as(point), low.expand_as(point))
        key = (normal * (end - point)).abs()[:, None] * (u[..., 2:] < 0.5)
        moved = torch.zeros_like(gone).scatter_(2, key.argmax(2, keepdim=True), True)
        swap = (u[..., 1:2] < 0.5) & moved & (gone.sum(2, keepdim=True) > 1) & (key > 0)
        tried = torch.where(swap, end[:, None], tried)
        flat = at.repeat_interleave(_AT_ONCE)
        hit = self._hits(flat, tried.flatten(0, 1))
        sizes = self._size(flat, tried.flatten(0, 1)).masked_fill(~hit, math.inf)
        sizes, hit = sizes.reshape(n, _AT_ONCE), hit.reshape(n, _AT_ONCE)
        best = sizes.argmin(1)
        every = torch.arange(n, device=at.device)
        self._take(at, tried[every, best], hit[every, best])
        won = hit.any(1).nonzero()[:, 0]
        if len(won):
            self._inside(at[won], self.point[at[won]])
