"""Ray: chunks played on a cluster.

Ray itself is silent about a cluster that cannot work: nodes that are gone but still listed, tasks
that wait for a resource nobody has, and above all workers that do not get going: they have niceness
15, and where ten processes compete for a processor one of them takes minutes to import torch, which
every new driver's workers must. Its calls may not even return. So each is waited for only so long
(`Bounded`), and a driver that hears nothing for a while says so, stops with a sentence where the
cluster has no processor left, and otherwise plays a chunk itself: a run always goes on.

A cluster of one's own ("local") takes seconds to start, which are mostly waiting, and each of its
workers seconds more. So the driver plays meanwhile, and on a small machine goes on to play in the
place of one worker. It takes turns from the end, so that nobody plays what it has.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from durometer.core.errors import DurometerError, Unsupported
from durometer.run.executors import RETRIES, from_pickle, play_turns, to_pickle
from durometer.run.job import Chunk, Job
from durometer.run.log import LOG
from durometer.run.timeouts import TimedCalls, TimedOut
from durometer.run.watch import Watch

CONNECT = 120.0  # seconds to a cluster: a busy machine takes one to start it
SILENCE = 60.0  # seconds without a chunk, or the patience of the watch if that is more
ANSWER = 10.0  # seconds for what Ray knows by heart
POLL = 2.0
ALONE = 0.1  # seconds for either while the driver plays by itself
NICENESS = "RAY_worker_niceness"
FEW = 4  # processors: with more, a driver has enough to do with handing out


@dataclass(frozen=True)
class Ray:
    """On a Ray cluster: `address` is "auto", "local" (a cluster started here) or host:port."""

    address: str = "auto"

    def map(self, job: Job, chunks: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        try:
            import ray
        except ImportError:
            raise Unsupported("--ray needs Ray: pip install 'durometer[ray]'") from None
        asked = set(chunks)
        yield from (one for one in self._turns(ray, job, job.turns(chunks)) if one[0] in asked)

    def _turns(
        self, ray: Any, job: Job, turns: dict[int, tuple[int, ...]]
    ) -> Iterator[tuple[int, Chunk]]:
        ask, ours = TimedCalls(), not ray.is_initialized()
        connecting = ask.begin(lambda: self._connect(ray) if ours else None)
        try:
            local = ours and self.address == "local"
            if local:
                yield from _meanwhile(job, turns, connecting)
                shared = self._share(ray, ask, job, connecting) if turns else []
            else:
                shared = self._share(ray, ask, job, connecting)
            if turns:
                yield from _Driver(ray, ask, job, shared, turns, local and _few()).drain()
        finally:
            if ours:
                _let_go(ask, ray)

    def _share(self, ray: Any, ask: TimedCalls, job: Job, connecting: Future[None]) -> list[Any]:
        """The job on the cluster, when that is there."""
        content = to_pickle(job)
        try:
            ask(CONNECT, connecting.result)
            # In a list, a reference is passed on as it is: a worker fetches the job once.
            return ask(CONNECT, lambda: [ray.put(content)])
        except TimedOut:
            raise DurometerError(
                f"the Ray cluster at '{self.address}' does not answer for {CONNECT:.0f} s; what is "
                "finished is safe: start it anew ('ray stop', 'ray start'), or resume without --ray"
            ) from None

    def _connect(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address == "local":
            # Ray's workers are polite (nice 15) and its head calls home; one's own run need not.
            os.environ.setdefault(NICENESS, "0")
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options["include_dashboard"] = False
            if _few():
                options["num_cpus"] = max(1, (os.cpu_count() or 1) - 1)
        else:
            options["address"] = self.address
        said = logging.getLogger("ray._private.worker")
        before = said.level
        said.setLevel(logging.ERROR)  # it remarks that it is asked from a thread
        try:
            _reachable(self.address)
            ray.init(**options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DurometerError(
                f"no Ray cluster at '{self.address}' ({error}); start one with 'ray start --head', "
                "or use --ray local"
            ) from None
        finally:
            said.setLevel(before)


def _few() -> bool:
    return (os.cpu_count() or 1) <= FEW


def _meanwhile(
    job: Job, turns: dict[int, tuple[int, ...]], connecting: Future[None]
) -> Iterator[tuple[int, Chunk]]:
    """Turns played here, the last ones first, until the cluster is there or should have been."""
    until = time.monotonic() + CONNECT
    while turns and not connecting.done() and time.monotonic() < until:
        _, some = turns.popitem()
        yield from zip(some, job.play_at_once(some), strict=True)


def _reachable(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _let_go(ask: TimedCalls, ray: Any) -> None:
    try:
        ask(ANSWER, ray.shutdown)
    except Exception as error:  # what is finished is finished
        LOG.warning("Ray was not let go of: %s", type(error).__name__)


@dataclass
class _Driver:
    """Turns given out with few under way, and played here while the cluster is silent."""

    ray: Any
    ask: TimedCalls
    job: Job
    shared: list[Any]  # a reference to the pickled job
    turns: dict[int, tuple[int, ...]]  # chunks to be played at once, by the first of them
    plays: bool = False  # the driver too, all the time
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    under_way: dict[Any, int] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    watch: Watch = field(default_factory=Watch)
    alone: bool = False  # the cluster was silent, and has been since: it is not waited for as long

    @property
    def _soon(self) -> float:
        return ALONE if self.alone else ANSWER

    def drain(self) -> Iterator[tuple[int, Chunk]]:
        waiting = list(self.turns)
        heard = time.monotonic()  # when the cluster last gave a chunk back
        try:
            while len(self.finished) < len(self.turns):
                try:
                    self._give(waiting)
                    busy = self.plays and bool(waiting)
                    got = self._got(0.0 if busy else ALONE if self.alone else POLL)
                except TimedOut:
                    got = []
                for k, parts in got:
                    self.alone, heard = False, time.monotonic()
                    if k not in self.finished:
                        yield from self._end(k, parts)
                if self.plays and waiting and not got:
                    k = waiting.pop()
                    if k not in self.finished:
                        yield from self._end(k, self.job.play_at_once(self.turns[k]))
                    continue  # a turn of its own is no silence of the cluster's
                silence = time.monotonic() - heard
                if self.alone or silence > max(SILENCE, self.watch.patience or 0.0):
                    left = [k for k in self.turns if k not in self.finished]
                    if left:
                        self.alone = True
                        yield from self._end(left[0], self._instead(left[0], silence))
        finally:
            self._cancel()

    def _end(self, k: int, parts: list[Chunk]) -> Iterator[tuple[int, Chunk]]:
        self.finished.add(k)
        self.watch.end(k)
        return zip(self.turns[k], parts, strict=True)

    def _give(self, waiting: list[int]) -> None:
        """Hand out what there is room for, and once more what is late."""
        most = 2 * max(1, self._processors())
        for k in self.watch.late():
            LOG.warning("chunk %d is given out once more", k)
            waiting.insert(0, k)
            most += 1
        play = self.ray.remote(max_retries=RETRIES, num_cpus=1)(_play_remote)
        while waiting and len(self.under_way) < most:
            k = waiting[0]
            if k not in self.finished:
                what = (self.shared, self.name, self.turns[k])
                given = self.ask(self._soon, lambda what=what: play.remote(*what))  # type: ignore[misc]
                self.under_way[given] = k
                self.watch.begin(k)
            waiting.pop(0)

    def _got(self, seconds: float) -> list[tuple[int, list[Chunk]]]:
        """Chunks that have come back; one that cannot be fetched stays under way."""
        ray, some = self.ray, list(self.under_way)
        ready = self.ask(
            seconds + self._soon, lambda: ray.wait(some, num_returns=1, timeout=seconds)[0]
        )
        got = []
        for reference in ready[:1]:
            if self.under_way[reference] not in self.finished:
                parts = self.ask(SILENCE, lambda r=reference: _fetched(ray, r))  # type: ignore[misc]
                got.append((self.under_way[reference], parts))
            del self.under_way[reference]
        return got

    def _processors(self) -> int:
        known = self.ask(self._soon, self.ray.cluster_resources)
        return int(known.get("CPU", 0))  # nodes come and go

    def _instead(self, k: int, seconds: float) -> list[Chunk]:
        """What the cluster does not get done; a sentence where it cannot."""
        try:
            alive = sum(bool(node.get("Alive")) for node in self.ask(self._soon, self.ray.nodes))
            processors = self._processors()
        except TimedOut:
            LOG.warning(
                "no chunk came back from Ray for %.0f s, and it does not answer: chunk %d is "
                "played here", *(seconds, k)
            )  # fmt: skip
            return self.job.play_at_once(self.turns[k])
        if not processors:
            raise DurometerError(
                f"no chunk came back from Ray for {seconds:.0f} s: {alive} nodes, none of them "
                "with a processor; what is finished is safe: add nodes, or resume without --ray"
            )
        LOG.warning("no chunk came back from Ray for %.0f s (%d nodes, %d processors%s): chunk %d "
                    "is played here", *(seconds, alive, processors, _polite(), k))  # fmt: skip
        return self.job.play_at_once(self.turns[k])

    def _cancel(self) -> None:
        """An evaluation that stops early leaves the cluster idle."""
        some, ray = list(self.under_way), self.ray
        try:
            self.ask(ANSWER, lambda: [ray.cancel(reference, force=True) for reference in some])
        except Exception as error:
            LOG.warning("%d Ray tasks are not called off: %s", *(len(some), type(error).__name__))


def _polite() -> str:
    """The usual reason, where this machine has it."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    if busy < 2 or os.environ.get(NICENESS) == "0":
        return ""
    return (
        f"; {busy:.0f} processes compete for each of this machine's, and Ray's workers give way to "
        "all of them: RAY_worker_niceness=0 before 'ray start' cures that"
    )


def _fetched(ray: Any, reference: Any) -> list[Chunk]:
    try:
        parts: list[Chunk] = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # the job's own error, out of Ray's wrapping
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise DurometerError(
            f"Ray gave a chunk up after {RETRIES} retries ({type(error).__name__}); what is "
            "finished is safe: use a smaller batch if memory ran out, and resume"
        ) from None
    return parts


_remote: dict[str, Job] = {}  # in a Ray worker: the job it has unpacked last


def _play_remote(shared: list[Any], name: str, chunks: tuple[int, ...]) -> list[Chunk]:
    if name not in _remote:
        import ray

        content = ray.get(shared[0])
        _remote.clear()
        try:
            _remote[name] = from_pickle(content)
        except (ImportError, AttributeError) as error:
            raise DurometerError(
                f"a Ray worker cannot load the model or the data ({error}); install their code on "
                "every node"
            ) from None
    return play_turns(_remote[name], chunks)
