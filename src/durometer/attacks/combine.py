"""Combinators: attacks made of attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from durometer.attacks.base import Attack, label, run
from durometer.attacks.orders import Order
from durometer.core.capabilities import Starts
from durometer.core.errors import DurometerError
from durometer.core.validation import check_fields, noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


def _merged(attacks: tuple[Attack, ...]) -> Needs:
    if not attacks:
        raise DurometerError("a combination of attacks needs at least one attack")
    needs = attacks[0].needs
    for attack in attacks[1:]:
        needs = needs | attack.needs
    return needs


@dataclass(frozen=True, init=False)
class Then:
    """Several attacks in turn, each on the rows that the ones before it left open.

    Args:
        *attacks: The attacks, in order. One with `start="best"` continues from the best point found
            so far.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.Then(du.FGSM(), du.Square(50))
    ... ).metric("robust").value
    0.25
    """

    attacks: tuple[Attack, ...]

    def __init__(self, *attacks: Attack) -> None:
        object.__setattr__(self, "attacks", attacks)
        check_fields(self)

    def __repr__(self) -> str:
        return f"Then({', '.join(map(repr, self.attacks))})"

    @property
    def needs(self) -> Needs:
        return _merged(self.attacks)

    def __call__(self, problem: Problem) -> None:
        if any(isinstance(attack, Starts) and attack.start == "best" for attack in self.attacks):
            problem.remember()
        for attack in self.attacks:
            run(attack, problem)


@dataclass(frozen=True, init=False)
class Worst:
    """Several attacks on every row; of each row's successes the one nearest to the clean input is
    kept.

    Args:
        *attacks: The attacks.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.Worst(du.FGSM(), du.PGD(5))
    ... ).metric("robust").value
    0.3125
    """

    attacks: tuple[Attack, ...]

    def __init__(self, *attacks: Attack) -> None:
        object.__setattr__(self, "attacks", attacks)
        check_fields(self)

    def __repr__(self) -> str:
        return f"Worst({', '.join(map(repr, self.attacks))})"

    @property
    def needs(self) -> Needs:
        return _merged(self.attacks)

    def __call__(self, problem: Problem) -> None:
        trials = [problem.fork() for _ in self.attacks]
        for attack, trial in zip(self.attacks, trials, strict=True):
            run(attack, trial)
            problem.absorb(trial)


@noun
class Restarts:
    """The same attack several times with fresh random numbers, each time on the rows still open.

    Args:
        attack: The attack.
        times: Number of runs.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.Restarts(du.PGD(5), 2)).metric(
    ...     "robust"
    ... ).value
    0.3125
    """

    attack: Attack
    times: int = 5

    @property
    def needs(self) -> Needs:
        return self.attack.needs

    @property
    def name(self) -> str:
        """The name in the records: that of the attack."""
        return label(self.attack)

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.times):
            run(self.attack, problem)


@noun
class Guess:
    """One run of an attack per target class, instead of one run at all target classes (Lin et al.,
    NDSS 2024).

    Reaching any class of the goal counts, whichever was aimed at.

    Args:
        attack: The attack of one run.
        mode: "until_success" stops at a row's first success. "best" tries every target (the same
            successes at the full price). "worst" tries every target and needs every run to succeed.
            "average" aims at one target per row, drawn uniformly.
        most: Largest number of targets to try per row. None: all.
        order: Which target to try first; see `orders`. None: the likeliest on the clean input.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.Guess(du.PGD(5))).metric(
    ...     "robust"
    ... ).value
    0.25
    """

    attack: Attack
    mode: Literal["best", "worst", "average", "until_success"] = "until_success"
    most: int | None = None
    order: Order | None = None

    @property
    def needs(self) -> Needs:
        return self.attack.needs | self.order.wants if self.order else self.attack.needs

    @property
    def name(self) -> str:
        """The name in the records: that of the attack with "-T"."""
        return f"{label(self.attack)}-T"

    def __call__(self, problem: Problem) -> None:
        if self.mode == "average":
            goal, rows = problem.targets, problem.open
            allowed, order = _likeliest(problem)
            pick = torch.zeros_like(allowed)
            pick[rows] = problem.random.integers(rows, 1, allowed[rows][:, None])[:, 0]
            run(self.attack, problem.aim(targets=_single(goal, order, pick)), self.name)
            return
        scores = self.order.scores(problem) if self.order else None
        singles = single_targets(problem, self.most, scores)
        if self.mode == "until_success":
            for targets in singles:
                run(self.attack, problem.aim(targets=targets), self.name)
            return
        trials = [(problem.fork(), targets) for targets in singles]  # before any of them is run
        for trial, targets in trials:
            run(self.attack, trial.aim(targets=targets), self.name)
            if self.mode == "best":
                problem.absorb(trial)
        if self.mode == "worst":
            always = [trial.solved | ~some.any(1) for trial, some in trials]
            first, *others = (trial for trial, _ in trials)  # every row has a first target
            won = torch.stack(always).all(0) & first.solved
            problem.absorb(first, won)
            for other in others:  # nothing to keep, but what was seen on the way counts
                problem.absorb(other, torch.zeros_like(won))


def single_targets(
    problem: Problem, most: int | None = None, scores: Tensor | None = None
) -> Iterator[Tensor]:
    """Masks (n, C) of one target per row: each row's likeliest, then its second, and so on.

    `scores` (n, C) give another order, lowest first.
    """
    goal = problem.targets
    allowed, order = _likeliest(problem)
    if scores is not None:
        order = scores.masked_fill(~goal, torch.inf).argsort(dim=1, stable=True)
    for k in range(min(int(allowed.max()), most or goal.shape[1])):
        yield _single(goal, order, torch.full_like(allowed, k)) & (allowed > k)[:, None]


def _likeliest(problem: Problem) -> tuple[Tensor, Tensor]:
    """How many targets each row has, and the classes in order: targets first, likeliest first."""
    goal = problem.targets
    clean = problem.clean.masked_fill(~goal, -torch.inf)
    return goal.sum(1), clean.argsort(dim=1, descending=True, stable=True)


def _single(goal: Tensor, order: Tensor, k: Tensor) -> Tensor:
    """A mask with one target per row: the k-th of the order."""
    return torch.zeros_like(goal).scatter_(1, order.gather(1, k[:, None]), True)
