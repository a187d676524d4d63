"""Job: one evaluation cut into chunks that can be played anywhere, in any order, any time.

The plan (which rows make up which chunk) depends on what was asked and on nothing else, so a run
that was killed, sharded or spread over machines ends with the same records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.attacks.base import Attack
from assay.data import Dataset
from assay.games.game import Game, Play
from assay.games.static import as_game
from assay.goals.goal import Goal
from assay.problem.budget import Budget
from assay.problem.referee import Referee
from assay.records import Records
from assay.spaces import words
from assay.spaces.region import Space

COUNTED = (
    "gradients",
    "flat",
    "nonfinite",
    "put_back",
    "searched",
)  # what a referee notices on the way


@dataclass(frozen=True, eq=False)
class Chunk:
    """A finished chunk: its records, and what was noticed while they were made."""

    records: Records
    facts: dict[str, int]
    stored: bool = False  # read from a run that was begun earlier

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"words": words.carried(self.records.adversarial)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        words.learn(state.pop("words"))
        self.__dict__.update(state)


@dataclass(eq=False)
class Job:
    """What every chunk needs. Sent to other processes without the prepared game."""

    target: Any  # as the user gave it
    data: Dataset
    space: Space | None
    goal: Goal
    attack: Attack | None
    seed: int
    batch: int
    budget: Budget
    game: Game | None = field(default=None, repr=False)  # prepared; made anew in each process
    facts: dict[str, Any] = field(default_factory=dict, repr=False)  # about the model, for flags

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"game": None}

    def prepare(self) -> dict[str, Any]:
        """Check everything and settle the game; facts about the model."""
        self.game, self.facts = as_game(self.target).prepare(
            self.data, self.space, self.goal, self.attack
        )
        return dict(self.facts)

    @property
    def count(self) -> int:
        """How many chunks there are: a game whose rounds build on each other is one."""
        if not as_game(self.target).divisible:
            return 1
        return -(-len(self.data) // self.batch)

    def play(self, chunk: int) -> Chunk:
        """Play one chunk."""
        if self.game is None:
            self.prepare()
        facts = dict.fromkeys(COUNTED, 0)

        def observe(referee: Referee) -> None:
            for name in COUNTED:
                facts[name] += getattr(referee, name)

        only = chunk if self.count > 1 else None
        options = Play(self.batch, self.budget, only, observe)
        assert self.game is not None
        moves = self.game.play(self.data, self.space, self.goal, self.attack, self.seed, options)
        records = Records.concat(moves)
        start = chunk * self.batch
        mine = slice(None) if only is None else slice(start, start + self.batch)
        known = self.data.digests(mine)
        records.columns["input"][:] = [known.get(i, 0) for i in records.columns["id"].tolist()]
        return Chunk(records, facts)
