"""Watch: which chunks under way take far longer than their peers did.

A worker can hang (a model that waits for a licence, a node that swaps) without dying, and then
nobody would ever hear of its chunk again. A chunk that takes 20 times its peers' median is named
in the log, and given to another worker where there is one: chunks are the same whoever plays them,
so whichever answer comes first is taken.

What a reader would get wrong: chunks are given out before their workers have begun to live, which
takes seconds, on a busy machine a minute. So time is counted from the first answer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from durometer.run.log import LOG

FACTOR = 20  # times the median of the chunks before
LEAST = 10.0  # seconds: quick chunks have uneven peers


@dataclass
class Watch:
    """Chunks under way since when, and how long the finished ones took from being given out."""

    factor: float = FACTOR
    least: float = LEAST
    since: dict[int, float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    named: set[int] = field(default_factory=set)
    lives: bool = False  # somebody has answered
    enough: int = 3  # answers to compare with; 1 where workers say how long they took themselves

    def begin(self, k: int) -> None:
        self.since.setdefault(k, time.monotonic())

    def end(self, k: int, seconds: float | None = None) -> None:
        """A chunk is back; `seconds`: how long it was played, where its worker says so."""
        if k not in self.since:
            return
        now = time.monotonic()
        took = now - self.since.pop(k)
        if seconds is not None or self.lives:
            self.took.append(took if seconds is None else seconds)
        if not self.lives:
            self.lives, self.since = True, dict.fromkeys(self.since, now)

    @property
    def patience(self) -> float | None:
        """Seconds after which a chunk is late; None while there is nothing to compare with."""
        if len(self.took) < self.enough:
            return None
        return max(self.least, self.factor * statistics.median(self.took))

    def late(self) -> list[int]:
        """Chunks that have just become late; each is named once."""
        if self.patience is None:
            return []
        now = time.monotonic()
        found = [k for k, t in self.since.items() if now - t > self.patience]
        found = [k for k in found if k not in self.named]
        self.named.update(found)
        for k in found:
            LOG.warning("chunk %d takes more than %.0f s, %g times its peers' median",
                        *(k, self.patience, self.factor))  # fmt: skip
        return found

    @contextmanager
    def watching(self, k: int) -> Iterator[None]:
        """A chunk played by whoever watches: it can only be named afterwards."""
        self.begin(k)
        yield
        self.late()
        self.end(k)
