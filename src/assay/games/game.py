"""What a game is: who moves when, told as records. `evaluate` knows nothing else of games."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, runtime_checkable

from assay.data import Dataset
from assay.records import Records


@runtime_checkable
class Game(Protocol):
    """Static(model), Transductive(defender), Nature(model, noise)."""

    @property
    def described(self) -> dict[str, Any]:
        """What the spec says of the players: "game", "model", "model_hash"."""
        ...

    def prepare(
        self, data: Dataset, space: Any, goal: Any, attack: Any
    ) -> tuple[Self, dict[str, Any]]:
        """Refuse what cannot work, before any work; the game to play, and facts for `checks`."""
        ...

    def play(
        self,
        data: Dataset,
        space: Any,
        goal: Any,
        attack: Any,
        seed: int,
        **options: Any,
    ) -> Iterator[Records]:
        """The records, a batch at a time, in the order of the data."""
        ...
