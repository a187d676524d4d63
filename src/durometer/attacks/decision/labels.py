"""What every search by labels needs: questions that are counted, and points to start from.

A start is a point that reaches the goal somewhere, not near: a donor (`problem.donors`), the
nearest of each label in turn, and after these random points of the box.

What a reader would get wrong: a question that a row cannot pay for is answered with "no". That is
sound, since a search moves only where the answer is "yes".
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from durometer.problem.budget import Budget
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.images import ImageRegion
from durometer.spaces.quantised import QuantisedRegion
from durometer.spaces.region import Region

_HELD = 2**28  # bytes of candidates at once
TURN = 25  # labels of a normal that are asked at once


def blocks(problem: Problem, at_once: int) -> Iterator[Tensor]:
    """The open rows, so many at a time that `at_once` points of each fit into memory."""
    rows = problem.open
    width = max(1, problem.regions.origin.shape[1]) * 8 * at_once
    size = max(1, _HELD // width)
    return (rows[begin : begin + size] for begin in range(0, len(rows), size))


class Labels:
    """Questions about labels, at most `queries` of each row."""

    def __init__(self, problem: Problem, rows: Tensor, queries: int) -> None:
        self.problem = problem
        self.used = torch.zeros_like(problem.y)  # (n,) of all rows of the batch
        self._limit = Budget(forwards=queries)
        self._most = queries
        self._starts = _ranked(problem, rows)
        self._cursor = torch.zeros_like(problem.y)
        self._place = torch.full_like(problem.y, -1)  # of a row among those that are ranked
        self._place[rows] = torch.arange(len(rows), device=rows.device)

    def alive(self, rows: Tensor) -> Tensor:
        """Which of these rows are open and have questions left."""
        return self.problem.alive(rows) & (self.used[rows] < self._most)

    def hits(self, rows: Tensor, z: Tensor, wide: bool = False) -> Tensor:
        """(n,) bool: does the label of these points reach the goal? `rows` may repeat.

        `wide`: points outside of what the region can decode are asked as they are.
        """
        hit = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        may = self.problem.alive(rows) & self._limit.pays(self.used[rows], rows, 1)
        at = may.nonzero()[:, 0]
        if len(at):
            asked = rows[at]
            label = self.problem.predict(asked, z[at], wide)
            self.used.index_add_(0, asked, torch.ones_like(asked))
            wanted = self.problem.goal[asked].gather(1, label.clamp_min(0)[:, None])[:, 0]
            hit[at] = wanted & (label >= 0)
        return hit

    def start(self, rows: Tensor) -> Tensor:
        """(n, D): where each of these rows may begin next. It has not been asked about."""
        known, count, order = self._starts
        region = self.problem.region(rows)
        low, high = (side.expand_as(region.origin) for side in box(region))
        turn = self._cursor[rows]
        self._cursor[rows] = turn + 1
        mine = count[self._place[rows]]
        u = self.problem.random.uniform(rows, region.origin.shape[1] + 1, region.origin.dtype)
        u, share = u[:, 1:], u[:, :1]
        inside = low.isfinite() & high.isfinite()
        low = torch.where(inside, low, region.origin - 10 * region.eps)
        high = torch.where(inside, high, region.origin + 10 * region.eps)
        corner = torch.where(u < 0.5, low, high)
        mixed = torch.where(u < share, corner, region.origin)  # some features at an end of the box
        even = (turn % 3)[:, None]
        drawn = torch.where(
            even == 0, low + u * (high - low), torch.where(even == 1, corner, mixed)
        )
        if not len(known):
            return drawn
        which = order[self._place[rows]].gather(1, turn.clamp_max(order.shape[1] - 1)[:, None])[
            :, 0
        ]
        return torch.where((turn < mine)[:, None], known[which], drawn)


def box(region: Region) -> tuple[Tensor, Tensor]:
    """(1, D) each: the lowest and highest values of the search coordinates, whatever the ball."""
    region = region.inner if isinstance(region, QuantisedRegion) else region
    if isinstance(region, LpRegion):
        return region.low, region.high
    assert isinstance(region, ImageRegion)
    low, high = (torch.full_like(region.origin[:1], side) for side in (region.low, region.high))
    return low, high


def normal_by_labels(
    labels: Labels, rows: Tensor, point: Tensor, scale: Tensor, wanted: Tensor,
    low: Tensor, high: Tensor, wide: bool = False,
) -> Tensor:  # fmt: skip
    """(n, D): the direction in which labels reach the goal, from noise around these points.

    `scale` (n, 1) is the length of the noise, `wanted` (n,) how many labels each row asks. The mean
    of the labels is taken off: noise that mostly hits says little.
    """
    n, size = point.shape
    steered, drift = torch.zeros_like(point), torch.zeros_like(point)
    balance = point.new_zeros(n, 1)
    for begin in range(0, int(wanted.max()), TURN):
        mine = (wanted > begin).nonzero()[:, 0]  # each row has its own number of labels
        count = (wanted[mine] - begin).clamp_max(TURN)
        noise = labels.problem.random.normal(rows[mine], TURN * size, point.dtype)
        noise = noise.reshape(len(mine), TURN, size)
        noise = noise / torch.linalg.vector_norm(noise, dim=2, keepdim=True).clamp_min(1e-30)
        tried = point[mine, None] + noise * scale[mine, None]
        tried = tried.maximum(low).minimum(high)
        some = torch.arange(TURN, device=rows.device) < count[:, None]
        row, k = some.nonzero(as_tuple=True)
        sign = torch.zeros_like(noise[..., 0])
        hit = labels.hits(rows[mine][row], tried[row, k], wide)
        sign[row, k] = 2 * hit.to(point.dtype) - 1
        moved = (tried - point[mine, None]) * some[..., None]
        steered[mine] += (moved * sign[..., None]).sum(1)
        drift[mine] += moved.sum(1)
        balance[mine] += sign.sum(1, keepdim=True)
    normal: Tensor = steered - balance / wanted[:, None] * drift
    return normal


def _ranked(problem: Problem, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The donors in search coordinates, how many reach the goal of each row, and these in order:
    of each label the nearest, then of each the second nearest, and so on."""
    origin = problem.regions.origin[rows]
    if problem.donors is None or not len(problem.donors.x):
        none = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        return origin[:0], none, none[:, None]
    donors = problem.donors.to(origin.device)
    known = problem.regions.encode(donors.x).to(origin.dtype)
    far = torch.cdist(origin.double(), known.double())
    far = far.masked_fill(~problem.goal[rows][:, donors.label], torch.inf)
    rank = torch.zeros_like(far)
    for c in sorted(set(donors.label.tolist())):
        its = (donors.label == c).nonzero()[:, 0]
        rank[:, its] = (
            far[:, its].argsort(dim=1, stable=True).argsort(dim=1, stable=True).to(far.dtype)
        )
    by_far = far.argsort(dim=1, stable=True)
    key = torch.where(far.isfinite(), rank, torch.inf).gather(1, by_far)
    order = by_far.gather(1, key.argsort(dim=1, stable=True))
    return known, far.isfinite().sum(1), order
