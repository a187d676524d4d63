"""Processes: chunks played by worker processes of this machine.

What a reader would get wrong: the job is sent to the workers through a pipe, not through a file. A
driver that is killed would leave the file, with the model and the data, in the temporary folder for
ever. Nor is it among the arguments with which a worker is started: Python waits until a worker has
read those, which it does after its imports, so the workers would begin one after the other, seconds
apart, and nobody would be given anything to do meanwhile.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext, SpawnContext, SpawnProcess
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

from durometer.core.errors import DurometerError
from durometer.run.executors import RETRIES, from_pickle, play_turns, to_pickle
from durometer.run.job import Chunk, Job
from durometer.run.log import LOG
from durometer.run.watch import Watch

_job: Job | None = None  # in a worker process: the job it was started for
_failure = ""  # or why it has none
_PR_SET_PDEATHSIG = 1
STOPPED = 10.0  # seconds


class _Process(SpawnProcess):
    """A worker that does not run the driver's script again.

    Python would, for what is pickled by its name there. The job is not: what belongs to a script is
    sent by value. So a script needs no `if __name__ == "__main__"`, and what it imports costs a
    worker nothing.
    """

    def start(self) -> None:
        script = sys.modules["__main__"].__dict__
        hidden: dict[str, Any] = {
            name: script[name] for name in ("__file__", "__spec__") if name in script
        }
        script |= dict.fromkeys(hidden)
        try:
            super().start()
        finally:
            script |= hidden


class _Spawned(SpawnContext):
    """A fork of a process with threads may never wake up, so workers begin from nothing."""

    Process = _Process


START: BaseContext = _Spawned()  # how a worker begins


@dataclass(frozen=True)
class Processes:
    """In `workers` processes of this machine, the cores shared out among them."""

    workers: int = 2

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        content, deaths, watch = to_pickle(job), 0, Watch(enough=1)
        left, asked = job.turns(chunks), set(chunks)
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        while left:
            read, write = START.Pipe(duplex=False)
            pool = ProcessPoolExecutor(self.workers, START, _start, (read, START.Lock(), threads))
            threading.Thread(target=_ship, args=(write, content, self.workers), daemon=True).start()
            try:
                for k, parts in _drain(pool, left.copy(), self.workers, watch):
                    some, deaths = left.pop(k), 0
                    yield from (one for one in zip(some, parts, strict=True) if one[0] in asked)
            except BrokenProcessPool:
                deaths += 1
                watch.since.clear()
                to_go = sum(map(len, left.values()))
                LOG.warning("a worker process died; its chunk of %d is given out again", to_go)
                if deaths > RETRIES:
                    raise DurometerError(
                        f"worker processes died {deaths} times in a row (out of memory?) with "
                        f"{to_go} chunks to go: use fewer workers or a smaller batch, and "
                        "resume"
                    ) from None
            finally:
                _end(pool)
                read.close()  # nobody reads any more: `_ship` hears of it, if it is still sending


def _ship(pipe: Connection, content: bytes, workers: int) -> None:
    """The job, once for each worker; whoever has finished its imports takes the next copy."""
    with pipe, suppress(OSError):
        for _ in range(workers):
            pipe.send_bytes(content)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers, the hanging ones too: Python would wait for them when it ends itself."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.kill()


def _drain(
    pool: ProcessPoolExecutor, turns: dict[int, tuple[int, ...]], workers: int, watch: Watch
) -> Iterator[tuple[int, list[Chunk]]]:
    """Hand out turns with few under way; what is late is handed out once more."""
    waiting, finished = list(turns), set[int]()
    under_way: dict[Future[tuple[float, list[Chunk]]], int] = {}
    stopped: dict[int, float] = {}
    while len(finished) < len(turns):
        while waiting and len(under_way) < 2 * workers:
            k = waiting.pop(0)
            under_way[pool.submit(_play, turns[k])] = k
            watch.begin(k)
        ended, _ = wait(under_way, timeout=1, return_when=FIRST_COMPLETED)
        for future in ended:
            k, (seconds, parts) = under_way.pop(future), future.result()
            if k not in finished:
                finished.add(k)
                watch.end(k, seconds)
                yield k, parts
        _end_stopped(pool, stopped)
        for k in watch.late():
            if workers > 1:
                under_way[pool.submit(_play, turns[k])] = k
                LOG.warning("chunk %d is given to another worker", k)


def _end_stopped(pool: ProcessPoolExecutor, since: dict[int, float]) -> None:
    """End workers that were stopped (SIGSTOP) and stay so: others may wait for what they hold.

    The pool then breaks and is replaced, as after a death. A driver that was stopped with its
    workers, by Ctrl-Z, goes on together with them. Where there is no /proc, nothing is known.
    """
    for worker in list((getattr(pool, "_processes", None) or {}).values()):
        try:
            text = Path(f"/proc/{worker.pid}/stat").read_text()
        except OSError:
            continue
        if text.rpartition(")")[2].split()[0] != "T":
            since.pop(worker.pid, None)
        elif time.monotonic() - since.setdefault(worker.pid, time.monotonic()) > STOPPED:
            LOG.warning("a worker process was stopped for %.0f s: it is replaced", STOPPED)
            worker.kill()


def _start(pipe: Connection, turn: Lock, threads: int) -> None:
    """Begin life as a worker: few threads, the job, and an end when the parent ends."""
    global _job, _failure
    import torch

    torch.set_num_threads(threads)
    parent = multiprocessing.parent_process()
    if parent is not None:
        _end_with_parent(parent.pid)
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()
    try:
        with turn:
            content = pipe.recv_bytes()
        _job = from_pickle(content)
    except Exception as error:  # said by _play: the parent hears it
        _failure = f"a worker process cannot load the model or the data ({error}); put its code "
        _failure += "where workers can import it, or run with one worker"


def _end_with_parent(parent: int | None) -> None:
    """Ask Linux to end this process with its parent: a process that is stopped cannot see to it."""
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def _die_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _play(chunks: tuple[int, ...]) -> tuple[float, list[Chunk]]:
    """A turn, and the seconds that it took: whoever waits for it does not know when it began."""
    if _job is None:
        raise DurometerError(_failure)
    began = time.monotonic()
    parts = play_turns(_job, chunks)
    return time.monotonic() - began, parts
