"""Executors: where chunks are played. One protocol, three ways: here, in processes, on Ray.

    map(job, chunks) -> (chunk, part), in the order in which they finish

The job is shipped once to each worker. A worker that dies is replaced and its chunk given out
again. Chunks are handed out one by one, with few under way: hard rows do not hold up easy ones, and
results never pile up.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from assay.errors import AssayError, Unsupported
from assay.run.job import Chunk, Job
from assay.run.log import LOG

RETRIES = 3  # deaths without a finished chunk in between; on Ray: deaths per chunk
_job: Job | None = None  # in a worker process: the job it was started for
_failure = ""  # or why it has none


class Executor(Protocol):
    """A place where chunks are played."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        """Each chunk with its part, as they finish."""
        ...


@dataclass(frozen=True)
class Here:
    """In this process, one after the other."""

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        for k in chunks:
            yield k, job.play(k)


@dataclass(frozen=True)
class Processes:
    """In `workers` processes of this machine, the cores shared out among them."""

    workers: int = 2

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            path = Path(folder) / "job.pickle"
            path.write_bytes(_pickled(job))
            yield from self._map(path, list(chunks))

    def _map(self, path: Path, left: list[int]) -> Iterator[tuple[int, Chunk]]:
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
                    deaths = 0
                    yield k, part
            except BrokenProcessPool:
                deaths += 1
                LOG.warning("a worker process died; its chunk of %d is given out again", len(left))
                if deaths > RETRIES:
                    raise AssayError(
                        f"worker processes died {deaths} times in a row (out of memory?) with "
                        f"{len(left)} chunks to go: use fewer workers or a smaller batch, and "
                        "resume"
                    ) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _drain(
    pool: ProcessPoolExecutor, chunks: Sequence[int], most: int
) -> Iterator[tuple[int, Chunk]]:
    """Hand out chunks with at most `most` under way, so that results never pile up."""
    waiting = list(chunks)
    under_way: dict[Future[Chunk], int] = {}
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


def _play(k: int) -> Chunk:
    if _job is None:
        raise AssayError(_failure)
    return _job.play(k)


@dataclass(frozen=True)
class Ray:
    """On a Ray cluster: `address` is "auto", "local" (a cluster started here) or host:port."""

    address: str = "auto"

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        try:
            import ray
        except ImportError:
            raise Unsupported("--ray needs Ray: pip install 'assay[ray]'") from None
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        try:
            yield from _on_ray(ray, job, list(chunks))
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address == "local":
            # Ray's workers are polite (nice 15) and its head calls home; one's own run need not.
            os.environ.setdefault("RAY_worker_niceness", "0")
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options["include_dashboard"] = False
        else:
            options["address"] = self.address
        try:
            _reachable(self.address)
            ray.init(**options)
        except (OSError, ValueError, RuntimeError) as error:
            raise AssayError(
                f"no Ray cluster at '{self.address}' ({error}); start one with 'ray start --head', "
                "or use --ray local"
            ) from None


def _reachable(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _on_ray(ray: Any, job: Job, waiting: list[int]) -> Iterator[tuple[int, Chunk]]:
    # In a list, a reference is passed on as it is: a worker fetches the job once, not per chunk.
    shared = [ray.put(_pickled(job))]
    name = uuid.uuid4().hex
    play = ray.remote(max_retries=RETRIES, num_cpus=1)(_play_remote)
    under_way: dict[Any, int] = {}
    try:
        while waiting or under_way:
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))  # nodes come and go
            while waiting and len(under_way) < most:
                k = waiting.pop(0)
                under_way[play.remote(shared, name, k)] = k
            for reference in ray.wait(list(under_way), num_returns=1)[0]:
                yield under_way.pop(reference), _fetched(ray, reference)
    finally:
        for reference in under_way:  # an evaluation that stops early leaves the cluster idle
            ray.cancel(reference)


def _fetched(ray: Any, reference: Any) -> Chunk:
    try:
        part: Chunk = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # the job's own error, out of Ray's wrapping
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise AssayError(
            f"Ray gave a chunk up after {RETRIES} retries ({type(error).__name__}); what is "
            "finished is safe: use a smaller batch if memory ran out, and resume"
        ) from None
    return part


_remote: dict[str, Job] = {}  # in a Ray worker: the job it has unpacked last


def _play_remote(shared: list[Any], name: str, k: int) -> Chunk:
    if name not in _remote:
        import ray

        content = ray.get(shared[0])
        _remote.clear()
        try:
            _remote[name] = _unpickled(content)
        except (ImportError, AttributeError) as error:
            raise AssayError(
                f"a Ray worker cannot load the model or the data ({error}); install their code on "
                "every node"
            ) from None
    return _remote[name].play(k)


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
