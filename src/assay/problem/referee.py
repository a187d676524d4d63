"""Referee: what has been found and spent on one batch, row by row; it alone says who has won.

A row is solved when a valid point reaches the goal. `keep="first"` keeps that point (a fixed
model); `keep="best"` the valid point of highest loss (a model that moves afterwards).

A row is proven when a proof says that no such point exists. Both at once is impossible: whoever
claims the second of the two finds the referee raising `Contradiction`, since one of the two has a
bug, and no figure may come out of that.

What a reader would get wrong: validity can cost more than the model, so it is asked only where the
answer can matter; a point that neither succeeds nor comes nearer is dropped unjudged.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from assay.errors import AssayError, Contradiction
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
    proven: Tensor = field(init=False)  # no valid point reaches the goal
    idle: Tensor = field(init=False)  # nothing to play for: no target, or not valid to begin with
    vacuous: Tensor = field(init=False)  # proven, and by features that nobody can change
    improving: Tensor = field(init=False)  # a search came nearer until its budget ended
    distance_low: Tensor = field(init=False)  # nothing as near as this reaches the goal
    certificates: dict[int, bytes] = field(init=False)  # of proven rows, as far as there are any
    spent: dict[str, Tensor] = field(init=False)  # seconds of each stage, by its label
    final: Tensor = field(init=False)  # predicted class of `best`
    value: Tensor = field(init=False)  # loss of `best`
    margin: Tensor = field(init=False)
    blocked: Tensor = field(init=False)
    score: Tensor = field(init=False)  # a strategy's promise of the row: lower is tried first
    winner: list[str] = field(init=False)
    searches: set[str] = field(init=False, default_factory=set)  # who asked for no gradient
    forwards: Tensor = field(init=False)
    backwards: Tensor = field(init=False)
    nonfinite: int = field(init=False, default=0)
    flat: int = field(init=False, default=0)  # gradients of exactly 0 on open rows
    gradients: int = field(init=False, default=0)
    put_back: int = field(init=False, default=0)  # rows handed in that were not the attacker's

    def __post_init__(self) -> None:
        n, device = len(self.targets), self.targets.device
        self.start = self.best.clone()
        self.solved = torch.zeros(n, dtype=torch.bool, device=device)
        self.proven, self.idle, self.vacuous, self.improving, self.blocked = (
            self.solved.clone() for _ in range(5)
        )
        self.certificates, self.spent = {}, {}
        self.final = torch.full((n,), -1, device=device)
        self.value = torch.full((n,), -torch.inf, dtype=torch.float64, device=device)
        self.margin = self.value.clone()
        self.score = torch.full_like(self.value, torch.nan)
        self.distance_low = self.score.clone()
        self.forwards = torch.zeros(n, dtype=torch.int64, device=device)
        self.backwards = self.forwards.clone()
        self.winner = [""] * n

    @property
    def searched(self) -> int:
        """Rows that fell to an attack that needs no gradient."""
        solved = self.solved.tolist()
        return sum(s and w in self.searches for s, w in zip(solved, self.winner, strict=True))

    def fork(self) -> Referee:
        """A referee who has seen nothing yet, on the same account of what was spent."""
        other = copy.copy(self)
        Referee.__post_init__(other)
        other.start, other.best = self.start, self.best.clone()
        other.forwards, other.backwards = self.forwards, self.backwards
        other.idle, other.spent = self.idle, self.spent
        other.nonfinite = other.flat = other.gradients = 0  # or absorbing would count them twice
        return other

    def absorb(self, other: Referee, better: Tensor) -> None:
        """Take over what another referee kept, in the rows where it is better."""
        self._refuse(self.solved & other.proven, "is said to be proven")
        self._refuse(self.proven & other.solved, "was proven, but is broken")
        self.proven |= other.proven
        self.vacuous |= other.vacuous
        self.certificates |= other.certificates
        self.distance_low = self.distance_low.fmax(other.distance_low)
        self.improving |= other.improving
        for mine, theirs in (
            (self.best, other.best),
            (self.final, other.final),
            (self.value, other.value),
            (self.solved, other.solved),
        ):
            mine[better] = theirs[better]
        for i in (better | other.proven).nonzero()[:, 0].tolist():
            self.winner[i] = other.winner[i]
        self.margin = self.margin.maximum(other.margin)
        self.blocked |= other.blocked
        self.nonfinite += other.nonfinite
        self.flat += other.flat
        self.gradients += other.gradients

    def prove(
        self, rows: Tensor, label: str, vacuous: Tensor | None = None,
        certificates: Sequence[bytes | None] = (),
    ) -> None:  # fmt: skip
        """Close these rows: no valid point of theirs reaches the goal."""
        if self.keep != "first":
            raise AssayError(
                f"{label}: a proof closes rows of a model that stays; this one moves after the "
                "attacker, so there is nothing that could be proven about a row"
            )
        self._refuse_rows(rows[self.solved[rows]], f"{label} says it is proven")
        self.proven[rows] = True
        if vacuous is not None:
            self.vacuous[rows] = vacuous
        for i in rows.tolist():
            self.winner[i] = label
        for i, kept in zip(rows.tolist(), certificates, strict=False):
            if kept is not None:
                self.certificates[i] = kept

    def _refuse_rows(self, rows: Tensor, now: str) -> None:
        """Broken and proven at once: say which row, by whom, and stop."""
        if len(rows):
            i = int(rows[0])
            was = "is proven" if bool(self.proven[i]) else "is broken by a valid point"
            by = f" ({self.winner[i]})" if self.winner[i] else ""
            raise Contradiction(
                f"row {i} of the batch {was}{by}, and now {now}: one of the two is wrong. Both see "
                "the same model and region, so this is a bug; please report it with the model"
            )

    def _refuse(self, mask: Tensor, now: str) -> None:
        self._refuse_rows(mask.nonzero()[:, 0], now)

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
        if bool(self.proven.any()):
            self._refuse_rows(rows[hit & valid & self.proven[rows]], f"{label} broke it")
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
