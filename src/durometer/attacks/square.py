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

On the host a proposal is compiled: the thirty operations of `Bumps.propose` take as long as a small
network. The same in torch is for accelerators; the two agree to the bit in Linf, where nothing is
computed, and up to rounding in L2 and L1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from durometer.attacks.base import Start, ball, compact, overwrite, start
from durometer.core.streams import Stream
from durometer.core.validation import noun
from durometer.kernels.native import Kernel
from durometer.kernels.threads import threads_for
from durometer.losses import margin
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.ball import LpRegion
from durometer.spaces.compiled import NAMES, serves

_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
_PACE = 2.0  # of what a doubling gained, what the next may: chance comes in leaps
_AHEAD = 256  # random numbers drawn at once per row, for speed


@noun
class Square:
    """The Square attack: a random search that changes one patch at a time; no gradients needed
    (Andriushchenko et al., 2020).

    In Linf the patches shrink earlier than in AutoAttack's schedule, which finds more. Rows of a
    table have random subsets of features for squares.

    Args:
        queries: Forward passes per start; 5,000 in AutoAttack.
        p: Share of the features that the first proposals change, at most 1.
        restarts: Number of runs; each further one attacks the rows that are still open.
        start: "random" (stripes in Linf, a grid of bumps in L2 and L1), "clean" (the input itself)
            or "best" (the best point found so far).
        prune: Whether to give up rows whose margin falls too slowly; not part of the published
            attack.

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
        """The share of the features that a proposal changes.

        Args:
            query: Number of the proposal.
            pace: How much faster than in Linf the share shrinks.
        """
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


@dataclass(frozen=True)
class Canvas:
    """Which features lie next to each other: an image of (channels, height, width), or nothing."""

    shape: tuple[int, int, int]
    flat: bool

    @classmethod
    def of(cls, region: LpRegion) -> Canvas:
        shape = (1, *region.shape)[-3:]
        if len(region.shape) not in (2, 3) or min(shape[1:]) < 3:
            return cls((1, 1, region.origin.shape[1]), True)
        return cls((shape[0], shape[1], shape[2]), False)

    def side(self, share: float) -> int:
        """The side of a square with this share of the pixels, or that many features."""
        _, h, w = self.shape
        if self.flat:
            return min(max(round(share * w), 1), w)
        return min(max(round(math.sqrt(share * h * w)), 1), h, w)

    def layout(self, side: int) -> tuple[int, int, int, int, int]:
        """Channels, height, width, side of a square, and whether there are none: for kernels."""
        return (*self.shape, side, int(self.flat))

    def square(self, side: int, u: Tensor) -> Tensor:
        """(n, c, side * side): the features of a square whose corner two random numbers choose."""
        c, h, w = self.shape
        corner = (u[:, :1] * (h - side + 1)).long() * w + (u[:, 1:2] * (w - side + 1)).long()
        return corner[:, :, None] + _inside((c, h, w), side, u.device)


def _sign(u: Tensor, like: Tensor) -> Tensor:
    return torch.where(u < 0.5, -1.0, 1.0).to(like.dtype)


@dataclass(frozen=True)
class Corners:
    """Moves in an Linf ball: every feature stands at +eps or -eps, or at the box."""

    canvas: Canvas
    pace: ClassVar[float] = 1.0  # of the schedule

    @property
    def numbers(self) -> int:
        """Random numbers per proposal."""
        c, _, w = self.canvas.shape
        return 2 * w if self.canvas.flat else 2 + c

    def start(self, region: LpRegion, stream: Stream, rows: Tensor) -> Tensor:
        c, h, w = self.canvas.shape
        stripes = stream.sign(rows, c * w, region.origin.dtype).reshape(-1, c, 1, w)
        sign = stripes.expand(-1, c, h, w).reshape(len(rows), -1)
        return (region.origin + region.eps * sign).clamp(region.low, region.high)

    def propose(self, region: LpRegion, z: Tensor, share: float, u: Tensor) -> Tensor:
        w = self.canvas.shape[2]
        side = self.canvas.side(share)
        if serves(z, *region.corners):
            return _compiled_corners(self.canvas.layout(side), z, *region.corners, u)
        if self.canvas.flat:
            where = u[:, :w].topk(side, dim=1).indices
            up = u[:, w : w + side] >= 0.5
        else:
            where = self.canvas.square(side, u[:, :2]).flatten(1)
            up = (u[:, 2:, None] >= 0.5).expand(-1, -1, side * side).flatten(1)
        ends = [end.gather(1, where) for end in region.corners]
        what, other = torch.where(up, ends[1], ends[0]), torch.where(up, ends[0], ends[1])
        # A proposal that changes nothing would waste its query: the other sign does change.
        idle = (what == z.gather(1, where)).all(1, keepdim=True)
        what = torch.where(idle, other, what)
        return z.scatter(1, where, what)


@dataclass(frozen=True)
class Bumps:
    """Moves on an L2 or L1 sphere: what one square gains another loses."""

    canvas: Canvas
    pace: ClassVar[float] = 0.5

    @property
    def numbers(self) -> int:
        c, _, w = self.canvas.shape
        return 2 * w if self.canvas.flat else 5 + c

    def start(self, region: LpRegion, stream: Stream, rows: Tensor) -> Tensor:
        c, h, w = self.canvas.shape
        dtype = region.origin.dtype
        if self.canvas.flat:
            return self._scaled(region, stream.sign(rows, w, dtype))
        tile = max(min(h, w) // 5, 1)
        down, across = h // tile, w // tile
        sign = stream.sign(rows, c * down * across, dtype).reshape(-1, c, down, across, 1, 1)
        turn = stream.sign(rows, down * across, dtype).reshape(-1, 1, down, across, 1, 1) > 0
        bump = _bump(tile, sign.device, sign.dtype)
        tiles = (sign * torch.where(turn, bump, bump.T)).transpose(3, 4)
        grid = tiles.reshape(-1, c, down * tile, across * tile)
        top, left = (h - down * tile) // 2, (w - across * tile) // 2
        d = grid.new_zeros(len(rows), c, h, w)
        d[:, :, top : top + down * tile, left : left + across * tile] = grid
        return self._scaled(region, d.flatten(1))

    def propose(self, region: LpRegion, z: Tensor, share: float, u: Tensor) -> Tensor:
        c, h, w = self.canvas.shape
        if self.canvas.flat:
            size = max(self.canvas.side(share), min(2, w))
        else:
            size = max(self.canvas.side(share), 3) // 2 * 2 + 1
            size = min(size, (min(h, w) - 1) // 2 * 2 + 1)
        if serves(z, region.origin, region.low, region.high):
            bump = _bump(1 if self.canvas.flat else size, z.device, z.dtype)
            return _compiled_bumps(self.canvas.layout(size), region, z, bump, u)
        p, d = region.p, z - region.origin
        if self.canvas.flat:
            order = u[:, :w].argsort(dim=1)
            gains, loses = order[:, None, :size], order[:, None, size : 2 * size]
            rank = torch.arange(1, size + 1, device=z.device, dtype=z.dtype)
            bump = (_sign(u[:, w : w + size], z) / rank)[:, None, :]
        else:
            gains = self.canvas.square(size, u[:, :2])
            loses = self.canvas.square(size, u[:, 2:4])
            shape = _bump(size, z.device, z.dtype)
            shape = torch.where(u[:, 4, None] < 0.5, shape.flatten(), shape.T.flatten())
            bump = _sign(u[:, 5:], z)[:, :, None] * shape[:, None, :]
        mass = d.square() if p == 2.0 else d.abs()
        spare = (region.eps**p - mass.sum(1)).clamp_min(0)[:, None, None] / c
        freed = mass.gather(1, gains.flatten(1)).reshape(gains.shape).sum(2, keepdim=True)
        mass.scatter_(1, gains.flatten(1), 0.0)  # not to be counted twice where both overlap
        freed += mass.gather(1, loses.flatten(1)).reshape(loses.shape).sum(2, keepdim=True)
        old = d.gather(1, gains.flatten(1)).reshape(gains.shape)
        new = bump / bump.norm(p, 2, True) + old / old.norm(p, 2, True).clamp_min(1e-12)
        new = new / new.norm(p, 2, True).clamp_min(1e-12) * (spare + freed) ** (1 / p)
        d = d.scatter(1, loses.flatten(1), 0.0).scatter_(1, gains.flatten(1), new.flatten(1))
        return self._scaled(region, d)

    @staticmethod
    def _scaled(region: LpRegion, d: Tensor) -> Tensor:
        d = d * (region.eps / d.norm(region.p, 1, True).clamp_min(1e-12))
        return (region.origin + d).clamp(region.low, region.high)


@cache
def _inside(shape: tuple[int, int, int], side: int, device: torch.device) -> Tensor:
    """(1, c, side * side): the features of the square in the first corner."""
    c, h, w = shape
    pixel, plane = (torch.arange(k, device=device) for k in (side, c))
    return (plane[:, None] * h * w + (pixel[:, None] * w + pixel).flatten())[None]


@cache
def _bump(side: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(side, side): a positive hill above a negative one; each falls off with the distance."""
    upper = side // 2
    hills = [_hill(upper, side), -_hill(side - upper, side)]
    both = torch.cat(hills)
    return both.div(both.norm()).to(dtype).to(device)


