"""Ray: chunks played on a cluster.

Ray itself is silent about a cluster that cannot work: nodes that are gone but still listed, tasks
that wait for a resource nobody has, and above all workers that do not get going: they have niceness
15, and where ten processes compete for a processor one of them takes minutes to import torch, which
every new driver's workers must. So a driver that hears nothing for a while says so, stops with a
sentence where the cluster has no processor left, and otherwise plays a chunk itself: a run always
goes on.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import AssayError, Unsupported
from assay.run.executors import RETRIES, pickled, unpickled
from assay.run.job import Chunk, Job
from assay.run.log import LOG
from assay.run.watch import Watch

SILENCE = 60.0  # seconds without a chunk, or the patience of the watch if that is more
POLL = 2.0
NICENESS = "RAY_worker_niceness"


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
            yield from _drain(ray, job, list(chunks))
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address == "local":
            # Ray's workers are polite (nice 15) and its head calls home; one's own run need not.
            os.environ.setdefault(NICENESS, "0")
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


def _drain(ray: Any, job: Job, chunks: list[int]) -> Iterator[tuple[int, Chunk]]:
    # In a list, a reference is passed on as it is: a worker fetches the job once, not per chunk.
    shared = [ray.put(pickled(job))]
    name = uuid.uuid4().hex
    play = ray.remote(max_retries=RETRIES, num_cpus=1)(_play_remote)
    under_way: dict[Any, int] = {}
    waiting, finished, watch = list(chunks), set[int](), Watch()
    alone = False  # the cluster was silent, and has been since: no need to wait as long again
    heard = time.monotonic()  # when the cluster last gave a chunk back

    def give(k: int) -> None:
        under_way[play.remote(shared, name, k)] = k
        watch.begin(k)

    try:
        while len(finished) < len(chunks):
            most = 2 * max(1, _processors(ray))  # nodes come and go
            while waiting and len(under_way) < most:
                give(waiting.pop(0))
            poll = 0.1 if alone else POLL
            for reference in ray.wait(list(under_way), num_returns=1, timeout=poll)[0]:
                k, alone, heard = under_way.pop(reference), False, time.monotonic()
                if k not in finished:
                    part = _fetched(ray, reference)
                    finished.add(k)
                    watch.end(k)
                    yield k, part
            for k in watch.late():
                LOG.warning("chunk %d is given out once more", k)
                give(k)
            silence = time.monotonic() - heard
            if alone or silence > max(SILENCE, watch.patience or 0.0):
                alone, k = True, _first(chunks, finished)
                part = _instead(ray, job, k, silence)
                finished.add(k)
                watch.end(k)
                yield k, part
    finally:
        for reference in under_way:  # an evaluation that stops early leaves the cluster idle
            ray.cancel(reference, force=True)


def _first(chunks: list[int], finished: set[int]) -> int:
    return next(k for k in chunks if k not in finished)


def _processors(ray: Any) -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _instead(ray: Any, job: Job, k: int, seconds: float) -> Chunk:
    """What the cluster does not get done; a sentence where it cannot."""
    alive = sum(bool(node.get("Alive")) for node in ray.nodes())
    if not _processors(ray):
        raise AssayError(
            f"no chunk came back from Ray for {seconds:.0f} s: {alive} nodes, none of them with a "
            "processor; what is finished is safe: add nodes, or resume without --ray"
        )
    LOG.warning("no chunk came back from Ray for %.0f s (%d nodes, %d processors%s): chunk %d is "
                "played here", *(seconds, alive, _processors(ray), _polite(), k))  # fmt: skip
    return job.play(k)


def _polite() -> str:
    """The usual reason, where this machine has it."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    if busy < 2 or os.environ.get(NICENESS) == "0":
        return ""
    return (
        f"; {busy:.0f} processes compete for each of this machine's, and Ray's workers give way to "
        "all of them: RAY_worker_niceness=0 before 'ray start' cures that"
    )


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
            _remote[name] = unpickled(content)
        except (ImportError, AttributeError) as error:
            raise AssayError(
                f"a Ray worker cannot load the model or the data ({error}); install their code on "
                "every node"
            ) from None
    return _remote[name].play(k)
