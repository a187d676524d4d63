"""Points of balls and patches, and whether a point belongs: restated here, in plain numbers.

Shares nothing with the package: samples, corners and gradient steps on the module itself.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import torch
from prosecution.package import du
from torch import Tensor, nn


@dataclass(frozen=True)
class Ball:
    """What may change: p and eps (one, or one for each number) in [0, 1], or a mask."""

    p: float
    eps: Tensor  # () or the shape of a row
    mask: Tensor | None = None  # (height, width)

    def space(self) -> Any:
        if self.mask is not None:
            return du.Patch(self.mask.numpy())
        eps = self.eps.tolist()
        make = {math.inf: du.Linf, 2.0: du.L2, 1.0: du.L1, 0.0: du.L0}[self.p]
        return make(int(eps) if self.p == 0 else eps, low=0.0, high=1.0)

    def holds(self, x: Tensor, points: Tensor) -> Tensor:
        """(draws, n): does each point belong to its row? A hair inside, so that nobody argues."""
        move = (points.double() - x.double()).flatten(2)
        inside = ((points >= 0) & (points <= 1)).flatten(2).all(2)
        if self.mask is not None:
            free = self.mask.expand(x.shape[1:]).flatten()
            return inside & ((move == 0) | free).all(2)
        if self.p == 0:
            return inside & ((move != 0).sum(2) <= int(self.eps))
        size = move / self.eps.double().flatten()
        far = size.abs().amax(2) if self.p == math.inf else size.abs().pow(self.p).sum(2)
        return inside & (far <= 1 - 1e-9)

    def onto(self, x: Tensor, move: Tensor) -> Tensor:
        """Moves (draws, n, ...) brought into the region; not always the nearest point of it."""
        shape = move.shape
        flat = move.flatten(2)
        if self.mask is not None:
            flat = flat * self.mask.expand(x.shape[1:]).flatten()
        elif self.p == 0:
            k = int(self.eps)
            least = flat.abs().topk(k, 2).values[..., -1:]
            flat = torch.where(flat.abs() >= least.clamp_min(1e-12), flat, 0.0)
            kept = flat.abs().cumsum(2).gt(0) & ((flat != 0).cumsum(2) <= k)
            flat = torch.where(kept, flat, 0.0)
        else:
            unit = self.eps.to(flat).flatten()
            size = flat / unit
            if self.p == math.inf:
                size = size.clamp(-1, 1)
            else:
                norm = size.abs().pow(self.p).sum(2, keepdim=True).pow(1 / self.p)
                size = size / norm.clamp_min(1.0)
            flat = size * unit * (1 - 1e-6)
        out: Tensor = (x + flat.reshape(shape).to(x)).clamp(0, 1)
        # x + d may round to another distance: one that is unchanged stays so
        return torch.where(flat.reshape(shape) == 0, x.expand(shape), out)


def drawn(r: random.Random, shape: tuple[int, ...], eps: float) -> Ball:
    """A ball or patch of about this size in each number."""
    count = math.prod(shape)
    if len(shape) == 3 and r.random() < 0.15:
        mask = torch.zeros(shape[1:], dtype=torch.bool)
        mask[r.randrange(5) :, r.randrange(4) :][: r.choice([1, 2]), : r.choice([1, 2])] = True
        return Ball(math.inf, torch.tensor(1.0), mask)
    kind = r.random()
    if kind < 0.4:
        return Ball(math.inf, torch.tensor(eps))
    if kind < 0.55:
        each = torch.tensor([eps * r.choice([0.0, 0.5, 1.0, 2.0]) + 1e-4 for _ in range(shape[0])])
        return Ball(math.inf, each if len(shape) == 1 else torch.tensor(eps))
    if kind < 0.75:
        return Ball(2.0, torch.tensor(eps * count**0.5))
    if kind < 0.9:
        return Ball(1.0, torch.tensor(eps * count * 0.6))
    return Ball(0.0, torch.tensor(1))


def answers(net: nn.Module, points: Tensor, dtype: torch.dtype) -> Tensor:
    """(..., classes) scores of points (..., *shape); one number becomes two."""
    lead = points.shape[:2]
    out = net(points.flatten(0, 1).to(dtype)).float()
    out = out.reshape(*lead, -1)
    return out


def label(out: Tensor, probability: bool = False) -> Tensor:
    if out.shape[-1] == 1:
        return (out[..., 0] > (0.5 if probability else 0.0)).long()
    return out.argmax(-1)


@dataclass
class Found:
    """Rows that a point breaks, how many points were tried, and where the two judges differ."""

    broken: Tensor
    points: int = 0
    disputed: int = 0


def search(
    net: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int, draws: int, steps: int,
    probability: bool, region: Any = None,
) -> Found:  # fmt: skip
    """Corners, samples and gradient steps on the module; `region` judges what is found, too."""
    stream = torch.Generator().manual_seed(seed)
    dtype = next(net.parameters()).dtype
    found = Found(torch.zeros(len(x), dtype=torch.bool))

    def ask(points: Tensor) -> None:
        with torch.no_grad():
            other = label(answers(net, points, dtype), probability) != y
        held = ball.holds(x, points)
        found.points += int(held.sum())
        hit = other & held
        if region is None:
            found.broken |= hit.any(0)
            return
        for draw, row in [*hit.nonzero().tolist(), *held[:1].nonzero().tolist()[:4]]:
            inside = bool(region.take(torch.tensor([row])).contains(points[draw, row][None]))
            found.disputed += not inside
            found.broken[row] |= inside and bool(hit[draw, row])

    wide = 1.0 if ball.p in (0.0,) or ball.mask is not None else float(ball.eps.max())
    shape = (draws, *x.shape)
    move = 2 * torch.rand(shape, generator=stream) - 1
    move[: draws // 2] = move[: draws // 2].sign()
    if ball.p in (1.0, 2.0):
        few = torch.rand(shape, generator=stream) < 0.4
        move = move * few
    if ball.p == 0.0:
        move = torch.randn(shape, generator=stream) * 3
    ask(ball.onto(x, wide * move if ball.p != 0.0 else move))
    # one row at a time: what a batch does to its rows is no excuse
    few_rows = torch.randperm(len(x), generator=stream)[:3]
    for k in few_rows.tolist():
        point = ball.onto(x, wide * move[:1])[:, k : k + 1]
        with torch.no_grad():
            if bool((label(answers(net, point, dtype), probability) != y[k]).any()) and bool(
                ball.holds(x[k : k + 1], point)
            ):
                found.broken[k] = True
    at = ball.onto(x, wide * move[: min(6, draws)])
    for _ in range(steps):
        at = at.detach().requires_grad_()
        try:
            out = answers(net, at, dtype)
            if out.shape[-1] == 1:
                lead = torch.where(y == 1, -out[..., 0], out[..., 0])
            else:
                own = nn.functional.one_hot(y, out.shape[-1]).bool()
                lead = out.masked_fill(own, -1e30).amax(-1) - out.masked_fill(~own, 0).sum(-1)
            (slope,) = torch.autograd.grad(lead.sum(), at, allow_unused=True)
        except RuntimeError:
            break
        if slope is None or not bool(slope.isfinite().all()):
            break
        at = at.detach()
        if ball.p == math.inf:
            step = wide / 3 * slope.sign()
        elif ball.p == 0.0:
            step = slope / slope.flatten(2).norm(dim=2).clamp_min(1e-12).reshape(
                *slope.shape[:2], *[1] * (slope.ndim - 2))  # fmt: skip
        else:
            largest = slope.flatten(2).abs().amax(2).reshape(*slope.shape[:2], *[1] * (
                slope.ndim - 2))  # fmt: skip
            step = wide / 2 * torch.where(slope.abs() >= largest * (0.99 if ball.p == 1 else 0.3),
                                          slope.sign(), 0.0)  # fmt: skip
        at = ball.onto(x, at - x + step)
        ask(at)
    return found