def _hill(h: int, w: int) -> Tensor:
    """(h, w) of norm 1: sums of 1/k^2 over the concentric squares k around the middle."""
    away = torch.maximum(
        (torch.arange(h) - h // 2).abs()[:, None], (torch.arange(w) - w // 2).abs()[None]
    )
    rings = max(h, w) // 2 + 1
    tail = (1 / torch.arange(1.0, rings + 1, dtype=torch.float64) ** 2).flip(0).cumsum(0).flip(0)
    hill = tail[away.clamp_max(rings - 1)]
    unit: Tensor = hill / hill.norm()
    return unit


Layout = tuple[int, int, int, int, int]  # channels, height, width, side, flat
_CANVAS = {"c": "int64", "h": "int64", "w": "int64", "side": "int64", "flat": "int64"}


@cache
def _corner_kernel(kind: str) -> Kernel:
    ends = {name: f"{kind}[n, d]" for name in ("z", "low", "high")}
    return Kernel(f"square_corners_{kind}", n="size", d="size", numbers="size", **_CANVAS,
                  threads="int64", **ends, u="float64[n, numbers]",
                  out=f"out {kind}[n, d]")  # fmt: skip


@cache
def _bump_kernel(kind: str) -> Kernel:
    numbers = {"threads": "int64", "p": "int64", "eps": "float64"}
    arrays = {
        "z": "n, d", "origin": "n, d", "low": "boxes, d", "high": "boxes, d", "bump": "cells, cells"
    }  # fmt: skip
    return Kernel(f"square_bumps_{kind}", n="size", d="size", numbers="size", boxes="size",
                  cells="size", **_CANVAS, **numbers,
                  **{name: f"{kind}[{shape}]" for name, shape in arrays.items()},
                  u="float64[n, numbers]", out=f"out {kind}[n, d]")  # fmt: skip


def _compiled_corners(canvas: Layout, z: Tensor, low: Tensor, high: Tensor, u: Tensor) -> Tensor:
    """z (n, D) with one square of each row at the ends `low` and `high` of the ball."""
    return _call(_corner_kernel, (*canvas, threads_for(z)), z, low, high, u)


def _compiled_bumps(canvas: Layout, region: LpRegion, z: Tensor, bump: Tensor, u: Tensor) -> Tensor:
    """z (n, D) with one square of each row raised by a bump and another one emptied."""
    numbers = (*canvas, threads_for(z), int(region.p), region.eps)
    return _call(_bump_kernel, numbers, z, region.origin, region.low, region.high, bump, u)


def _call(kernel: Any, numbers: tuple[float, ...], z: Tensor, *read: Tensor) -> Tensor:
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    arrays = [t.contiguous() for t in (z, *read)]
    kernel(NAMES[z.dtype])(*numbers, *arrays, out)
    return out
