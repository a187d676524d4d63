"""Referee: what has been found and spent on one batch, row by row; it alone says who has won.

A row is solved when a valid point reaches the goal. `keep="first"` keeps that point (a fixed
model); `keep="best"` the valid point of highest loss (a model that moves afterwards).

A row is proven when a proof says that no such point exists. Both at once is impossible: whoever
claims the second of the two finds the referee raising `Contradiction`, since one of the two has a
bug, and no figure may come out of that. Where attacks ask a copy of the model, `confirm` asks the
model itself about what could be kept.

What a reader would get wrong: validity can cost more than the model, so it is asked only where the
answer can matter; a point that neither succeeds nor comes nearer is dropped unjudged. Not so on an
accelerator, where asking which ones matter would cost more than judging them all.

What an answer of the model says about the goal: its margin, and whether that matters.

Every query of every attack is read here, so on the host it is one compiled pass; the same in torch
stands beside it, for accelerators and half precision.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from durometer.core.devices import is_cpu, widest
from durometer.core.errors import Contradiction, DurometerError
from durometer.goals.goal import gap, reached
from durometer.kernels.native import Kernel
from durometer.model.inference_copy import AGREE
from durometer.spaces.compiled import NAMES, serves
from durometer.spaces.region import Region, contains_at

AUDITOR = "Auditor"  # who breaks a row that was proven
PASSES = 440  # model evaluations that a proof is taken to cost unless it says otherwise
Ask = Callable[[Tensor], Tensor]  # inputs -> the model's own logits


@dataclass(eq=False)
class Referee:
    """What has been found and spent so far, row by row; shared by all views of a problem."""

    targets: Tensor  # (n, C): the goal
    best: Tensor  # (n, ...): the input handed in for each row
    keep: str
    slack: float
    confirm: Ask | None = None
    scale: Tensor | None = None  # (n,): the size of the clean logits, where there is a copy
    start: Tensor = field(init=False)  # (n, ...): the clean inputs
    solved: Tensor = field(init=False)
    proven: Tensor = field(init=False)  # no valid point reaches the goal
    idle: Tensor = field(init=False)  # nothing to play for: no target, or not valid to begin with
    vacuous: Tensor = field(init=False)  # proven, and by features that nobody can change
    improving: Tensor = field(init=False)  # a search came nearer until its budget ended
    looked: Tensor = field(init=False)  # its gradients were compared with what the margin does
    misled: Tensor = field(init=False)  # and were found to mislead
    distance_low: Tensor = field(init=False)  # nothing as near as this reaches the goal
    certificates: dict[int, bytes] = field(init=False)  # of proven rows, as far as there are any
    passes: Tensor = field(init=False)  # of proven rows: what the proof cost, in model evaluations
    audited: Tensor = field(init=False)  # of proven rows: valid points that the auditor tried
    overturned: dict[int, str] = field(init=False)  # rows that it broke, and whose proof that was
    spent: dict[str, Tensor] = field(init=False)  # seconds of each stage, by its label
    final: Tensor = field(init=False)  # predicted class of `best`
    value: Tensor = field(init=False)  # loss of `best`
    margin: Tensor = field(init=False)
    blocked: Tensor = field(init=False)
    score: Tensor = field(init=False)  # a strategy's promise of the row: lower is tried first
    nearest: Tensor | None = field(init=False, default=None)  # (n, ...): see `remember`
    who: Tensor = field(init=False)  # (n,): whom a row goes to, by its place in `labels`
    labels: list[str] = field(init=False)
    searches: set[str] = field(init=False, default_factory=set)  # who asked for no gradient
    forwards: Tensor = field(init=False)
    backwards: Tensor = field(init=False)
    counters: Tensor = field(init=False)  # (n, 4): see `facts`
    gap: Tensor = field(init=False)  # how far plain bounds end from a proof; NaN: not known
    left: dict[int, str] = field(init=False)  # rows no further proof is tried on, and why
    unproven: str = field(init=False, default="")  # why no proof knows this model or space
    n_reverted: int = field(init=False, default=0)  # rows handed in that were not the attacker's

    def __post_init__(self) -> None:
        n, device = len(self.targets), self.targets.device
        self.start = self.best.clone()
        self.solved = torch.zeros(n, dtype=torch.bool, device=device)
        self.proven, self.idle, self.vacuous, self.improving, self.blocked = (
            self.solved.clone() for _ in range(5)
        )
        self.looked, self.misled = self.solved.clone(), self.solved.clone()
        self.certificates, self.spent, self.overturned, self.left = {}, {}, {}, {}
        self.final = torch.full((n,), -1, device=device)
        self.value = torch.full((n,), -torch.inf, dtype=widest(device), device=device)
        self.margin = self.value.clone()
        self.score = torch.full_like(self.value, torch.nan)
        self.distance_low, self.gap = self.score.clone(), self.score.clone()
        self.forwards = torch.zeros(n, dtype=torch.int64, device=device)
        self.backwards, self.passes, self.audited = (self.forwards.clone() for _ in range(3))
        self.counters = torch.zeros(n, 4, dtype=torch.int64, device=device)
        self.who, self.labels = torch.zeros_like(self.forwards), [""]

    @property
    def winner(self) -> list[str]:
        """Who broke or proved each row; nobody: ""."""
        return [self.labels[k] for k in self.who.tolist()]

    def credit(self, rows: Tensor, label: str) -> None:
        """These rows (indices or a mask) go to whoever works under this name."""
        self.who[rows] = self._code(label)

    def _code(self, label: str) -> int:
        if label not in self.labels:
            self.labels.append(label)
        return self.labels.index(label)

    def to(self, device: torch.device) -> Referee:
        """A referee at another place who knows the same."""
        self._refuse(self.solved & self.proven, "is said to be proven")
        other = copy.copy(self)
        held = {name: t for name, t in vars(self).items() if isinstance(t, Tensor)}
        for kind in {t.dtype for t in held.values()}:  # all that has one number a row, at once
            names = [name for name, t in held.items() if t.ndim == 1 and t.dtype == kind]
            if names:
                columns = _moved(torch.stack([held[name] for name in names]), device)
                vars(other).update(zip(names, columns.unbind(), strict=True))
        vars(other).update({name: t.to(device) for name, t in held.items() if t.ndim > 1})
        return other

    def sync_from(self, other: Referee) -> None:
        """Know what another one knows who was sent elsewhere; forks share some of it, in place."""
        for name, held in vars(other).items():
            mine = getattr(self, name)
            if isinstance(held, Tensor) and isinstance(mine, Tensor):
                mine.copy_(held)
            else:
                setattr(self, name, held)

    def remember(self) -> None:
        """From now on keep the valid point of highest margin too, where the first success is kept:
        what a further stage may start from."""
        if self.keep == "first" and self.nearest is None:
            self.nearest = self.best.clone()

    def facts(self, rows: slice = slice(None)) -> dict[str, int]:
        """What was noticed on the way, in these rows: how many of what."""
        gradients, flat, nonfinite, apart = self.counters[rows].sum(0).tolist()
        searches = torch.tensor([label in self.searches for label in self.labels])
        found = searches[self.who[rows].cpu()] & self.solved[rows].cpu()
        return {
            "gradients": gradients,  # asked for on rows not solved
            "flat": flat,  # those of them that were exactly 0
            "nonfinite": nonfinite,  # answers that were no finite numbers
            "apart": apart,  # candidates of which a copy said another thing than the model
            "put_back": self.n_reverted,
            "searched": int(found.sum()),  # fell without a gradient
            "looked": int(self.looked[rows].sum()),  # rows whose gradients were looked at
            "misled": int(self.misled[rows].sum()),  # those whose gradients mislead
        }

    def record_gradients(self, rows: Tensor, grad: Tensor) -> Tensor:
        """Count gradients, and give them back finite; a loss may be flat where the goal is reached.

        Entries that are no finite numbers count as 0.
        """
        steep = grad.abs().amax(1)  # NaN wherever there is one
        if not is_cpu(grad.device) or not bool((steep < torch.inf).all()):
            grad = grad.nan_to_num(0.0, 0.0, 0.0)
            steep = grad.abs().amax(1)
        left = self.solved.index_select(0, rows).logical_not_()
        counts = torch.stack([left, (steep == 0).logical_and_(left)], dim=1)
        self.counters[:, :2].index_add_(0, rows, counts.long())
        return grad

    def fork(self) -> Referee:
        """A referee who has seen nothing yet, on the same account of what was spent."""
        other = copy.copy(self)
        Referee.__post_init__(other)
        other.start, other.best, other.labels = self.start, self.best.clone(), self.labels
        other.forwards, other.backwards = self.forwards, self.backwards
        other.idle, other.spent = self.idle, self.spent
        other.nearest = None if self.nearest is None else self.start.clone()
        return other

    def absorb(self, other: Referee, better: Tensor) -> None:
        """Take over what another referee kept, in the rows where it is better."""
        self._refuse(self.solved & other.proven, "is said to be proven")
        self._refuse(self.proven & other.solved, "was proven, but is broken")
        self.proven |= other.proven
        self.vacuous |= other.vacuous
        self.certificates |= other.certificates
        self.passes = self.passes.maximum(other.passes)
        self.distance_low = self.distance_low.fmax(other.distance_low)
        self.improving |= other.improving
        self.looked |= other.looked
        self.misled |= other.misled
        self.unproven = self.unproven or other.unproven
        self.left |= other.left
        for mine, theirs in (
            (self.best, other.best),
            (self.final, other.final),
            (self.value, other.value),
            (self.solved, other.solved),
        ):
            mine[better] = theirs[better]
        theirs = torch.tensor([self._code(name) for name in other.labels], device=self.who.device)
        self.who = torch.where(better | other.proven, theirs[other.who], self.who)
        if self.nearest is not None and other.nearest is not None:
            nearer = other.margin > self.margin
            self.nearest[nearer] = other.nearest[nearer]
        self.margin = self.margin.maximum(other.margin)
        self.blocked |= other.blocked
        self.counters += other.counters

    def prove(
        self, rows: Tensor, label: str, vacuous: Tensor | None = None,
        certificates: Sequence[bytes | None] = (), passes: int = PASSES,
    ) -> None:  # fmt: skip
        """Close these rows: no valid point of theirs reaches the goal."""
        if self.keep != "first":
            raise DurometerError(
                f"{label}: a proof closes rows of a model that stays; this one moves after the "
                "attacker, so there is nothing that could be proven about a row"
            )
        self._refuse_rows(rows[self.solved[rows]], f"{label} says it is proven")
        self.proven[rows] = True
        self.passes[rows] = passes
        if vacuous is not None:
            self.vacuous[rows] = vacuous
        self.credit(rows, label)
        for i, kept in zip(rows.tolist(), certificates, strict=False):
            if kept is not None:
                self.certificates[i] = kept

    def overturn(self, row: int, x: Tensor, logits: Tensor, whose: str) -> None:
        """The auditor broke a proven row by this valid input: it is broken, and says whose proof
        that was. `Records.withdrawn` then withdraws all proofs of the run."""
        self.proven[row], self.vacuous[row], self.solved[row] = False, False, True
        self.certificates.pop(row, None)
        self.best[row], self.final[row] = x, logits.argmax()
        self.margin[row] = gap(logits[None], self.targets[row][None])[0].to(self.margin.dtype)
        self.overturned[row] = whose
        self.credit(torch.tensor([row], device=self.who.device), AUDITOR)

    def _refuse_rows(self, rows: Tensor, now: str) -> None:
        """Broken and proven at once: say which row, by whom, and stop."""
        if len(rows):
            i = int(rows[0])
            was = "is proven" if bool(self.proven[i]) else "is broken by a valid point"
            by = f" ({self.winner[i]})" if int(self.who[i]) else ""
            raise Contradiction(
                f"row {i} of the batch {was}{by}, and now {now}: one of the two is wrong. Both see "
                "the same model and region, so this is a bug; please report it with the model"
            )

    def _refuse(self, mask: Tensor, now: str) -> None:
        self._refuse_rows(mask.nonzero()[:, 0], now)

    def read(self, rows: Tensor, logits: Tensor) -> Answers:
        """What these answers say of the goal."""
        return read(logits, self.targets, rows, self.slack, self.margin)

    def judge(
        self,
        rows: Tensor,
        x: Tensor,
        logits: Tensor,
        value: Tensor,
        region: Region,
        label: str,
        read: Answers | None = None,
        own: bool = False,
    ) -> None:
        """Keep what deserves it. `rows` may repeat: the best candidate of a row is taken.

        `read`: what the logits say of the goal, where known. `own`: they are the model's anyhow.
        """
        read = self.read(rows, logits) if read is None else read
        asks = self.confirm is not None and not own
        if asks:
            read = in_doubt(self, rows, logits, read)
        margin, hit, finite, matters = read
        if not is_cpu(rows.device):
            self._judge_all(rows, x, logits, value, region, label, margin, hit, finite)
            return
        if not bool(finite.all()):
            self.counters[:, 2].index_add_(0, rows, (~finite).long())
        # Validity can cost more than the model: asked only where the answer can matter.
        if self.keep != "first":
            matters = matters | (value > self.value[rows]).logical_and_(finite)
        at = matters.nonzero()[:, 0]  # a mask would be searched by each line
        if not len(at):
            return
        valid = contains_at(region, x, at)
        rows, margin, hit = (t.index_select(0, at) for t in (rows, margin, hit))
        if asks and bool(hit.any()):
            logits = confirm_candidates(self, rows, at, x, logits, margin, hit, valid)
        margin = margin.double().masked_fill_(~valid, -torch.inf)
        if self.nearest is not None:
            nearer = _best_of_each(rows, margin, margin > self.margin[rows])
            self.nearest.index_copy_(0, rows[nearer], x.index_select(0, at[nearer]))
        self.margin.scatter_reduce_(0, rows, margin, "amax")
        if bool(hit.any()):
            self.blocked[rows[hit & ~valid]] = True
            self._refuse_rows(rows[hit & valid & self.proven[rows]], f"{label} broke it")
        elif self.keep == "first":
            return
        value = value.index_select(0, at)
        if self.keep == "first":
            take = hit & valid & ~self.solved[rows]
            rank = margin
        else:
            take = valid & (value > self.value[rows])
            rank = value.double()
        if not bool(take.any()):
            return
        chosen = _best_of_each(rows, rank, take)
        rows, at = rows[chosen], at[chosen]
        self.best[rows] = x[at]
        self.final[rows] = logits[at].argmax(1)
        self.value[rows] = value[chosen].double()
        self.solved[rows] = hit[chosen]
        self.credit(rows, label)

    def _judge_all(
        self, rows: Tensor, x: Tensor, logits: Tensor, value: Tensor, region: Region, label: str,
        margin: Tensor, hit: Tensor, finite: Tensor,
    ) -> None:  # fmt: skip
        """The same without a single look at the outcome, which the host would have to wait for."""
        self.counters[:, 2].index_add_(0, rows, (~finite).long())
        valid = region.contains(x) & finite
        margin = margin.to(self.margin.dtype).masked_fill(~valid, -torch.inf)
        if self.nearest is not None:
            place, some = self._first(rows, margin, margin > self.margin[rows])
            _put(self.nearest, rows, some, x.index_select(0, place))
        self.margin.scatter_reduce_(0, rows, margin, "amax")
        barred = (hit & finite & ~valid).long()
        self.blocked |= torch.zeros_like(self.who).index_add_(0, rows, barred) > 0
        if self.keep == "first":
            take, rank = hit & valid & ~self.solved[rows], margin
        else:
            rank = value.to(self.value.dtype)
            take = valid & (rank > self.value[rows])
        place, some = self._first(rows, rank, take)
        _put(self.best, rows, some, x.index_select(0, place))
        _put(self.final, rows, some, logits.argmax(1)[place])
        _put(self.value, rows, some, value.to(self.value.dtype)[place])
        _put(self.solved, rows, some, hit[place])
        _put(self.who, rows, some, torch.full_like(rows, self._code(label)))

    def _first(self, rows: Tensor, rank: Tensor, take: Tensor) -> tuple[Tensor, Tensor]:
        """For each of `rows` the place of its highest-ranked taken candidate, and if it has one."""
        top = torch.full_like(self.margin, -torch.inf)
        top.scatter_reduce_(0, rows, rank.masked_fill(~take, -torch.inf), "amax")
        none = len(rows)
        place = torch.arange(none, device=rows.device).masked_fill(
            ~(take & (rank == top[rows])), none
        )
        first = torch.full_like(self.who, none).scatter_reduce_(0, rows, place, "amin")[rows]
        return first.clamp_max(none - 1), first < none


def _moved(held: Tensor, device: torch.device) -> Tensor:
    """At another place, in the precision that is usual there."""
    if not held.is_floating_point():
        return held.to(device)
    wide = widest(device)
    return held.to(wide).to(device) if is_cpu(held.device) else held.to(device).to(wide)


def _put(held: Tensor, rows: Tensor, some: Tensor, new: Tensor) -> None:
    """held[rows] = new, where `some`; a row that is named twice is given the same thing twice."""
    mask = some.reshape(-1, *[1] * (held.ndim - 1))
    held.index_copy_(0, rows, torch.where(mask, new, held.index_select(0, rows)))


def _best_of_each(rows: Tensor, rank: Tensor, take: Tensor) -> Tensor:
    """Positions of the highest-ranked taken candidate of each row."""
    places = take.nonzero()[:, 0]
    if bool((rows[1:] > rows[:-1]).all()):  # no row is there twice
        return places
    places = places[rank[places].argsort(descending=True, stable=True)]
    places = places[rows[places].argsort(stable=True)]
    first = torch.ones_like(places, dtype=torch.bool)
    first[1:] = rows[places][1:] != rows[places][:-1]
    return places[first]


def in_doubt(referee: Referee, rows: Tensor, logits: Tensor, read: Answers) -> Answers:
    """A copy's answers, with a hit wherever the model may see one."""
    size = _size(referee, rows, logits)
    doubt = logits.abs().amax(1) * referee.slack - 2 * AGREE * size
    hit = (read.margin > doubt).logical_and_(read.finite)
    return read._replace(hit=hit, matters=read.matters | hit)


