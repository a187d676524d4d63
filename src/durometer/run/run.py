"""Run: how an evaluation is carried out: where it is kept, who works on it, when it may stop.

evaluate(net, data, space=..., run=Run("runs/night", workers=2))
evaluate(net, data, space=..., run=Run("runs/night", resume=True))
evaluate(net, data, space=..., run=Run("runs/part3", shard=(3, 8)))     # then: durometer merge
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from durometer.core.errors import DurometerError
from durometer.core.facts import Facts
from durometer.core.spec import Provenance, Spec
from durometer.core.validation import noun
from durometer.run.executors import Executor, Here
from durometer.run.fingerprint import fingerprint
from durometer.run.job import Chunk, Job
from durometer.run.log import LOG, logged
from durometer.run.on_ray import Ray
from durometer.run.processes import Processes
from durometer.run.store import Store

if TYPE_CHECKING:
    import pandas as pd


@runtime_checkable
class Until(Protocol):
    """Who says when enough rows are seen: a gate's `SequentialTest`."""

    def begin(self) -> None:
        """A run begins: forget what an earlier one gave."""
        ...

    def add(self, table: pd.DataFrame, spec: Spec) -> bool:
        """See the records of a further chunk; whether the run may stop."""
        ...


@noun
class Run:
    """How an evaluation is carried out: where it is kept, who works on it, when it may stop.

    Args:
        out: The folder to keep the run in. None keeps nothing: the records are in memory only.
        resume: Whether to continue the run in `out`: finished batches are read, the others played.
        shard: `(i, n)` plays the i-th of n parts, i from 1; `durometer merge` joins the folders
            afterwards.
        workers: Number of worker processes. 1 plays in this process.
        ray: Address of a Ray cluster: "auto", "local" or "host:port". Not together with `workers`.
        until: When to stop early: a half-width between 0 and 0.5 that the 95 % interval of robust
            accuracy must reach, or a `SequentialTest` that must be decided. Rows are then played in
            random order. None: play all rows.
        force: Whether to replace the run that is in `out`; it is moved aside once the new run
            begins.
        accept_version: Whether to resume a run that other versions of durometer, torch or Python
            began.
        provenance: What else the report's spec says: the command, criteria that were fixed
            beforehand, the scope, the model's name. Default: nothing.

    >>> import durometer as du
    >>> import tempfile
    >>> net, data = du.testing.toy()
    >>> folder = tempfile.mkdtemp()
    >>> ask = dict(space=du.Linf(0.1), attack=du.PGD(5), batch=4)
    >>> first = du.evaluate(net, data, **ask, run=du.Run(folder))
    >>> again = du.evaluate(net, data, **ask, run=du.Run(folder, resume=True))
    >>> first.metric("robust") == again.metric("robust"), str(again.metric("robust"))
    (True, '0.312 [0.142, 0.556] (n = 16)')
    """

    out: str | Path | None = None
    resume: bool = False
    shard: tuple[int, int] | None = None
    workers: int = 1
    ray: str | None = None
    until: float | Until | None = field(default=None, metadata={"above": 0, "below": 0.5})
    force: bool = False
    accept_version: bool = False
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if self.shard is not None:
            pair = isinstance(self.shard, tuple | list) and len(self.shard) == 2
            if not pair or not all(_whole(v) for v in self.shard):
                raise DurometerError(
                    f"shard={self.shard!r}: expected two whole numbers, e.g. (3, 8)"
                )
            if not 1 <= self.shard[0] <= self.shard[1]:
                raise DurometerError(
                    f"shard={self.shard[0]}/{self.shard[1]}: expected i/n with 1 <= i <= n"
                )
        if self.resume and self.out is None:
            raise DurometerError("resume: which run? give its folder with out=")
        if self.ray is not None and self.workers > 1:
            raise DurometerError("give workers= or ray=, not both: Ray knows its workers itself")

    @property
    def executor(self) -> Executor:
        """Where the chunks are played: here, in worker processes, or on Ray."""
        if self.ray is not None:
            return Ray(self.ray)
        return Processes(self.workers) if self.workers > 1 else Here()

    def chunks(self, job: Job, spec: Spec) -> Iterator[tuple[int, Chunk]]:
        """Yields all chunks of this run's share: first those that are stored, then those still to
        play.

        Args:
            job: What is played.
            spec: What the report will say about the run; kept in the folder.

        Yields:
            The number of a chunk and the chunk; in the order of the plan where the run may stop
                early.

        Raises:
            DurometerError: There are fewer chunks than shards, or the folder holds another run.
        """
        turns = list(job.turns(range(job.count)).values())
        if self.shard is not None:
            count, turns = len(turns), turns[self.shard[0] - 1 :: self.shard[1]]
            if not turns:
                raise DurometerError(
                    f"shard={self.shard[0]}/{self.shard[1]}: there are only {count} chunks of "
                    f"{job.size * job.at_once} rows; make fewer shards, or give a smaller batch="
                )
        share = [k for turn in turns for k in turn]
        chunks = self._chunks(job, spec, share)
        yield from chunks if self.until is None else _in_order(share, chunks)

    def finished(self) -> Iterator[tuple[int, Chunk]]:
        """Yields the chunks stored in the folder, with their numbers."""
        store = Store(Path(self.out)) if self.out is not None else None
        for k, entry in store.index.done().items() if store is not None else ():
            assert store is not None
            yield k, Chunk(store.read(k, entry), entry.facts, stored=True)

    def _chunks(self, job: Job, spec: Spec, share: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
        store = Store(Path(self.out)) if self.out is not None else None
        if store is None:
            yield from self.executor.map(job, share)
            return
        asked = (spec, self.resume, self.force, fingerprint(job), self.accept_version)
        with store.held(*asked) as remarks, logged(store.folder, spec):
            for text in remarks:
                LOG.warning("%s", text)
            store.note(job.facts)
            job.facts = replace(job.facts, versions=store.progress(Facts()).versions)
            stored = store.index.done()
            left = [k for k in share if k not in stored]
            LOG.info("%d of %d chunks to play, on %s", len(left), len(share), self.executor)
            for k in share:
                if k in stored:
                    yield k, Chunk(store.read(k, stored[k]), stored[k].facts, stored=True)
            for k, part in self.executor.map(job, left):
                store.write(k, part)
                c = part.records.columns
                LOG.info(
                    "chunk %d: %d rows, %d broken, %d proven, %d forward and %d backward passes",
                    *(k, len(part.records), c["success"].sum(), (c["verdict"] == "proven").sum()),
                    *(c["forwards"].sum(), c["backwards"].sum()),
                )
                yield k, part


def _in_order(
    share: Sequence[int], chunks: Iterable[tuple[int, Chunk]]
) -> Iterator[tuple[int, Chunk]]:
    """The chunks as the plan has them; who comes early waits."""
    waiting: dict[int, Chunk] = {}
    wanted = iter(share)
    k = next(wanted, None)
    for came, part in chunks:
        waiting[came] = part
        while k is not None and k in waiting:
            yield k, waiting.pop(k)
            k = next(wanted, None)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
