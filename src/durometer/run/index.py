"""Index: which chunks of a run are finished, in SQLite (WAL), with the digest of each chunk's file.

It also holds a second copy of what was asked, so that neither file alone can make a run unreadable,
and every set of versions that has written here.

What a reader would get wrong: the index is not the truth, the chunks are. Each chunk carries its
own facts, so that a lost index is rebuilt from them (`repair`). And an index may come from anybody:
reading needs no write access, takes nothing but plain tables, and ends.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError

_LARGEST = 2**26  # bytes of a value: a spec with its copy is far smaller
_SECONDS = 20.0  # for what takes milliseconds


@dataclass(frozen=True)
class Entry:
    """What the index knows of a finished chunk; runs of 0.1 have no digest."""

    facts: dict[str, int]
    digest: str | None = None


@dataclass(frozen=True)
class Index:
    """The index of one run."""

    path: Path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            yield db

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """The index as it is, from a folder that may not be written to.

        A log (-wal) beside it is of a writer at work, or of one that was killed. To read it, SQLite
        wants to write a file of its own beside it; where it may not, both are read from a copy.
        """
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or not log.stat().st_size:
            with self._sober("immutable=1") as db:
                yield db
            return
        try:
            with self._sober("mode=ro") as db:
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                yield db
            return
        except sqlite3.OperationalError as error:
            if "unable to open" not in str(error) and "readonly" not in str(error):
                raise
        with tempfile.TemporaryDirectory(prefix="durometer-index-") as place:
            copy = Index(Path(place) / "index.sqlite")
            for file in (self.path, log):
                shutil.copyfile(file, copy.path.with_name(file.name))
            with copy._sober("mode=rw") as db:
                yield db

    @contextmanager
    def _sober(self, how: str) -> Iterator[sqlite3.Connection]:
        """A connection for reading plain tables, that does not go on for ever."""
        where = f"{self.path.resolve().as_uri()}?{how}"
        with closing(sqlite3.connect(where, timeout=30, uri=True)) as db:
            until = time.monotonic() + _SECONDS
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
            db.set_progress_handler(lambda: int(time.monotonic() > until), 10_000)
            db.execute("PRAGMA trusted_schema=OFF")
            made = "SELECT name, type, sql FROM sqlite_master WHERE name IN ('chunks', 'kept')"
            for name, kind, text in db.execute(made).fetchall():
                if kind != "table" or " as " in str(text).lower() or "virtual" in text.lower():
                    raise sqlite3.DatabaseError(f"{name} is not a plain table")
            yield db

    def make(self) -> None:
        """Make what is not there yet."""
        with self._open() as db:
            columns = "k INTEGER PRIMARY KEY, rows INTEGER, facts TEXT, digest TEXT"
            db.execute(f"CREATE TABLE IF NOT EXISTS chunks ({columns})")
            db.execute("CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT)")
            if len(db.execute("PRAGMA table_info(chunks)").fetchall()) == 3:  # of version 0.1
                db.execute("ALTER TABLE chunks ADD COLUMN digest TEXT")

    def add(self, k: int, rows: int, facts: dict[str, int], digest: str) -> None:
        """A chunk is finished."""
        with self._open() as db:
            values = (k, rows, json.dumps(facts), digest)
            db.execute("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?)", values)

    def forget(self, k: int) -> None:
        """A chunk is to be played again."""
        with self._open() as db:
            db.execute("DELETE FROM chunks WHERE k = ?", (k,))

    def done(self) -> dict[int, Entry]:
        """The finished chunks."""
        if not self.path.exists():
            raise DurometerError(
                f"'{self.path.parent}' is not the folder of a run: it has no index.sqlite"
            )
        try:
            with self._read() as db:
                db.execute("PRAGMA quick_check").fetchone()
                known = {row[1] for row in db.execute("PRAGMA table_info(chunks)")}
                digest = "digest" if "digest" in known else "NULL"
                rows = db.execute(f"SELECT k, facts, {digest} FROM chunks ORDER BY k").fetchall()
            return {int(k): Entry(_counts(facts), digest) for k, facts, digest in rows}
        except (sqlite3.DatabaseError, ValueError, TypeError, OSError) as error:
            if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                raise DurometerError(f"'{self.path}' cannot be read: {error}") from None
            raise DurometerError(
                f"'{self.path}' is damaged ({error}); 'durometer repair {self.path.parent}' "
                "rebuilds it from the chunks, and so does --resume"
            ) from None

    def keep(self, name: str, value: Any) -> None:
        """A second copy of something."""
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, json.dumps(value)))

    def kept(self, name: str) -> Any:
        """That copy; None where there is none."""
        try:
            with self._read() as db:
                row = db.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
            return None if row is None else durable_files.parsed(row[0])
        except (sqlite3.DatabaseError, ValueError, TypeError, OSError):
            return None


def _counts(text: str) -> dict[str, int]:
    """What was noticed in a chunk: how often each thing."""
    found = durable_files.parsed(text)
    if not isinstance(found, dict) or not all(type(n) is int for n in found.values()):
        raise ValueError("facts of a chunk are no counts")
    return found