@torch.no_grad()
def confirm_candidates(
    referee: Referee, rows: Tensor, at: Tensor, x: Tensor, logits: Tensor, margin: Tensor,
    hit: Tensor, valid: Tensor,
) -> Tensor:  # fmt: skip
    """The logits (n, C) of all inputs x, the model's own where one of `at` could be kept; their
    margins and hits, which are of `at` alone, are put in place."""
    assert referee.confirm is not None
    news = ~referee.solved[rows] | (margin > referee.margin[rows])
    ask = (hit & valid & news).nonzero()[:, 0]
    if not len(ask):
        return logits
    rows, at = rows[ask], at[ask]
    own = referee.confirm(x[at]).to(logits.dtype)
    targets = referee.targets[rows]
    its = gap(own, targets).nan_to_num(-torch.inf)
    apart = ~((its - margin[ask]).abs() <= 2 * AGREE * _size(referee, rows, own))
    referee.counters[:, 3].index_add_(0, rows, apart.long())
    margin[ask], hit[ask] = its, reached(own, targets, referee.slack, its)
    return logits.index_copy(0, at, own)


def _size(referee: Referee, rows: Tensor, logits: Tensor) -> Tensor:
    """(n,): what rounding is a share of. Where two classes meet both logits may be 0, so not less
    than the size of the clean ones."""
    assert referee.scale is not None
    return logits.abs().amax(1).maximum(referee.scale.index_select(0, rows).to(logits.dtype))


