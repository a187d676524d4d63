"""Executors: where chunks are played. One protocol, three ways: here, in processes, on Ray.

    map(job, chunks) -> (chunk, part), in the order in which they finish

The job is shipped once to each worker. A worker that dies is replaced and its chunk given out
again, up to `RETRIES` times. Chunks are handed out one by one: hard rows do not hold up easy ones.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from assay.errors import AssayError, Unsupported
from assay.run.job import Job, Part

RETRIES = 3
_job: Job | None = None  # in a worker process: the job it was started for
_failure = ""  # or why it has none


class Executor(Protocol):
    """A place where chunks are played."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Part]]:
        """Each chunk with its part, as they finish."""
        ...


@dataclass(frozen=True)
class Here:
    """In this process, one after the other."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Part]]:
        for k in chunks:
            yield k, job.play(k)


@dataclass(frozen=True)
class Processes:
    """In `workers` processes of this machine, the cores shared out among them."""

    workers: int = 2

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Part]]:
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            path = Path(folder) / "job.pickle"
            path.write_bytes(_pickled(job))
            yield from self._map(path, list(chunks))

    def _map(self, path: Path, left: list[int]) -> Iterator[tuple[int, Part]]:
        deaths = 0
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        while left:
            pool = ProcessPoolExecutor(
                self.workers,
                multiprocessing.get_context("spawn"),
                _start,
                (str(path), threads),
            )
            try:
                for k, part in _drain(pool, left, 2 * self.workers):
                    left.remove(k)
                    yield k, part
            except BrokenProcessPool:
                deaths += 1
                if deaths > RETRIES:
                    raise AssayError(
                        f"worker processes died {deaths} times (out of memory?) with {len(left)} "
                        "chunks to go: use fewer workers or a smaller batch, and resume"
                    ) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _drain(
    pool: ProcessPoolExecutor, chunks: Sequence[int], most: int
) -> Iterator[tuple[int, Part]]:
    """Hand out chunks with at most `most` under way, so that results never pile up."""
    waiting = list(chunks)
    under_way: dict[Future[Part], int] = {}
    while waiting or under_way:
        while waiting and len(under_way) < most:
            k = waiting.pop(0)
            under_way[pool.submit(_play, k)] = k
        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield under_way.pop(future), future.result()


def _start(path: str, threads: int) -> None:
    """Begin life as a worker: few threads, the job, and an end when the parent ends."""
    global _job, _failure
    import torch

    torch.set_num_threads(threads)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()
    try:
        _job = _unpickled(Path(path).read_bytes())
    except (ImportError, AttributeError, OSError) as error:  # said by _play: the parent hears it
        _failure = f"a worker process cannot load the model or the data ({error}); put its code "
        _failure += "where workers can import it, or run with one worker"


def _die_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _play(k: int) -> Part:
    if _job is None:
        raise AssayError(_failure)
    return _job.play(k)


@dataclass(frozen=True)
class Ray:
    """On a Ray cluster: `address` is "auto", "local" (a cluster started here) or host:port."""

    address: str = "auto"

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Part]]:
        try:
            import ray
        except ImportError:
            raise Unsupported("--ray needs Ray: pip install 'assay[ray]'") from None
        if not ray.is_initialized():
            address = None if self.address == "local" else self.address
            try:
                ray.init(address=address, log_to_driver=False, configure_logging=False)
            except ConnectionError as error:
                raise AssayError(f"no Ray cluster at '{self.address}': {error}") from None
        shared = ray.put(_pickled(job))
        play = ray.remote(max_retries=RETRIES, num_cpus=1)(_play_remote)
        most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting = list(chunks)
        under_way: dict[Any, int] = {}
        while waiting or under_way:
            while waiting and len(under_way) < most:
                k = waiting.pop(0)
                under_way[play.remote(shared, k)] = k
            for reference in ray.wait(list(under_way), num_returns=1)[0]:
                yield under_way.pop(reference), ray.get(reference)


_remote: dict[int, Job] = {}  # in a Ray worker: the job it has unpacked last


def _play_remote(shared: bytes, k: int) -> Part:
    key = hash(shared)
    if key not in _remote:
        _remote.clear()
        _remote[key] = _unpickled(shared)
    return _remote[key].play(k)


def _pickled(job: Job) -> bytes:
    import cloudpickle  # by value where a class has no home to be imported from

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise AssayError(
            f"the model or the data cannot be sent to a worker process ({error}); "
            "run with one worker, or give a model that can be pickled"
        ) from None


def _unpickled(content: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(content)
