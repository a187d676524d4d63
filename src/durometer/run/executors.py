"""Executors: where chunks are played. One protocol, three ways: here, in processes, on Ray.

    map(job, chunks) -> (chunk, part), in the order in which they finish

The job is shipped once to each worker. A worker that dies is replaced and its chunks given out
again. Chunks are handed out in the turns of the job's plan, with few under way: hard rows do not
hold up easy ones, and results never pile up.

What a reader would get wrong: a turn is played whole even where only some of its chunks are asked
for (the others are stored already). Last digits can depend on the rows that are played together.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from durometer.core.errors import DurometerError
from durometer.run.job import Chunk, Job
from durometer.run.watch import Watch

RETRIES = 3  # deaths without a finished chunk in between; on Ray: deaths per chunk


class Executor(Protocol):
    """A place where chunks are played."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        """Each chunk with its part, as they finish."""
        ...


@dataclass(frozen=True)
class Here:
    """In this process, one turn after the other."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        watch, asked = Watch(), set(chunks)
        for first, turn in job.turns(chunks).items():
            with watch.watching(first):
                parts = job.play_at_once(turn)
            yield from (one for one in zip(turn, parts, strict=True) if one[0] in asked)


def play_turns(job: Job, chunks: Sequence[int]) -> list[Chunk]:
    """A turn, for another process to hear of; an error that cannot be sent is told in words.

    Many exceptions pickle and then cannot be made again (an `__init__` of two parameters), which
    looks to the driver as if the worker had died.
    """
    try:
        return job.play_at_once(chunks)
    except Exception as error:
        try:
            survives = type(pickle.loads(pickle.dumps(error))) is type(error)
        except Exception:
            survives = False
        if survives:
            raise
        told = RuntimeError(f"{type(error).__name__} in a worker process: {error}")
        told.add_note("".join(traceback.format_exception(error)))
        raise told from None


def to_pickle(job: Job) -> bytes:
    """The job for another process, and which kind of number torch is to make there by default."""
    import cloudpickle  # by value where a class has no home to be imported from

    try:
        return bytes(cloudpickle.dumps((torch.get_default_dtype(), job)))
    except Exception as error:
        raise DurometerError(
            f"the model or the data cannot be sent to a worker process ({error}); "
            "run with one worker, or give a model that can be pickled"
        ) from None


def from_pickle(content: bytes) -> Any:
    """The job, in that process."""
    import cloudpickle

    kind, job = cloudpickle.loads(content)
    torch.set_default_dtype(kind)
    return job
