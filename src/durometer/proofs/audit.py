"""The auditor: tries to break proven rows on the user's own model, and shares no code with proofs.

A proof is a program that can be wrong. Of each proven row a few valid points are asked, through
nothing but the region (`random`, `ascend`, `project`, `decode`, `contains`), the model and goal:

    8 corners      the farthest steps in random directions: in Linf, corners of the box
    4 samples      `region.random`
    4 donors       other rows of the data, of a class that the goal wants, pulled into the region
    2 x 5 steps    gradient ascent, where the model has gradients: from the best of the points above
                   and from a random one

That is 28 forward and 10 backward passes a row, about the price of 44 forward passes. A point that
relations forbid is pulled towards the clean row twice; one that stays invalid is not asked.

The budget is a function of the row and of the plan, never of a clock: rows are drawn by their ids
with probability 0.1 * cost / 44, where `cost` is what the row's proof and attacks are known to have
cost in model evaluations, and at least 64 rows of a run are to be expected. So one process, workers
and a resumed run try the same points on the same rows.

A hit is a contradiction. The row is broken, by a point that is kept and can be checked; the record
names the proof and the model; and the chunks of a run, wherever they meet, withdraw all its proofs
(`Records.withdrawn`): what proved this row wrongly may have proved others so.

What a reader would get wrong: nothing found is no second proof. Low precision and casts to integers
are hard to catch by so few points (`studies/proofs/auditor.py` measures which faults are).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from durometer.core.spec import AuditSpec
from durometer.core.streams import Stream, keys
from durometer.data.dataset import Dataset
from durometer.goals.goal import gap, reached
from durometer.model.classifier import Classifier
from durometer.problem.problem import Problem
from durometer.spaces.region import Region

PLAN = AuditSpec()
FULL = 44  # model evaluations that all of it costs, a gradient being two or three
POOL = 256  # rows of the data that donors are drawn from
_NUMBERS = 5 * 10**6  # of the points that are asked at a time


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows `x` (m, ...) of the data with their true classes `y`, and how many rows the run has."""

    x: Tensor
    y: Tensor
    rows: int

    @classmethod
    def of(cls, data: Dataset) -> Pool:
        """Up to 256 rows, drawn by their ids."""
        draw = Stream(0, keys(data.ids), purpose="audit-pool")
        first = draw.uniform(torch.arange(len(data)), 1)[:, 0].argsort(stable=True)[:POOL]
        return cls(data.x[first], data.y[first], len(data))


