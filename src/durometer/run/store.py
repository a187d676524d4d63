"""Store: a run as a folder from which it can go on after `kill -9`.

    spec.json         what was asked, with hashes of data and model
    fingerprint.json  what the model answered on a few rows, and the schemas in full
    chunks/K.npz      records and handed-in inputs of a finished chunk
    index.sqlite      which chunks are finished, with their digests (and the spec once more)
    facts.json        what was seen of the model before the first chunk: flags are made from it
    lock              held by the process that writes here
    log.txt           what happened when
    replaced/         the run that was here before --force, until this one has a chunk
    damaged/          what `repair` has set aside

A chunk is written durably; only then does the index name it. So whatever the index names is whole,
and at most the turn in progress is lost.

What a reader would get wrong: nothing is touched, not even a temporary file, before the lock is
held; a process that is refused leaves no trace. And SQLite's WAL is not for network file systems,
so each shard of a run has a folder of its own, and `merge` joins them.
"""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.facts import Facts
from durometer.core.records import FIELDS, Records, certificates
from durometer.core.spec import Spec
from durometer.report import checks
from durometer.report.folder import read_spec
from durometer.report.report import Report
from durometer.report.totals import Tally
from durometer.run.fingerprint import Print, differences
from durometer.run.index import Entry, Index
from durometer.run.job import Chunk
from durometer.run.replacement import FOLDERS, Replacement
from durometer.spaces import token_ids

# Fields that do not change what the records will be.
FREE = (
    "versions", "shard", "threat", "evidence", "command", "inference_copy",
)  # fmt: skip
# Files that are opened where they stand, not written beside and renamed.
IN_PLACE = (
    "lock", "log.txt", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm",
    "index.sqlite-journal",
)  # fmt: skip
CHANGED = "its bytes are not those that were written"
_FACTS = "delete it: only flags are made from it"
_TEXT = [name for name, (dtype, _) in FIELDS.items() if dtype == "object"]


