"""What a game is: who moves when, told as records. `evaluate` knows nothing else of games.

What a reader would get wrong: `describe` is a method, because a type check of a protocol reads its
properties, and this one digests all the weights of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from durometer.attacks.base import Attack
from durometer.core.records import Records
from durometer.data.dataset import Dataset
from durometer.goals.goal import Expandable, Goal
from durometer.problem.budget import UNLIMITED, Budget
from durometer.problem.referee import Referee
from durometer.spaces.region import Space


@dataclass(frozen=True)
class Play:
    """How the rows are played: so many at a time, at what price, and who looks on."""

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
    """Static(model), Transductive(defender), Nature(model, noise)."""

    @property
    def batch(self) -> int | None:
        """Rows at a time unless the user says so; None: as many as usual."""
        ...

    @property
    def divisible(self) -> bool:
        """Rows do not meet: they may be played in any order and apart."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the spec says of the players: "game" (a table), "model", "model_hash", and
        "model_kind", which is also the "model" where it has no name of its own."""
        ...

    def default_attack(self, space: Space | None) -> Attack | None:
        """The attack where none is named; None: nobody attacks. Raises where one must be named."""
        ...

    def refuses(self, goal: Expandable, run: Carried) -> str | None:
        """Why this game cannot be played for that goal or in that way; None: it can."""
        ...

    def prepare(
        self, data: Dataset, space: Space | None, goal: Goal, attack: Attack | None
    ) -> tuple[Self, dict[str, Any]]:
        """Refuse what cannot work, before any work; the game to play, and facts for `checks`."""
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
        """The records, a batch at a time, in the order of the data."""
        ...
