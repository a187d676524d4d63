"""What a game is: who moves when, told as records. `evaluate` knows nothing else of games.

What a reader would get wrong: `describe` is a method, because a type check of a protocol reads its
properties, and this one digests all the weights of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from durometer.attacks.base import Attack
from durometer.core.facts import Facts
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.data.dataset import Dataset
from durometer.goals.goal import Expandable, Goal
from durometer.problem.budget import UNLIMITED, Budget
from durometer.problem.referee import Referee
from durometer.spaces.region import Space


@dataclass(frozen=True)
class Play:
    """How the rows of a game are played.

    Args:
        batch: Rows per batch.
        budget: Limit on the model evaluations per row.
        only: Numbers of the batches to play, as one. None: all of them, one after the other.
        observe: Called with the referee of each batch. None: nobody looks on.
    """

    batch: int = 256
    budget: Budget = UNLIMITED
    only: Sequence[int] | None = None  # numbers of the batches to play, at once; None: all in turn
    observe: Callable[[Referee], None] | None = None  # is shown each batch's referee


USUAL = Play()


class Carried(Protocol):
    """What a game may ask of how it is carried out; `Run` is one."""

    @property
    def until(self) -> Any:
        """When it may stop early, if at all: rows are then played in a random order."""
        ...


@runtime_checkable
class Game(Protocol):
    """A game: who moves when. `Static(model)`, `Transductive(defender)` and `Nature(model, noise)`
    are games.
    """

    @property
    def batch(self) -> int | None:
        """Rows per batch unless the user chooses; None: the usual number."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether rows do not depend on each other, so that they may be played in any order and
        apart.
        """
        ...

    def describe(self) -> Spec:
        """What the spec of a report says about the players.

        Returns:
            A spec with the fields `game` (a table), `model`, `model_hash` and `model_kind`.
        """
        ...

    def default_attack(self, space: Space | None) -> Attack | None:
        """The attack that is used where none is named.

        Args:
            space: What the attacker may change.

        Returns:
            The attack; None: nobody attacks.

        Raises:
            DurometerError: An attack must be named.
        """
        ...

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        """Why this game cannot be played for a goal or in a way; None: it can.

        Args:
            goal: What counts as a success.
            run: How the evaluation is carried out.
        """
        ...

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Self, Facts]:
        """Checks everything before any work.

        Args:
            data: The rows to play.
            space: What the attacker may change.
            goal: What counts as a success.
            attack: The attack; None: nobody attacks.

        Returns:
            The game to play, and facts about the model for the warnings of the report.

        Raises:
            DurometerError: Something cannot work; the message says what.
        """
        ...

    def play(
        self,
        data: Dataset,
        space: Space | None,
        goal: Goal,
        attack: Attack | None,
        seed: int,
        options: Play = USUAL,
    ) -> Iterator[Records]:
        """Plays the rows.

        Args:
            data: The rows to play.
            space: What the attacker may change.
            goal: What counts as a success.
            attack: The attack; None: nobody attacks.
            seed: Seed of all random numbers.
            options: Batch size, budget and which batches.

        Yields:
            The records of one batch after the other, in the order of the data.
        """
        ...