@dataclass(frozen=True)
class Store:
    """The folder of one run, or of one shard of it."""

    folder: Path

    @property
    def index(self) -> Index:
        return Index(self.folder / "index.sqlite")

    @property
    def replacement(self) -> Replacement:
        return Replacement(self.folder)

    def chunk(self, k: int) -> Path:
        return self.folder / "chunks" / f"{k}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes here; a further goal is part of the run it stands in."""
        inside = self.folder.parent.name == "also"
        whole = self.folder.parent.parent if inside else self.folder
        with in_a_sentence(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if inside:
                durable_files.refuse_links(whole, ("also",))
                durable_files.refuse_links(whole / "also", (self.folder.name,))
            for folder in {whole, self.folder}:
                durable_files.refuse_links(folder, (*IN_PLACE, *FOLDERS, "replaced"))
            lock = FileLock(whole / "lock", thread_local=False)
            try:
                lock.acquire(timeout=0)
            except (Timeout, RuntimeError):  # RuntimeError: by another run of this very thread
                raise DurometerError(
                    f"another process is writing to '{whole}'; wait for it, or choose another "
                    "folder"
                ) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def held(
        self,
        spec: Spec,
        resume: bool,
        force: bool = False,
        print: Print | None = None,
        accept_version: bool = False,
    ) -> Iterator[list[str]]:
        """Take the folder for writing: new, in place of the run there, or to go on with it.

        Gives what is to be said of it: what had to be mended, which versions were accepted.
        """
        spec = Spec.from_json(json.loads(json.dumps(spec.to_json(), default=str)))
        with self.locked():
            with in_a_sentence(self.folder):
                self.replacement.recover()
                if force:
                    self.replacement.set_aside()
                remarks = self._make(spec, print or {}, resume, accept_version)
            try:
                yield remarks
            except BaseException:
                with in_a_sentence(self.folder):
                    self.replacement.put_back()
                raise

    def _make(self, spec: Spec, print: Print, resume: bool, accept: bool) -> list[str]:
        from durometer.run.repair import mend

        remarks: list[str] = []
        path = self.folder / "spec.json"
        if path.exists():
            if not resume:
                raise DurometerError(
                    f"'{self.folder}' already holds a run; resume it (--resume), replace it "
                    "(--force), or choose another folder"
                )
            remarks = [*mend(self), *self._compare(spec, print, accept)]
        (self.folder / "chunks").mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self.folder / "chunks"):
            durable_files.remove_leftovers(folder)
        self.index.make()
        if not path.exists():
            for name, value in (("spec", spec.to_json()), ("fingerprint", print)):
                self.index.keep(name, value)
            self.index.keep("versions", [spec.versions])
            durable_files.write(self.folder / "fingerprint.json", json.dumps(print))
            durable_files.write(path, json.dumps(spec.to_json(), indent=2))
        return remarks

    def _compare(self, spec: Spec, print: Print, accept: bool) -> list[str]:
        hint = ""
        if self.replacement.aside.exists():
            hint = f"; the run before it is whole: 'durometer repair {self.folder}' puts it back"
        compare(self.spec, spec, self.folder / "spec.json", accept, hint)
        found = differences(self.print, print)
        if found:
            raise DurometerError(
                f"'{self.folder}' belongs to another run: {'; '.join(found)}{hint}"
            )
        known = self.versions
        if spec.versions not in known:
            self.index.keep("versions", [*known, spec.versions])
            return [f"other versions: {known} before, {spec.versions} now, accepted"]
        return []

    @property
    def versions(self) -> list[Any]:
        """All sets of versions that have written here."""
        return self.index.kept("versions") or [self.spec.versions]

    def done(self) -> dict[int, dict[str, int]]:
        """Finished chunks and what was noticed in them."""
        return {k: entry.facts for k, entry in self.index.done().items()}

    def write(self, k: int, part: Chunk) -> None:
        """Make a chunk durable."""
        with in_a_sentence(self.folder):
            arrays: dict[str, Any] = dict(part.records.columns)
            for name in _TEXT:  # as text or numbers: nothing that would have to be unpickled
                arrays[name] = np.array(arrays[name].tolist())
            for name, column in part.records.columns.items():
                if name != "id" and _same(column):  # most columns of most games say one thing
                    arrays[name] = arrays[name][:1]
            if part.records.adversarial is not None:
                arrays["adversarial"] = part.records.adversarial
                arrays["words"] = np.array(token_ids.words_in(part.records.adversarial), str)
            arrays |= part.records.certificate_arrays()
            arrays["facts"] = np.array(json.dumps(part.facts))
            whole = io.BytesIO()  # a chunk is small, and one write is faster than a hundred
            np.savez(whole, **arrays)
            durable_files.write(self.chunk(k), whole.getvalue())
            digest = durable_files.digest(self.chunk(k))
            self.index.add(k, len(part.records), part.facts, digest)
            self.replacement.drop()

    def note(self, facts: Facts) -> None:
        """Keep what was seen of the model, for the flags of a report made from the folder."""
        with in_a_sentence(self.folder):
            durable_files.write(self.folder / "facts.json", json.dumps(facts.to_json()))

    def read(self, k: int, entry: Entry | None = None) -> Records:
        """The records of a finished chunk, if its bytes are those that the index remembers.

        `entry`: what the index knows of it, where that is at hand.
        """
        fix = f"'durometer repair {self.folder}' sets it aside, and --resume plays it again"
        known = self.index.done().get(k) if entry is None else entry
        with durable_files.reading(self.chunk(k), fix):
            content = self.chunk(k).read_bytes()
            if known is not None and known.digest not in (None, durable_files.digest(content)):
                raise ValueError(CHANGED)
        with durable_files.reading(self.chunk(k), fix), durable_files.arrays(content) as file:
            columns = {name: file[name] for name in FIELDS if name in file.files}  # older: fewer
            inputs = file["adversarial"] if "adversarial" in file.files else None
            token_ids.register_words(file["words"].tolist() if "words" in file.files else ())
            return Records.of(len(file["id"]), inputs, certificates(file), **columns)

    def wrong(self, k: int, entry: Entry) -> str:
        """Why the file of a chunk cannot be believed, or nothing; runs of 0.1 have no digests."""
        path = self.chunk(k)
        try:
            if not path.is_file():
                return "it is missing"
            if entry.digest is not None:
                return "" if durable_files.digest(path) == entry.digest else CHANGED
            self.read(k, entry)
        except (DurometerError, OSError) as error:
            return str(error).rstrip("; ")
        return ""

    def clear(self) -> None:
        """Remove the run that is kept here with its report, and nothing else."""
        with self.locked(), in_a_sentence(self.folder):
            self.replacement.remove()

    def report(self) -> Report:
        """The report on everything finished so far; damaged chunks are left out (`damaged`)."""
        wrong = self.damaged()
        done = {k: entry for k, entry in self.index.done().items() if k not in wrong}
        if not done:
            also = f" ({len(wrong)} are damaged)" if wrong else ""
            raise DurometerError(
                f"'{self.folder}': no chunk is finished yet{also}, there is nothing to show"
            )
        spec, facts = self.spec, self.facts
        if wrong:
            finished, chunks = facts.unfinished or (len(done) + len(wrong),) * 2
            facts = replace(facts, unfinished=(finished - len(wrong), chunks))
        tally = None if spec.shown is None else Tally(spec.shown)
        if tally is None:
            records = Records.concat(self.read(k, entry) for k, entry in done.items()).withdrawn()
        else:
            for k, entry in done.items():
                tally.add(k, self.read(k, entry))
            records = tally.records
        with durable_files.reading(self.folder / "facts.json", _FACTS):
            for entry in done.values():
                facts = facts.plus(entry.facts)
            facts = replace(facts, all_rows=None if tally is None else len(tally))
            flags = checks.of_report(records, facts, spec)
        return Report(spec, records, flags, totals=None if tally is None else tally.totals)

    def damaged(self) -> dict[int, str]:
        """Finished chunks whose files are not as they were written, and why each is not."""
        found = {k: self.wrong(k, entry) for k, entry in self.index.done().items()}
        return {k: why for k, why in found.items() if why}

    @property
    def facts(self) -> Facts:
        """What was noted of the model, and of the run as it is now."""
        facts = Facts()
        path = self.folder / "facts.json"
        if path.exists():  # older runs have none
            with durable_files.reading(path, _FACTS):
                facts = Facts.from_json(dict(durable_files.parsed(path.read_text())))
        return self.progress(facts)

    def progress(self, facts: Facts) -> Facts:
        """With how much of this share is finished, and with which versions."""
        spec, versions = self.spec, self.versions
        first, step = spec.shard or (1, 1)  # shards share out what is played at once
        share = {k for k in range(spec.chunks) if k // spec.turn % step == first - 1}
        finished = sum(k in share for k in self.index.done())
        return replace(
            facts,
            unfinished=(finished, len(share)) if finished < len(share) else None,
            versions=tuple(versions) if len(versions) > 1 else (),
        )

    @property
    def spec(self) -> Spec:
        """What was asked."""
        path = self.folder / "spec.json"
        if not path.exists():
            raise DurometerError(f"'{self.folder}' is not the folder of a run: it has no spec.json")
        fix = f"'durometer repair {self.folder}' brings it back from the index"
        return read_spec(path, fix)

    @property
    def print(self) -> Print:
        """The fingerprint; runs of 0.1 have none."""
        path = self.folder / "fingerprint.json"
        if not path.exists():
            return {}
        fix = f"'durometer repair {self.folder}' brings it back from the index"
        with durable_files.reading(path, fix):
            return dict(durable_files.parsed(path.read_text(encoding="utf-8")))


def _same(column: np.ndarray) -> bool:
    """Whether a column says the same of all rows."""
    return bool((column == column[0]).all()) or (
        column.dtype.kind == "f" and bool(np.isnan(column).all())
    )


def compare(old: Spec, new: Spec, where: Path, accept_version: bool, hint: str = "") -> None:
    """Refuse what is another run, with everything that differs."""
    there, now = old.to_json(), new.to_json()
    differ = [f"{k}: {there.get(k)!r} there, {now.get(k)!r} now"
              for k in sorted({*old.differences(new)} - set(FREE))]  # fmt: skip
    if differ:
        raise DurometerError(f"'{where}' belongs to another run; " + "; ".join(differ) + hint)
    other = [f"{k} {old.versions.get(k)} there, {new.versions.get(k)} now"
             for k in sorted({*old.versions, *new.versions})
             if old.versions.get(k) != new.versions.get(k)]  # fmt: skip
    if other and not accept_version:
        raise DurometerError(
            f"'{where}' was made by other versions: {'; '.join(other)}; --accept-version goes on "
            "with these (both are then named in the log and in the report)"
        )


@contextmanager
def in_a_sentence(folder: Path) -> Iterator[None]:
    """Whatever the disk refuses, said with the folder's name."""
    try:
        yield
    except (OSError, sqlite3.Error, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise DurometerError(
            f"cannot write to '{folder}': {reason}; what is finished there is safe: make room, "
            "or choose another folder, and resume"
        ) from None
