"""Referee: what has been found and spent on one batch, row by row; it alone says who has won.

A row is solved when a valid point reaches the goal. `keep="first"` keeps that point (a fixed
model); `keep="best"` the valid point of highest loss (a model that moves afterwards).

What a reader would get wrong: validity can cost more than the model, so it is asked only where the
answer can matter; a point that neither succeeds nor comes nearer is dropped unjudged.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor

from assay.goals.goal import gap, reached
from assay.spaces.region import Region


@dataclass(eq=False)
class Referee:
    """What has been found and spent so far, row by row; shared by all views of a problem."""

    targets: Tensor  # (n, C): the goal
    best: Tensor  # (n, ...): the input handed in for each row
    keep: str
    slack: float
    start: Tensor = field(init=False)  # (n, ...): the clean inputs
    solved: Tensor = field(init=False)
    final: Tensor = field(init=False)  # predicted class of `best`
    value: Tensor = field(init=False)  # loss of `best`
    margin: Tensor = field(init=False)
    blocked: Tensor = field(init=False)
    score: Tensor = field(init=False)  # a strategy's promise of the row: lower is tried first
    winner: list[str] = field(init=False)
    forwards: Tensor = field(init=False)
    backwards: Tensor = field(init=False)
    nonfinite: int = field(init=False, default=0)
    flat: int = field(init=False, default=0)  # gradients of exactly 0 on open rows
    gradients: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        n, device = len(self.targets), self.targets.device
        self.start = self.best.clone()
        self.solved = torch.zeros(n, dtype=torch.bool, device=device)
        self.blocked = self.solved.clone()
        self.final = torch.full((n,), -1, device=device)
        self.value = torch.full((n,), -torch.inf, dtype=torch.float64, device=device)
        self.margin = self.value.clone()
        self.score = torch.full_like(self.value, torch.nan)
        self.forwards = torch.zeros(n, dtype=torch.int64, device=device)
        self.backwards = self.forwards.clone()
        self.winner = [""] * n

    def fork(self) -> Referee:
        """A referee who has seen nothing yet, on the same account of what was spent."""
        other = copy.copy(self)
        Referee.__post_init__(other)
        other.start, other.best = self.start, self.best.clone()
        other.forwards, other.backwards = self.forwards, self.backwards
        other.nonfinite = other.flat = other.gradients = 0  # or absorbing would count them twice
        return other

    def absorb(self, other: Referee, better: Tensor) -> None:
        """Take over what another referee kept, in the rows where it is better."""
        for mine, theirs in (
            (self.best, other.best),
            (self.final, other.final),
            (self.value, other.value),
            (self.solved, other.solved),
        ):
            mine[better] = theirs[better]
        for i in better.nonzero()[:, 0].tolist():
            self.winner[i] = other.winner[i]
        self.margin = self.margin.maximum(other.margin)
        self.blocked |= other.blocked
        self.nonfinite += other.nonfinite
        self.flat += other.flat
        self.gradients += other.gradients

    def judge(
        self, rows: Tensor, x: Tensor, logits: Tensor, value: Tensor, region: Region, label: str
    ) -> None:
        """Keep what deserves it. `rows` may repeat: the best candidate of a row is taken."""
        if not bool(logits.sum().isfinite()):  # one number tells whether rows must be looked at
            finite = logits.isfinite().all(1)
            self.nonfinite += int((~finite).sum())
            region = region.take(finite)
            rows, x, logits, value = rows[finite], x[finite], logits[finite], value[finite]
        targets = self.targets[rows]
        margin = gap(logits, targets)
        hit = reached(logits, targets, self.slack, margin)
        # Validity can cost more than the model: asked only where the answer can matter.
        matters = hit | (margin > self.margin[rows])
        if self.keep != "first":
            matters |= value > self.value[rows]
        at = matters.nonzero()[:, 0]  # a mask would be searched anew by each of the next lines
        if not len(at):
            return
        if len(at) < len(rows):
            rows, x, logits, value, margin, hit = (
                t.index_select(0, at) for t in (rows, x, logits, value, margin, hit)
            )
            region = region.take(at)
        valid = region.contains(x)
        if bool((hit & ~valid).any()):
            self.blocked[rows[hit & ~valid]] = True
        margin = margin.double().masked_fill(~valid, -torch.inf)
        self.margin.scatter_reduce_(0, rows, margin, "amax")
        if self.keep == "first":
            take = hit & valid & ~self.solved[rows]
            rank = margin
        else:
            take = valid & (value > self.value[rows])
            rank = value.double()
        if not bool(take.any()):
            return
        chosen = _best_of_each(rows, rank, take)
        at = rows[chosen]
        self.best[at] = x[chosen]
        self.final[at] = logits[chosen].argmax(1)
        self.value[at] = value[chosen].double()
        self.solved[at] = hit[chosen]
        for i in at.tolist():
            self.winner[i] = label


def _best_of_each(rows: Tensor, rank: Tensor, take: Tensor) -> Tensor:
    """Positions of the highest-ranked taken candidate of each row."""
    places = take.nonzero()[:, 0]
    places = places[rank[places].argsort(descending=True, stable=True)]
    places = places[rows[places].argsort(stable=True)]
    first = torch.ones_like(places, dtype=torch.bool)
    first[1:] = rows[places][1:] != rows[places][:-1]
    return places[first]