def cross_examine(problem: Problem, seed: int, ids: np.ndarray, pool: Pool) -> None:
    """Try to break the proven rows of a batch; what was tried and found is the referee's to keep.

    Args:
        problem: The batch, after its proofs and attacks.
        seed: The seed of the run.
        ids: The ids of the rows.
        pool: Other rows of the data.
    """
    referee, device = problem.referee, problem.y.device
    stream = Stream(seed, keys(ids), device, purpose="audit")
    rows = referee.proven.nonzero()[:, 0]
    if not len(rows):
        return
    lot = stream.uniform(rows, 1)[:, 0]
    cost = referee.passes[rows] + referee.forwards[rows] + 2 * referee.backwards[rows]
    share = (PLAN.share / FULL * cost).clamp_min(PLAN.few / pool.rows)
    rows = rows[lot.to(share.dtype) < share]
    width = PLAN.corners + PLAN.samples + PLAN.donors
    each = max(1, _NUMBERS // (width * max(1, problem.regions.take(rows[:1]).origin.numel())))
    for part in torch.split(rows, each):
        _examine(problem, part, stream, pool)


def _examine(problem: Problem, rows: Tensor, stream: Stream, pool: Pool) -> None:
    region, goal = problem.regions.take(rows), problem.goal[rows]
    tried = _Tried(problem, rows, region, goal)
    points = list(_points(region, rows, stream, pool, goal))
    tried.ask(torch.cat(points), len(points))
    if problem.model.differentiable:
        best = torch.stack(points)[tried.place, torch.arange(len(rows), device=rows.device)]
        _ascend(problem.model, tried, torch.cat([best, region.random(stream, rows)]))
    tried.tell()


def _points(
    region: Region, rows: Tensor, stream: Stream, pool: Pool, goal: Tensor
) -> Iterator[Tensor]:
    """(m, D) search coordinates of one point of each row, again and again."""
    origin = region.origin
    far = torch.full((len(rows),), float(region.eps), dtype=origin.dtype, device=origin.device)
    for _ in range(PLAN.corners):
        way = stream.normal(rows, origin.shape[1]).to(origin.dtype)
        yield region.project(region.ascend(origin, way, far))
    for _ in range(PLAN.samples):
        yield region.random(stream, rows)
    wanted = goal.cpu()[:, pool.y.clamp(0, goal.shape[1] - 1)].double()  # (m, pool)
    wanted += 1e-6  # where nobody is of such a class, anybody is
    for _ in range(PLAN.donors):
        draw = stream.uniform(rows, len(pool.y)).cpu().double()
        who = (wanted / -draw.log()).argmax(1)
        x = pool.x[who].to(origin.device)
        yield region.project(region.encode(x)).to(origin.dtype)


def _ascend(model: Classifier, tried: _Tried, z: Tensor) -> None:
    """A few steps of steepest ascent on the margin; every point on the way is asked."""
    region = tried.region.take(torch.arange(len(tried.rows)).repeat(PLAN.starts).to(z.device))
    goal = tried.goal.repeat(PLAN.starts, 1)
    step = torch.full((len(z),), 0.5 * float(region.eps), dtype=z.dtype, device=z.device)
    for k in range(PLAN.steps):
        with torch.enable_grad():
            point = z.detach().requires_grad_()
            x = region.decode(point)
            logits = model.logits(x, tried.rows.repeat(PLAN.starts))
            value = gap(logits, goal)
            if region.constrained:
                value = value - region.penalty(point)
            if not value.requires_grad:
                return
            found: tuple[Tensor | None, ...] = torch.autograd.grad(
                value.sum(), point, allow_unused=True
            )
        tried.judge(x.detach(), logits.detach(), region.contains(x.detach()))
        if found[0] is None:
            return
        grad, length = found[0].nan_to_num(0.0, 0.0, 0.0), step * 0.6**k
        z = region.project(region.ascend(z, grad, length)).detach()
    tried.ask(z, PLAN.starts)


class _Tried:
    """What the points of some rows came to: how many were valid, and the first that broke each."""

    def __init__(self, problem: Problem, rows: Tensor, region: Region, goal: Tensor) -> None:
        self.problem, self.rows, self.region, self.goal = problem, rows, region, goal
        self.valid = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
        self.place = torch.zeros_like(self.valid)  # of the best point that was asked last
        self.hits: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def ask(self, z: Tensor, times: int) -> None:
        """Ask the model about points (times * m, D), each pulled to where it is valid if it can."""
        region = self.region.take(torch.arange(len(self.rows), device=z.device).repeat(times))
        origin = region.origin
        x = region.decode(z)
        valid = region.contains(x)
        for share in (0.5, 0.25):
            at = (~valid).nonzero()[:, 0]
            if not len(at):
                break
            nearer = region.take(at)
            new = nearer.decode(nearer.project(origin[at] + share * (z[at] - origin[at])))
            x = x.index_copy(0, at, new.to(x.dtype))
            valid = valid.index_copy(0, at, nearer.contains(new))
        at = valid.nonzero()[:, 0]
        if not len(at):
            return
        asked = self.problem.model.logits(x[at], self.rows.repeat(times)[at])
        logits = asked.new_full((len(x), asked.shape[1]), torch.nan).index_copy(0, at, asked)
        margin = self.judge(x, logits, valid).reshape(times, -1)
        self.place = margin.argmax(0)

    def judge(self, x: Tensor, logits: Tensor, valid: Tensor) -> Tensor:
        """Count valid points, and keep one that reaches the goal; the margins of all."""
        times = len(x) // len(self.rows)
        goal = self.goal.repeat(times, 1)
        finite = logits.isfinite().all(1)
        self.valid += (valid & finite).reshape(times, -1).sum(0)
        hit = reached(logits.nan_to_num(), goal, self.problem.model.slack) & valid & finite
        for i in hit.nonzero()[:, 0].tolist():
            found = x[i].detach().clone(), logits[i].clone()
            self.hits.setdefault(i % len(self.rows), found)
        return gap(logits, goal).masked_fill(~(valid & finite), -torch.inf)

    def tell(self) -> None:
        """Put it into the referee's books."""
        referee = self.problem.referee
        referee.audited[self.rows] += self.valid
        for i, (x, logits) in sorted(self.hits.items()):
            row = int(self.rows[i])
            whose = f"{referee.winner[row]} on {_construct(self.problem.model)}"
            referee.overturn(row, x, logits, whose)


def _construct(model: Classifier) -> str:
    """What was proven about, for whoever mends it: the kind, and of a network its layers."""
    if model.module is None:
        return model.kind
    inner = dict.fromkeys(type(m).__name__ for m in model.module.modules())
    return f"{model.kind} ({', '.join(list(inner)[1:13])})"
