"""Store: a run as a folder from which it can go on after `kill -9`.

    spec.json      what was asked, with hashes of data and model
    chunks/K.npz   records and handed-in inputs of a finished chunk
    index.sqlite   which chunks are finished (WAL)
    facts.json     what was seen of the model before the first chunk: flags are made from it
    lock           held by the process that writes here
    log.txt        what happened when

A chunk is written to a temporary file, flushed to disk and renamed; only then does the index name
it. So whatever the index names is whole, and at most the chunk in progress is lost.

What a reader would get wrong: SQLite's WAL is not for network file systems, so each shard of a run
has a folder of its own, and `merge` joins them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import AssayError
from assay.records import FIELDS, Records
from assay.report import checks
from assay.report.examples import merged
from assay.report.report import FILES, Report
from assay.run.job import Chunk

# Fields that do not change what the records will be.
_FREE = ("versions", "shard", "flags", "also", "finished", "threat")
OWN = ("spec.json", "log.txt", "facts.json", "config.toml")
_TEXT = [name for name, (dtype, _) in FIELDS.items() if dtype == "object"]


@dataclass(frozen=True)
class Store:
    """The folder of one run, or of one shard of it."""

    folder: Path

    @property
    def _index(self) -> Path:
        return self.folder / "index.sqlite"

    @contextmanager
    def held(self, spec: dict[str, Any], resume: bool, force: bool = False) -> Iterator[None]:
        """Take the folder for writing: new, in place of the run there, or to go on with it."""
        with _in_a_sentence(self.folder):
            if force:
                self.clear()
            self._make(spec, resume)
            with (self.folder / "lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise AssayError(
                        f"another process is writing to '{self.folder}'; wait for it, or choose "
                        "another folder"
                    ) from None
                yield

    def _make(self, spec: dict[str, Any], resume: bool) -> None:
        path = self.folder / "spec.json"
        if path.exists():
            if not resume:
                raise AssayError(
                    f"'{self.folder}' already holds a run; resume it (--resume), replace it "
                    "(--force), or choose another folder"
                )
            _compare(json.loads(path.read_text()), json.loads(json.dumps(spec, default=str)), path)
        (self.folder / "chunks").mkdir(parents=True, exist_ok=True)
        for leftover in (self.folder / "chunks").glob("*.tmp"):
            leftover.unlink()
        with closing(self._connect()) as db, db:
            columns = "k INTEGER PRIMARY KEY, rows INTEGER, facts TEXT"
            db.execute(f"CREATE TABLE IF NOT EXISTS chunks ({columns})")
        if not path.exists():
            _write(path, json.dumps(spec, indent=2, default=str).encode())

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._index, timeout=30)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        return db

    def done(self) -> dict[int, dict[str, int]]:
        """Finished chunks and what was noticed in them."""
        if not self._index.exists():
            raise AssayError(f"'{self.folder}' is not the folder of a run: it has no index.sqlite")
        with closing(self._connect()) as db:
            found = db.execute("SELECT k, facts FROM chunks ORDER BY k").fetchall()
        return {k: json.loads(facts) for k, facts in found}

    def write(self, k: int, part: Chunk) -> None:
        """Make a chunk durable."""
        with _in_a_sentence(self.folder):
            arrays: dict[str, Any] = dict(part.records.columns)
            for name in _TEXT:  # as text or numbers: nothing that would have to be unpickled
                arrays[name] = np.array(arrays[name].tolist())
            if part.records.adversarial is not None:
                arrays["adversarial"] = part.records.adversarial
            temporary = self.folder / "chunks" / f"{k}.tmp"
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.folder / "chunks" / f"{k}.npz")
            _sync(self.folder / "chunks")
            with closing(self._connect()) as db, db:
                db.execute(
                    "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?)",
                    (k, len(part.records), json.dumps(part.facts)),
                )

    def note(self, facts: dict[str, Any]) -> None:
        """Keep what was seen of the model, for the flags of a report made from the folder."""
        with _in_a_sentence(self.folder):
            _write(self._facts, json.dumps(facts, default=str).encode())

    @property
    def _facts(self) -> Path:
        return self.folder / "facts.json"

    def read(self, k: int) -> Records:
        """The records of a finished chunk."""
        with np.load(self.folder / "chunks" / f"{k}.npz") as file:
            columns = {name: file[name] for name in FIELDS if name in file.files}  # older: fewer
            inputs = file["adversarial"] if "adversarial" in file.files else None
            return Records.of(len(file["id"]), inputs, **columns)

    def clear(self) -> None:
        """Remove the run that is kept here with its report, and nothing else."""
        with _in_a_sentence(self.folder):
            own = (self.folder / name for name in (*OWN, *FILES))
            for path in (*own, *self.folder.glob("index.sqlite*")):
                path.unlink(missing_ok=True)
            shutil.rmtree(self.folder / "chunks", ignore_errors=True)
        for folder in self.folder.glob("also/*"):
            Store(folder).clear()

    def report(self) -> Report:
        """The report on everything finished so far."""
        done = self.done()
        if not done:
            raise AssayError(f"'{self.folder}': no chunk is finished yet, there is nothing to show")
        facts: dict[str, Any] = {}
        if self._facts.exists():  # older runs have none
            facts = json.loads(self._facts.read_text())
        for noticed in done.values():
            for name, count in noticed.items():
                facts[name] = facts.get(name, 0) + count
        records = Records.concat(self.read(k) for k in done)
        return Report(self.spec, records, checks.of_report(records, facts, self.spec))

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked."""
        path = self.folder / "spec.json"
        if not path.exists():
            raise AssayError(f"'{self.folder}' is not the folder of a run: it has no spec.json")
        spec: dict[str, Any] = json.loads(path.read_text())
        return spec


