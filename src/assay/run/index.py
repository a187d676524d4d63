"""Index: which chunks of a run are finished, in SQLite (WAL), with the digest of each chunk's file.

It also holds a second copy of what was asked, so that neither file alone can make a run unreadable,
and every set of versions that has written here.

What a reader would get wrong: the index is not the truth, the chunks are. Each chunk carries its
own facts, so that a lost index is rebuilt from them (`repair`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import AssayError


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
            raise AssayError(
                f"'{self.path.parent}' is not the folder of a run: it has no index.sqlite"
            )
        try:
            with self._open() as db:
                db.execute("PRAGMA quick_check").fetchone()
                known = {row[1] for row in db.execute("PRAGMA table_info(chunks)")}
                digest = "digest" if "digest" in known else "NULL"
                rows = db.execute(f"SELECT k, facts, {digest} FROM chunks ORDER BY k").fetchall()
            return {int(k): Entry(json.loads(facts), digest) for k, facts, digest in rows}
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                raise AssayError(f"'{self.path}' cannot be read: {error}") from None
            raise AssayError(
                f"'{self.path}' is damaged ({error}); 'assay repair {self.path.parent}' rebuilds "
                "it from the chunks, and so does --resume"
            ) from None

    def keep(self, name: str, value: Any) -> None:
        """A second copy of something."""
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, json.dumps(value)))

    def kept(self, name: str) -> Any:
        """That copy; None where there is none."""
        try:
            with self._open() as db:
                row = db.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
            return None if row is None else json.loads(row[0])
        except (sqlite3.DatabaseError, ValueError, TypeError):
            return None