class Answers(NamedTuple):
    """Of each answer (n,): its `gap` to the goal, and three yes or no."""

    margin: Tensor
    hit: Tensor  # it reaches the goal by more than rounding
    finite: Tensor  # all its numbers are
    matters: Tensor  # a hit, or nearer than what was known, and finite


def read(logits: Tensor, targets: Tensor, rows: Tensor, slack: float, nearest: Tensor) -> Answers:
    """Answers (n, C) for `rows` of a batch: its `targets` (N, C), and the margins known (N,)."""
    if serves(logits) and nearest.dtype == torch.float64:
        return _compiled(logits, targets, rows, slack, nearest)
    wanted = targets.index_select(0, rows)
    margin, size = gap(logits, wanted), logits.abs().amax(1)
    finite = size < torch.inf  # not so where there is a NaN
    hit = margin > size * slack if slack else reached(logits, wanted)
    nearer = margin > nearest.index_select(0, rows)
    return Answers(margin, hit, finite, nearer.logical_or_(hit).logical_and_(finite))


@cache
def _kernel(kind: str) -> Kernel:
    sizes = dict.fromkeys(("n", "classes", "batch"), "size")
    return Kernel(f"judge_{kind}", **sizes, slack="float64", logits=f"{kind}[n, classes]",
                  targets="bool[batch, classes]", rows="int64[n]", nearest="float64[batch]",
                  margin=f"out {kind}[n]", seen="out bool[3, n]")  # fmt: skip


def _compiled(
    logits: Tensor, targets: Tensor, rows: Tensor, slack: float, nearest: Tensor
) -> Answers:
    margin = torch.empty(len(rows), dtype=logits.dtype)
    seen = torch.empty(3, len(rows), dtype=torch.bool)
    read = [t.contiguous() for t in (logits, targets, rows, nearest)]
    _kernel(NAMES[logits.dtype])(slack, *read, margin, seen)
    return Answers(margin, *seen.unbind())