def merge(parts: Sequence[Path], out: Path) -> Store:
    """Join the shards of a run to exactly the whole; refuses a gap or shards of different runs."""
    whole, owner = _joined(parts)
    for name in _further(parts):  # before anything is written
        _joined([Path(p) / "also" / name for p in parts])
    store = Store(Path(out))
    with store.held(whole, resume=False):
        first = Store(Path(parts[0]))._facts
        if first.exists():
            shutil.copyfile(first, store._facts)
        facts = {k: shard.done()[k] for k, shard in owner.items()}
        for k, shard in sorted(owner.items()):
            name = f"chunks/{k}.npz"
            shutil.copyfile(shard.folder / name, store.folder / name)
            with closing(store._connect()) as db, db:
                rows = len(shard.read(k))
                db.execute("INSERT INTO chunks VALUES (?, ?, ?)", (k, rows, json.dumps(facts[k])))
    return store


def _joined(parts: Sequence[Path]) -> tuple[dict[str, Any], dict[int, Store]]:
    """The spec of the whole, and which shard has each chunk."""
    if not parts:
        raise AssayError("merge: no folders given")
    shards = [Store(Path(p)) for p in parts]
    whole = shards[0].spec
    for shard in shards[1:]:
        _compare(whole, shard.spec, shard.folder)
    owner: dict[int, Store] = {}
    for shard in shards:
        for k in shard.done():
            owner.setdefault(k, shard)  # the same chunk twice is the same records twice
    missing = sorted(set(range(int(whole["chunks"]))) - set(owner))
    if missing:
        raise AssayError(
            f"merge: {len(missing)} of {whole['chunks']} chunks are in none of the folders, the "
            f"first is chunk {missing[0]}; finish that shard with --resume"
        )
    return {k: v for k, v in whole.items() if k not in ("flags", "also", "shard")}, owner


def _further(parts: Sequence[Path]) -> list[str]:
    """Names of the further goals that any of the shards has."""
    found = (p.parent.name for part in parts for p in Path(part).glob("also/*/spec.json"))
    return sorted(set(found))


def report_of(parts: Sequence[Path], whole: Store) -> Report:
    """The report on a merged run, with what the shards' own reports know besides the records."""
    report = whole.report()
    known = [Report.load(p) for p in parts if (Path(p) / "records.parquet").exists()]
    examples = [(k.records.columns["id"], k.examples) for k in known if k.examples is not None]
    also = {}
    for name in _further(parts):
        inside = [Path(p) / "also" / name for p in parts]
        also[name] = report_of(inside, merge(inside, whole.folder / "also" / name))
    shown = merged(examples, report.records)
    return replace(report, also=also, examples=shown)


def _compare(old: dict[str, Any], new: dict[str, Any], where: Path) -> None:
    keys = sorted((set(old) | set(new)) - set(_FREE))
    differ = [f"{k}: {old.get(k)!r} there, {new.get(k)!r} now" for k in keys
              if old.get(k) != new.get(k)]  # fmt: skip
    if differ:
        raise AssayError(f"'{where}' belongs to another run; " + "; ".join(differ))


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """A rename is durable only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _in_a_sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AssayError(
            f"cannot write to '{folder}': {reason}; what is finished there is safe: make room, "
            "or choose another folder, and resume"
        ) from None
