"""What every attack is, and how attacks combine: Then, Worst, Restarts, Guess.

An attack is a frozen dataclass with `needs` and `__call__(problem)`; it returns nothing, because
what it found is what the referee kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import getattr_static
from typing import Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from durometer.core import serialization
from durometer.core.capabilities import OneGoal, Titled, is_cpu_only, loss_of
from durometer.core.errors import DurometerError
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem, moved_to_cpu
from durometer.spaces.ball import LpRegion
from durometer.tables.region import TableRegion

Start = Literal["random", "clean", "best"]  # see `start`
LAST = 0.2  # of a budget: what a search gains there is its pace


@runtime_checkable
class Attack(Protocol):
    """An attack: anything that hands in candidates for the open rows of a problem."""

    @property
    def needs(self) -> Needs:
        """What the attack requires of the model and the space; checked before any work."""
        ...

    def __call__(self, problem: Problem) -> None:
        """Attacks the open rows; what it finds is kept by the problem.

        Args:
            problem: Rows, regions, model and goal of a batch.
        """
        ...


def label(attack: Attack) -> str:
    """A short name for records: the class, and the loss where it was chosen."""
    name = (attack.name if isinstance(attack, Titled) else "") or type(attack).__name__
    loss = loss_of(attack)
    return f"{name}-{loss}" if isinstance(loss, str) else str(name)


def attack_names(attack: Any) -> Iterator[str]:
    """The types of an attack and of the attacks it is made of, outermost first."""
    if attack is None:
        return
    yield serialization.type_name(attack)
    for f in fields(attack) if is_dataclass(attack) else ():
        value = getattr(attack, f.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if getattr_static(inner, "needs", None) is not None:
                yield from attack_names(inner)


def for_other_goals(attack: Attack) -> Attack:
    """The attack to be used for further goals: its own, where it is made for one kind of goal."""
    other: Attack = attack.for_other_goals if isinstance(attack, OneGoal) else attack
    return other


def run(attack: Attack, problem: Problem, name: str | None = None) -> None:
    """Run an attack on what is open, under its own name and with its own loss."""
    proof = attack.needs.is_proof  # needs no query, so no budget either
    rows = problem.undecided if proof else problem.open
    if attack.needs.revisits_broken:
        rows = torch.cat([rows, problem.broken]).sort().values
    if attack.needs.poisons and problem.simulation is not None:
        rows = problem.simulation.controlled.nonzero()[:, 0]
    if not len(rows):
        return
    view = problem.aim(loss=loss_of(attack), label=name or label(attack))
    if not (attack.needs.gradient or proof):
        view.mark_gradient_free(view.label)
    with timed(problem.spent, view.label, rows.cpu(), len(problem.y)):
        if is_cpu_only(attack):
            with moved_to_cpu(view) as lent:
                attack(lent)
        else:
            attack(view)


@contextmanager
def timed(spent: dict[str, Tensor], stage: str, rows: Tensor, n: int) -> Iterator[None]:
    """Book the seconds of a stage on its rows; a stage made of stages leaves it to them."""
    before = sum(float(t.sum()) for t in spent.values())
    began = time.perf_counter()
    yield
    if sum(float(t.sum()) for t in spent.values()) == before:
        spent.setdefault(stage, torch.zeros(n, dtype=torch.float64))
        spent[stage][rows] += (time.perf_counter() - began) / len(rows)


def start(problem: Problem, rows: Tensor, where: str) -> Tensor:
    """Where a search begins: a "random" point, the "clean" one, or the "best" one kept so far."""
    region = problem.region(rows)
    if where == "random":
        return region.random(problem.random, rows)
    if where == "clean":
        return region.origin.clone()
    if where == "best":
        return region.encode(problem.nearest(rows)).clone()
    raise DurometerError(f"start={where!r}: expected 'random', 'clean' or 'best'")


def compact(mask: Tensor, *tensors: Tensor) -> Iterable[Tensor]:
    """Every tensor, with only the rows of the mask: solved rows cost nothing more.

    The tensors themselves where no row is dropped. The host learns one number, how many are left.
    """
    at = mask.nonzero()[:, 0]
    return tensors if len(at) == len(mask) else (t.index_select(0, at) for t in tensors)


def overwrite(held: Tensor, better: Tensor, new: Tensor) -> None:
    """held[better] = new[better] (n, D), without asking which rows those are: all are written.

    With a weight of 0 or 1 an interpolation is exact, and costs a fifth of a `where`.
    """
    held.lerp_(new, better.to(held.dtype)[:, None])


def ball(problem: Problem, rows: Tensor) -> LpRegion:
    """The region of an attack whose needs name norms: `check_needs` has seen that it is a ball."""
    return cast(LpRegion, problem.region(rows))


def without_repair(problem: Problem) -> Problem:
    """The same problem where broken relations are left to the penalty; other spaces unchanged."""
    region = problem.regions
    if not isinstance(region, TableRegion):
        return problem
    return problem.in_region(region.unrepaired())


@dataclass(eq=False)
class Pace:
    """Was a search of `total` steps still coming nearer when its budget ended?

    A row counts as improving if, at the pace of the last fifth of the budget, as much again would
    have reached the goal. Small steps that lead nowhere (a gradient attack always gains a little)
    do not.
    """

    problem: Problem
    total: int
    _before: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._before = self.problem.margin.clone()

    def step(self, done: int) -> None:
        """So many steps are done."""
        if done <= (1 - LAST) * self.total:
            self._before = self.problem.margin.clone()

    def end(self, rows: Tensor) -> None:
        """The budget of these rows is spent: say which of them were on their way."""
        now = self.problem.margin[rows]
        gain = (now - self._before[rows]).nan_to_num(0.0, posinf=0.0)
        self.problem.improving(rows[(gain > 0) & (now + gain / LAST >= 0)])
