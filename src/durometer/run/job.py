"""Job: one evaluation cut into chunks that can be played anywhere, in any order, any time.

The plan depends on what was asked and on nothing else: which rows make up which chunk (the unit of
storage), and which chunks are played as one batch (a *turn*). Turns are played whole, by whoever
plays them, so a run that was killed, sharded or spread over machines ends with the same bits.

Of data in files (`Parquet`) a chunk is a part of them, read by whoever plays it; `data` then holds
only the few rows at which the model was looked at before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from durometer.attacks.base import Attack
from durometer.core.capabilities import HasModel
from durometer.core.errors import DurometerError
from durometer.core.facts import COUNTED, Facts
from durometer.core.records import Records
from durometer.core.streams import Stream, keys
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.games.game import Game, Play
from durometer.games.nature import Nature
from durometer.games.static import Static, as_game
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Expandable, Goal
from durometer.model.classifier import AnyModel, source_of
from durometer.model.remote import Endpoint
from durometer.problem.budget import Budget
from durometer.problem.referee import Referee
from durometer.run.batch_size import TURNS, rows_at_once, rows_per_chunk
from durometer.run.prepare_dataset import prepare_dataset
from durometer.spaces import token_ids
from durometer.spaces.region import Space

BATCH = 256  # rows
STANDARD = cast(Attack, "standard")  # the attack that a game has by itself


@dataclass(frozen=True, eq=False)
class Chunk:
    """A finished chunk: its records, and what was noticed while they were made."""

    records: Records
    facts: dict[str, int]
    stored: bool = False  # read from a run that was begun earlier

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"words": token_ids.words_in(self.records.adversarial)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        token_ids.register_words(state.pop("words"))
        self.__dict__.update(state)


@dataclass(eq=False)
class Job:
    """One question, and its plan: chunks that can be played anywhere and in any order.

    `evaluate` makes one, and so does a configuration file (`Config.job`); make one by hand for
    `gate`. It is sent to worker processes without the prepared game.

    Args:
        target: The model or the game, as for `evaluate`.
        data: The rows to evaluate.
        space: What the attacker may change.
        goal: What counts as a success. Default `Untargeted()`.
        attack: The attack. The default is the game's standard one, found when the job is prepared.
            None: nobody attacks.
        seed: Seed of all random numbers.
        batch: Rows per chunk. None takes the game's usual number, else 256, and fewer of a network
            whose forward pass is long.
        budget: Limit on the model evaluations per row. Default: no limit.
        widen: Whether several chunks may be computed at once where that is faster; the records are
            the same. None: where nobody chose the size of a chunk.
        also: Further goals, each played by itself.
        rules: The game that `target` stands for: who moves when. None: it is found, once.
        game: The prepared game; filled in by `prepare`.
        facts: What was found out about the model, for the warnings of the report; filled in by
            `prepare`.
        source: The files where the data are larger than memory; `data` then holds a few of their
            rows.
        asked: The goal before it was bound to the rows; filled in by `bound`.
        width: Rows that fit into memory at once; measured on first use.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.gate(du.Job(net, data, du.Linf(0.1)), "robust >= 0.95").outcome
    'fail'
    """

    target: AnyModel | Game  # as the user gave it
    data: Dataset
    space: Space | None = None
    goal: Expandable = field(default_factory=Untargeted)
    attack: Attack | None = STANDARD  # the game's own, found when it is prepared
    seed: int = 0
    batch: int | None = None
    budget: Budget = field(default_factory=Budget)
    widen: bool | None = None  # chunks may be played several at once, where that is faster
    also: Sequence[Expandable] = ()
    rules: Game = field(default=cast(Game, None), repr=False)  # found once, whatever is replaced
    game: Game | None = field(default=None, repr=False)  # prepared; made anew in each process
    facts: Facts = field(default_factory=Facts, repr=False)  # about the model, for flags
    source: Parquet | None = None  # where the rows are, if not in `data`
    asked: Expandable | None = None  # the goal before it was bound to `data`: each part binds it

    width: int | None = None  # rows that fit into one batch, once they were counted

    def __post_init__(self) -> None:
        known: Game | None = self.rules
        self.rules = as_game(self.target) if known is None else known

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"game": None}

    @property
    def size(self) -> int:
        """Rows per chunk."""
        return self.batch or self.rules.batch or BATCH

    def bound(self, shuffled: bool = False) -> Job:
        """This question about its rows: they are checked, and the goal and the attack are found.

        Args:
            shuffled: Whether rows come in a random order, fixed by the seed, and chunk by chunk.
        """
        data = prepare_dataset(self.data, self.rules, self.space)
        rows, aim = self.goal.expand(data)
        if shuffled:
            draws = Stream(self.seed, keys(rows.ids), purpose="until")
            order = draws.uniform(torch.arange(len(rows)), 1)[:, 0].argsort()
            rows, aim = rows.take(order), aim.take(order)
        usual = self.batch is None and self.rules.batch is None and not shuffled
        widen = usual if self.widen is None else self.widen
        return replace(
            self, data=rows, goal=aim, attack=self._attack(), widen=widen, asked=self.goal
        )

    @property
    def aim(self) -> Goal:
        """The goal of a job that is bound to its rows."""
        return cast(Goal, self.goal)

    def _attack(self) -> Attack | None:
        asked: object = self.attack
        usual = isinstance(asked, str) and asked == "standard"
        return self.rules.default_attack(self.space) if usual else self.attack

    def prepare(self) -> Facts:
        """Checks that the parts fit together and prepares the game.

        Returns:
            What was found out about the model, for the warnings of the report.

        Raises:
            DurometerError: Something cannot work; the message says what.
        """
        self.attack = self._attack()
        self.game, self.facts = self.rules.prepare(self.data, self.space, self.aim, self.attack)
        if self.widen and self.batch is None and self.rules.batch is None and self.source is None:
            self.batch = rows_per_chunk(self._width(), BATCH)
        return self.facts

    def keep_answers(self, folder: Path, fresh: bool = False) -> None:
        """Keeps the answers of a model behind an address in a folder, so that none is asked twice.

        Args:
            folder: The folder of the run.
            fresh: Whether to forget answers that are there.
        """
        model = self.rules.model if isinstance(self.rules, Static | Nature) else None
        source = source_of(model)
        if isinstance(source, Endpoint):
            source.keep_in(folder, fresh)

    @property
    def count(self) -> int:
        """Number of chunks; 1 for a game whose rounds build on each other."""
        if self.source is not None:
            return len(self.source.parts)
        if not self.rules.divisible:
            return 1
        return -(-len(self.data) // self.size)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.data if self.source is None else self.source)

    def _part(self, chunks: Sequence[int]) -> tuple[Dataset, Goal, Sequence[int] | None]:
        """The data and the goal of chunks, and which batches of the data they are (None: all)."""
        if self.source is None:
            return self.data, self.aim, chunks if self.count > 1 else None
        assert self.asked is not None
        (chunk,) = chunks  # `at_once` is 1: a part of a file is read by itself
        data, goal = self.asked.expand(
            prepare_dataset(self.source.part(chunk), self.rules, self.space)
        )
        if self.space is not None:
            self.space.check(data.x)
        return data, goal, None

    @property
    def at_once(self) -> int:
        """How many chunks are played as one batch (a turn); 1 where the user chose the size.

        Raises:
            DurometerError: Rows share answers, and no number of chunks holds the rows that do.
        """
        together = self.game.together if isinstance(self.game, Static) else 1
        if together > 1 and self.source is None and self.count > 1:
            if together % self.size and self.size % together:
                raise DurometerError(
                    f"batch={self.size}: rows learn from each other's answers, {together} of them "
                    f"together; give a batch that divides {together} or is a multiple of it"
                )
            return max(1, together // self.size)
        if self.game is None or not self.widen or self.source is not None or self.count == 1:
            return 1
        return max(1, min(self._width(), len(self.data) // TURNS) // self.size)

    def _width(self) -> int:
        """Rows that one batch may have."""
        if self.width is None:
            model = self.game.model if isinstance(self.game, HasModel) else None
            self.width = rows_at_once(model, self.data.x)
        return self.width

    def turns(self, chunks: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """The turns that hold given chunks, each whole, by their first chunk.

        Args:
            chunks: Numbers of the chunks.
        """
        wide, count = self.at_once, self.count
        firsts = dict.fromkeys(k // wide * wide for k in chunks)
        return {first: tuple(range(first, min(first + wide, count))) for first in firsts}

    def play(self, chunk: int) -> Chunk:
        """Plays one chunk, with the turn it belongs to.

        Args:
            chunk: Its number, from 0.

        Returns:
            The chunk with its records.
        """
        if self.game is None:
            self.prepare()
        (turn,) = self.turns([chunk]).values()
        return self.play_at_once(turn)[turn.index(chunk)]

    def play_at_once(self, chunks: Sequence[int]) -> list[Chunk]:
        """Plays several chunks as one batch: the same records as one by one, in less time.

        Args:
            chunks: Their numbers.

        Returns:
            The chunks, in the same order.
        """
        if self.game is None:
            self.prepare()
        data, goal, only = self._part(chunks)
        places = np.arange(len(data))
        mine = [places[k * self.size : (k + 1) * self.size] for k in only or ()] or [places]
        ends = np.cumsum([0, *map(len, mine)]).tolist()
        parts = [slice(a, b) for a, b in pairwise(ends)] if len(mine) > 1 else [slice(None)]
        facts = [dict.fromkeys(COUNTED, 0) for _ in parts]

        def observe(referee: Referee) -> None:
            for its, rows in zip(facts, parts, strict=True):
                for name, count in referee.facts(rows).items():
                    its[name] += count

        options = Play(self.size, self.budget, only, observe)
        assert self.game is not None
        with _enough_memory(ends[-1]):
            moves = self.game.play(data, self.space, goal, self.attack, self.seed, options)
            records = Records.concat(moves)
        rows = np.concatenate(mine)
        ids, digests = data.ids[rows], data.digests(rows)
        column = records.columns["id"]
        if len(ids) != len(column) or bool((ids != column).any()):  # some games reorder the rows
            known = dict(zip(ids.tolist(), digests.tolist(), strict=True))
            digests = np.array([known.get(i, 0) for i in column.tolist()])
        records.columns["input"][:] = digests
        if len(parts) == 1:
            return [Chunk(records, facts[0])]
        return [Chunk(records.take(part), its) for part, its in zip(parts, facts, strict=True)]


@contextmanager
def _enough_memory(batch: int) -> Iterator[None]:
    """A batch that does not fit is said to be one; torch has two errors of its own for it."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise DurometerError(
            f"not enough memory for a batch of {batch} rows ({str(error).splitlines()[:1] or ''}): "
            "give a smaller batch=, and resume; what is finished is safe"
        ) from error
