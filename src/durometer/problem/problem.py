"""Problem: all an attack sees of one batch. It hands in candidates; the referee in here decides.

Every point ever queried is also a candidate: `region.decode` gives the very input that would be
handed in, so the logits of a gradient query are the logits of a submission, and no attack needs a
second forward pass to find out whether it has won. A row is `open` until a valid point reaches the
goal or a proof says that none does (`prove`; `keep="first"`, a fixed model); where the model will
move afterwards, all rows stay open and the valid point of highest loss is kept (`keep="best"`).

Attacks ask a faster copy of the model (`stand_in`) if there is one; the referee has it confirmed.

What a reader would get wrong: `aim()` gives an attack other targets or another loss to *steer* by,
never another goal to be judged by.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from durometer import losses
from durometer.core import devices
from durometer.core.errors import Unsupported
from durometer.core.streams import Stream
from durometer.goals.goal import reached
from durometer.model.classifier import Classifier
from durometer.problem import device_transfer
from durometer.problem.budget import UNLIMITED, Budget
from durometer.problem.defender_simulation import DefenderSimulation, check_batch
from durometer.problem.donors import Donors
from durometer.problem.referee import PASSES, Referee
from durometer.problem.victims import Victims
from durometer.spaces.region import Region, widened


@dataclass(eq=False)
class Problem:
    """One batch, as an attack sees it: it queries points, and every valid point that reaches the
    goal is kept.

    Args:
        model: The classifier.
        regions: The regions of all rows.
        referee: Judges every point and keeps the successes.
        random: Random numbers per row.
        y: True classes (n,).
        clean: Logits on the clean inputs (n, C).
        targets: The classes that the loss steers to (n, C); by default those of the goal.
        loss: The loss.
        budget: Limit on the model evaluations per row.
        label: Name of the attack in the records.
        scope: Rows that this view may touch (n,) bool. None: all.
        victims: Models that are attacked in place of `model`. None: `model` itself.
        simulation: Simulates the defender. None: the model is fixed.
        stand_in: A faster copy of the model that attacks query; its successes are confirmed. None:
            there is none.
        donors: Rows of the data with the model's own labels, for attacks with `Needs(donors=True)`.
            None: there are none.
    """

    model: Classifier
    regions: Region
    referee: Referee  # the game's own: an attack has `submit`, `kept`, `goal` and the like
    random: Stream
    y: Tensor  # true classes
    clean: Tensor  # (n, C): clean logits
    targets: Tensor  # (n, C): what the loss steers towards; by default the goal
    loss: losses.Loss
    budget: Budget = UNLIMITED
    label: str = ""
    scope: Tensor | None = None  # (n,) bool: rows this view may touch; None: all
    victims: Victims | None = None  # attacked in place of `model`
    simulation: DefenderSimulation | None = None  # None: the model is fixed
    stand_in: Classifier | None = None  # asked in place of `model`; proofs ask the model
    donors: Donors | None = None  # rows of the data with the model's labels: `Needs(donors=True)`
    _cached: tuple[Region, Tensor, Region] | None = field(default=None, repr=False)
    _place: torch.device | None = field(init=False, repr=False)  # the model's; looked up once

    def __post_init__(self) -> None:
        self._place = self.model.device

    @property
    def open(self) -> Tensor:
        """Positions of the rows that are neither broken nor proven and have budget left."""
        rows = torch.arange(len(self.y), device=self.y.device)
        return self.alive(rows).nonzero()[:, 0]

    @property
    def undecided(self) -> Tensor:
        """Positions of the rows that are neither broken nor proven."""
        rows = torch.arange(len(self.y), device=self.y.device)
        return self._unsettled(rows).nonzero()[:, 0]

    @property
    def broken(self) -> Tensor:
        """Positions of the rows that are broken; nearer points may still be handed in."""
        scope = True if self.scope is None else self.scope
        return (self.solved & ~self.referee.idle & scope).nonzero()[:, 0]

    @property
    def margin(self) -> Tensor:
        """The best margin of a valid point so far (n,): positive where the goal is reached."""
        return self.referee.margin

    def alive(self, rows: Tensor) -> Tensor:
        """Which of these rows are worth another query: neither broken nor proven, and with budget
        left.

        Args:
            rows: Positions of the rows (m,).

        Returns:
            (m,) bool.
        """
        left = self._unsettled(rows)
        return left if self.budget == UNLIMITED else left.logical_and_(self.afford(rows))

    def _unsettled(self, rows: Tensor) -> Tensor:
        closed = self.referee.idle
        if self.referee.keep == "first":
            closed = (self.referee.solved | self.referee.proven).logical_or_(closed)
        left = closed.index_select(0, rows).logical_not_()
        return left if self.scope is None else left.logical_and_(self.scope[rows])

    def afford(self, rows: Tensor) -> Tensor:
        """Which of these rows have budget left.

        Args:
            rows: Positions of the rows (m,).

        Returns:
            (m,) bool.
        """
        return self.budget.left(self.referee.forwards[rows], self.referee.backwards[rows])

    @property
    def goal(self) -> Tensor:
        """The classes that count as a success (n, C), whatever the loss steers to."""
        return self.referee.targets

    @property
    def solved(self) -> Tensor:
        """The rows for which a success was found (n,) bool."""
        return self.referee.solved

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.referee.best.shape[1:])

    def kept(self, rows: Tensor) -> Tensor:
        """The inputs that would be handed in for these rows.

        Args:
            rows: Positions of the rows (m,).
        """
        return self.referee.best[rows]

    def inputs(self, rows: Tensor) -> Tensor:
        """The clean inputs of these rows.

        Args:
            rows: Positions of the rows (m,).
        """
        return self.referee.start[rows]

    def give_back(self, rows: Tensor) -> None:
        """Hands in the clean inputs of these rows after all.

        Args:
            rows: Positions or a mask.
        """
        self.referee.best[rows] = self.referee.start[rows]

    def remember(self) -> None:
        """From now on, keeps the valid input of every row that is nearest to the goal."""
        self.referee.remember()

    def nearest(self, rows: Tensor) -> Tensor:
        """Where to continue: the inputs of highest margin if remembered, else those kept.

        Args:
            rows: Positions of the rows (m,).
        """
        known = self.referee.nearest
        return (self.referee.best if known is None else known)[rows]

    def set_priority(self, scores: Tensor) -> None:
        """Records how promising each row is for the attacker.

        Args:
            scores: One score per row (n,); lower is tried first.
        """
        self.referee.score[:] = scores

    @property
    def spent(self) -> dict[str, Tensor]:
        """Seconds by stage and row, as far as they are recorded."""
        return self.referee.spent

    def mark_gradient_free(self, label: str) -> None:
        """Records that an attack needs no gradients.

        Args:
            label: Its name in the records.
        """
        self.referee.searches.add(label)

    def reaches(self, logits: Tensor, targets: Tensor | None = None) -> Tensor:
        """Whether logits of all rows reach the goal by more than rounding (n,) bool.

        Args:
            logits: Logits (n, C).
            targets: The classes of each row that count (n, C). None: those of the goal.
        """
        return reached(logits, self.goal if targets is None else targets, self.referee.slack)

    def in_region(self, regions: Region) -> Problem:
        """The same problem in other regions.

        Args:
            regions: The regions of all rows.
        """
        view = copy.copy(self)
        view.regions = regions
        return view

    def region(self, rows: Tensor) -> Region:
        """The region of these rows; asking again with the same tensor costs nothing.

        Args:
            rows: Positions of the rows (m,).
        """
        held = self._cached
        if held is None or held[0] is not self.regions or held[1] is not rows:
            held = self._cached = (self.regions, rows, self.regions.take(rows))
        return held[2]

    def aim(
        self,
        targets: Tensor | None = None,
        loss: str | losses.Loss | None = None,
        label: str | None = None,
    ) -> Problem:
        """The same problem with other targets or another loss to steer by; successes are judged as
        before.

        Args:
            targets: The classes to steer to (n, C); rows without any are left alone. None: as
                before.
            loss: The loss, by name or as a function. None: as before.
            label: Name in the records. None: as before.
        """
        view = copy.copy(self)
        if targets is not None:
            view.targets = targets
            some = targets.any(1)
            view.scope = some if self.scope is None else self.scope & some
        view.loss = self.loss if loss is None else losses.find(loss)
        view.label = self.label if label is None else label
        return view

    def fork(self) -> Problem:
        """A copy in which nothing has been tried on the open rows; `absorb` brings its successes
        back.
        """
        view = copy.copy(self)
        view.scope = torch.zeros_like(self.referee.solved)
        view.scope[self.open] = True
        view.referee = self.referee.fork()
        return view

    def absorb(self, trial: Problem, better: Tensor | None = None) -> None:
        """Takes over the results of a fork, row by row where they are better.

        Args:
            trial: The fork.
            better: Rows to take over (n,) bool. None: nearer successes, or a higher loss where the
                model will move.
        """
        mine, theirs = self.referee, trial.referee
        if better is None and mine.keep == "first":
            near = self.regions.distance
            # Clearly nearer: a tie must not be decided by rounding, which differs between batches.
            nearer = near(theirs.best) < near(mine.best) * (1 - 1e-6)
            better = theirs.solved & (~mine.solved | nearer)
        elif better is None:
            better = theirs.value > mine.value
        mine.absorb(theirs, better)

    def against(self, victims: Victims) -> Problem:
        """A fork whose loss is taken over several models.

        Args:
            victims: The models.
        """
        view = self.fork()
        view.victims = victims
        return view

    def hand_in(self, batch: Tensor) -> Tensor:
        """Hands in a whole batch, where the model adapts afterwards.

        Args:
            batch: The inputs (n, ...).

        Returns:
            Which rows were taken (n,) bool: those that the attacker controls and that lie in the
                space.
        """
        mine = self.referee.best
        simulation = check_batch(self.simulation, batch, mine)
        batch = batch.detach().to(mine)
        taken = simulation.controlled & self.regions.contains(batch)
        changed = taken & (batch != mine).flatten(1).any(1)
        mine[taken] = batch[taken]
        self.referee.credit(changed, self.label)
        return taken

    def choose(self, trial: Problem) -> None:
        """Hands in what a fork kept, in all rows.

        Args:
            trial: The fork.
        """
        self.referee.absorb(trial.referee, torch.ones_like(self.referee.solved))

    def value_and_grad(
        self, rows: Tensor, z: Tensor, loss: losses.Loss | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss minus penalty, and its gradient; every point is also a candidate.

        Args:
            rows: Positions of the rows (m,).
            z: Search coordinates (m, D).
            loss: The loss. None: the problem's.

        Returns:
            Values (m,) and gradients (m, D).
        """
        region = self.region(rows)
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            x = region.decode(z)
            logits, value = self._look(x, rows, loss)
            if region.constrained:
                value = value - region.penalty(z)
            grad: Tensor
            (grad,) = torch.autograd.grad(value.sum(), z)
        value, logits, x = value.detach(), logits.detach(), x.detach()
        self.charge(rows, backwards=1)
        self.referee.judge(rows, x, logits, value, region, self.label)
        return value, self.referee.record_gradients(rows, grad)

    def jacobian(
        self, rows: Tensor, z: Tensor, classes: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits and the gradients of several classes; every point is also a candidate.

        Args:
            rows: Positions of the rows (m,).
            z: Search coordinates (m, D).
            classes: The classes of each row (m, k). None: all.

        Returns:
            Logits (m, C) and gradients (m, k, D), at the price of k backward passes.

        Raises:
            Unsupported: Several models are attacked at once.
        """
        if self.victims is not None:
            raise Unsupported("attacks that need all classes' gradients take one model; use PGD")
        region = self.region(rows)
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            x = region.decode(z)
            logits = (self.stand_in or self.model).logits(x, rows)
            wanted = logits if classes is None else logits.gather(1, classes)
            grads = [
                torch.autograd.grad(wanted[:, c].sum(), z, retain_graph=True)[0]
                for c in range(wanted.shape[1])
            ]
            value = self.loss(logits, self.targets[rows])
        self.charge(rows, backwards=wanted.shape[1])
        self.referee.judge(rows, x.detach(), logits.detach(), value.detach(), region, self.label)
        return logits.detach(), torch.stack(grads, dim=1)

    @torch.no_grad()
    def value(self, rows: Tensor, z: Tensor, loss: losses.Loss | None = None) -> Tensor:
        """Loss minus penalty without a gradient; every point is also a candidate.

        Args:
            rows: Positions of the rows (m,); may repeat.
            z: Search coordinates (m, D).
            loss: The loss. None: the problem's.

        Returns:
            (m,).
        """
        region = self.region(rows)
        x = region.decode(z)
        read = None
        if loss is losses.margin and self.victims is None and self.targets is self.goal:
            logits = (self.stand_in or self.model).logits(x, rows)
            read = self.referee.read(rows, logits)
            value = read.margin
        else:
            logits, value = self._look(x, rows, loss)
        if region.constrained:
            value = value - region.penalty(z)
        self.charge(rows, backwards=0)
        self.referee.judge(rows, x, logits, value, region, self.label, read)
        return value

    @torch.no_grad()
    def query(self, rows: Tensor, x: Tensor, penalty: Tensor | float = 0.0) -> Tensor:
        """Logits of inputs as they are; every input is also a candidate.

        Args:
            rows: Positions of the rows (m,); may repeat.
            x: Inputs (m, ...).
            penalty: What counts against the loss, where the best input is kept.

        Returns:
            (m, C); NaN where a row has no budget left.
        """
        price = 1 if self.victims is None else len(self.victims.models)
        paid = self.budget.pays(self.referee.forwards[rows], rows, price)
        if not bool(paid.all()):
            answers = self.clean.new_full((len(rows), self.clean.shape[1]), torch.nan)
            if bool(paid.any()):
                part = penalty[paid] if isinstance(penalty, Tensor) else penalty
                answers[paid] = self.query(rows[paid], x[paid], part).to(answers.dtype)
            return answers
        logits, value = self._look(x, rows, None, self.model)
        value = value - penalty
        self.charge(rows, backwards=0)
        self.referee.judge(rows, x, logits, value, self.region(rows), self.label, own=True)
        return logits

    @torch.no_grad()
    def predict(self, rows: Tensor, z: Tensor, wide: bool = False) -> Tensor:
        """The classes that points are given, also of points outside the region; only points inside
        are candidates.

        Args:
            rows: Positions of the rows (m,); may repeat.
            z: Search coordinates (m, D).
            wide: Whether points are decoded without what binds them to the region: the mask of a
                patch, the levels of a picture.

        Returns:
            (m,); -1 where a row has no budget left, or the answer is not finite.
        """
        found = torch.full_like(rows, -1)
        price = 1 if self.victims is None else len(self.victims.models)
        at = self.budget.pays(self.referee.forwards[rows], rows, price).nonzero()[:, 0]
        if not len(at):
            return found
        rows = rows[at]
        region = self.regions.take(rows)
        x = (widened(region) if wide else region).decode(z[at])
        logits, value = self._look(x, rows, None, self.model)
        self.charge(rows, backwards=0)
        inside = region.contains(x).nonzero()[:, 0]
        if len(inside):
            self.referee.judge(
                rows[inside], x[inside], logits[inside], value[inside], region.take(inside),
                self.label, own=True,
            )  # fmt: skip
        finite = logits.isfinite().all(1)
        found[at] = torch.where(finite, logits.argmax(1), -1)
        return found

    def submit(self, rows: Tensor, z: Tensor) -> Tensor:
        """Hands in candidates.

        Args:
            rows: Positions of the rows (m,).
            z: Search coordinates (m, D).

        Returns:
            Which of the rows are broken now (m,) bool.
        """
        if len(rows):
            self.value(rows, z)
        return self.referee.solved[rows]

    def prove(
        self, rows: Tensor, vacuous: Tensor | None = None,
        certificates: Sequence[bytes | None] = (), passes: int = PASSES,
    ) -> None:  # fmt: skip
        """Closes rows as proven: no valid point of them reaches the goal.

        Args:
            rows: Positions of the rows (m,).
            vacuous: Rows whose proof rests on features that nobody can change (m,) bool. None: not
                known.
            certificates: One certificate per row, kept for `verify`.
            passes: What a proof cost, in model evaluations per row, besides those that were
                counted. The auditor spends a tenth of it.

        Raises:
            Unsupported: Several models are attacked at once.
        """
        if self.victims is not None:
            raise Unsupported(f"{self.label}: a proof is about one model, not about several")
        self.referee.prove(rows, self.label, vacuous, certificates, passes)

    def set_distance_lower_bound(self, rows: Tensor, distance: Tensor) -> None:
        """Records that no valid point within a distance reaches the goal.

        Args:
            rows: Positions of the rows (m,).
            distance: The distances (m,); NaN: not known.
        """
        self.referee.distance_low[rows] = self.referee.distance_low[rows].fmax(distance)

    def record_gap(self, rows: Tensor, gap: Tensor) -> None:
        """Records how far the bounds of rows end from a proof.

        Args:
            rows: Positions of the rows (m,).
            gap: The distances (m,), in clean margins of the row; 0 or less: proven.
        """
        self.referee.gap[rows] = gap.to(self.referee.gap)

    def gap(self, rows: Tensor) -> Tensor:
        """How far the bounds of rows ended from a proof (m,); NaN: nobody has bounded them.

        Args:
            rows: Positions of the rows (m,).
        """
        return self.referee.gap[rows]

    def leave(self, rows: Tensor, why: Sequence[str]) -> None:
        """Records that no further proof is worth trying on rows; open rows are saved with the
        reason.

        Args:
            rows: Positions of the rows (m,).
            why: One reason per row.
        """
        self.referee.left.update(zip(rows.tolist(), why, strict=True))

    def left(self, rows: Tensor) -> Tensor:
        """Which of these rows no further proof is worth trying on (m,) bool.

        Args:
            rows: Positions of the rows (m,).
        """
        known = [k in self.referee.left for k in rows.tolist()]
        return torch.tensor(known, dtype=torch.bool, device=rows.device)

    def improving(self, rows: Tensor) -> None:
        """Records that these rows were still coming nearer when the budget ended.

        Args:
            rows: Positions of the rows (m,).
        """
        self.referee.improving[rows] = True

    def misled(self, looked: Tensor, rows: Tensor) -> None:
        """Records on which rows gradients mislead: the margin moves more than they say, or they are
        exactly 0.

        Args:
            looked: The rows whose gradients were looked at (n,) bool.
            rows: Those of them whose gradients mislead (n,) bool.
        """
        self.referee.looked |= looked
        self.referee.misled |= rows

    def _look(
        self, x: Tensor, rows: Tensor, loss: losses.Loss | None, asked: Classifier | None = None
    ) -> tuple[Tensor, Tensor]:
        loss = loss or self.loss
        if self.victims is not None:
            return self.victims.look(x, rows, loss, self.targets[rows])
        if device_transfer.must_transfer(self.model, self._place, x, loss):
            return device_transfer.loss_on_device(self.model, x, loss, self.targets[rows])
        logits = (asked or self.stand_in or self.model).logits(x, rows)
        return logits, loss(logits, self.targets[rows])

    def charge(self, rows: Tensor, backwards: int = 0) -> None:
        """Counts a pass through the model, for attacks that make one themselves.

        Args:
            rows: Positions of the rows (m,).
            backwards: Backward passes.
        """
        one, forwards = torch.ones_like(rows), 1
        if self.victims is not None:
            forwards = self.victims.forwards if backwards else len(self.victims.models)
            backwards *= self.victims.backwards
        self.referee.forwards.index_add_(0, rows, one, alpha=forwards)
        if backwards:
            self.referee.backwards.index_add_(0, rows, one, alpha=backwards)


@contextmanager
def moved_to_cpu(problem: Problem) -> Iterator[Problem]:
    """The problem itself, or for the time being a copy of it on the processor."""
    device = problem.y.device
    if devices.is_cpu(device):
        yield problem
        return
    lent = problem.in_region(devices.moved(problem.regions, devices.HOST))
    for name in ("y", "clean", "targets", "scope"):
        setattr(lent, name, devices.moved(getattr(problem, name), devices.HOST))
    lent.referee = problem.referee.to(devices.HOST)
    lent.random = problem.random.to(devices.HOST)
    try:
        yield lent
    finally:
        problem.referee.sync_from(lent.referee.to(device))
        problem.random.learn(lent.random.to(device))
