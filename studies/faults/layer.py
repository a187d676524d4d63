"""A file layer that fails on purpose: every point at which a run touches its disk, enumerated.

`Layer(folder)` stands between Python and the disk for everything below `folder`: opening a file for
writing, each write, flush to disk, rename, removal, folder made, and each statement and commit of
SQLite. Each is a *point*, numbered in the order of the run. At point k the layer can

    snapshot   copy the folder as it is just before: what a kill -9 at that moment would leave
    torn       the same with half of the write done
    power      the same with every file that was not flushed emptied: a power cut
    ENOSPC     raise "no space left", EIO raise "input/output error", MEMORY raise MemoryError

With `reading` the points are those at which a file is opened to be read, and each SELECT.

What a reader would get wrong: a snapshot is a kill, without killing anybody. The disk is all that
a killed process leaves, so one run yields the snapshots of all its points, on any executor.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Layer:
    """Counts points below a folder; `at` is what to do at one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self.points: list[str] = []  # what each was
        self.at: tuple[int, str] | None = None  # the point at which to raise, and what
        self.snapshots: Path | None = None  # where to copy the folder at every wanted point
        self.wanted: Callable[[int], bool] = lambda k: True
        self.unsynced: set[str] = set()
        self.busy = False
        self.reading = False

    def mine(self, path: Any) -> bool:
        try:
            name = os.path.abspath(os.fspath(path))
        except TypeError:
            return False
        return not self.busy and name.startswith(self.folder)

    def point(self, what: str, tear: Any = None) -> None:
        """One is reached: copy, or raise, or go on."""
        k = len(self.points)
        self.points.append(what)
        if self.snapshots is not None and self.wanted(k):
            self.busy = True
            try:
                self._copy(k, tear)
            finally:
                self.busy = False
        if self.at is not None and self.at[0] == k:
            if self.at[1] == "MEMORY":
                raise MemoryError
            code = getattr(errno, self.at[1])
            if what.startswith("sqlite"):
                full = self.at[1] == "ENOSPC"
                raise sqlite3.OperationalError(
                    "database or disk is full" if full else "disk I/O error"
                )
            raise OSError(code, os.strerror(code))

    def _copy(self, k: int, tear: Any) -> None:
        assert self.snapshots is not None
        if not os.path.isdir(self.folder):
            return
        shutil.copytree(self.folder, self.snapshots / f"{k}-kill")
        lost = [n for n in self.unsynced if os.path.exists(n)]
        if lost:
            shutil.copytree(self.folder, self.snapshots / f"{k}-power")
            for name in lost:
                inside = os.path.relpath(name, self.folder)
                open_(self.snapshots / f"{k}-power" / inside, "wb").close()
        if tear is not None:
            name, place, half = tear
            shutil.copytree(self.folder, self.snapshots / f"{k}-torn")
            with open_(
                self.snapshots / f"{k}-torn" / os.path.relpath(name, self.folder), "r+b"
            ) as f:
                f.seek(place)
                f.write(half)

    @contextmanager
    def installed(self) -> Iterator[Layer]:  # noqa: C901  (a dozen short functions)
        """While the block lasts, everything goes through here."""
        saved = (builtins.open, io.open, os.fsync, os.replace, os.rename, os.unlink, os.mkdir)
        remove, connect, path_open = os.remove, sqlite3.connect, pathlib.Path.open

        def opened(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
            writes = bool(set(mode) & set("wax+"))
            if isinstance(file, int) or not self.mine(file):
                return open_(file, mode, *args, **more)
            if self.reading and not writes:
                self.point(f"read {os.path.basename(file)}")
            if writes and not self.reading:
                self.point(f"open {os.path.basename(file)}")
                if mode != "wb":
                    return open_(file, mode, *args, **more)
                raw = _Raw(file, "wb")
                raw.layer = self
                return io.BufferedWriter(raw)
            return open_(file, mode, *args, **more)

        def fsync(fd: int) -> None:
            name = os.readlink(f"/proc/self/fd/{fd}")
            if self.mine(name) and not self.reading:
                self.point(f"fsync {os.path.basename(name)}")
                self.unsynced.discard(name)
            saved[2](fd)

        def moved(what: Any, word: str) -> Any:
            def move(source: Any, target: Any, **more: Any) -> None:
                if not self.reading and (self.mine(target) or self.mine(source)):
                    self.point(f"{word} {os.path.basename(os.fspath(target))}")
                    a, b = os.path.abspath(source), os.path.abspath(target)
                    self.unsynced.discard(b)
                    if a in self.unsynced:
                        self.unsynced.discard(a)
                        self.unsynced.add(b)
                what(source, target, **more)

            return move

        def once(what: Any, word: str) -> Any:
            def act(path: Any, *args: Any, **more: Any) -> None:
                if not self.reading and more.get("dir_fd") is None and self.mine(path):
                    self.point(f"{word} {os.path.basename(os.fspath(path))}")
                what(path, *args, **more)

            return act

        def connected(path: Any, *args: Any, **more: Any) -> Any:
            if not self.mine(path):
                return connect(path, *args, **more)
            layer = self

            class Connection(sqlite3.Connection):
                def execute(self, sql: str, *values: Any) -> Any:
                    words = ("INSERT", "CREATE", "DELETE", "ALTER")
                    if sql.split()[0] in (("SELECT",) if layer.reading else words):
                        layer.point(f"sqlite {sql.split()[0].lower()}")
                    return super().execute(sql, *values)

                def commit(self) -> None:
                    if not layer.reading:
                        layer.point("sqlite commit")
                    super().commit()

                def __exit__(self, *error: Any) -> Any:
                    if error[0] is None and self.in_transaction and not layer.reading:
                        layer.point("sqlite commit")
                    return super().__exit__(*error)

            return connect(path, *args, factory=Connection, **more)

        try:
            builtins.open = io.open = opened  # type: ignore[assignment]
            pathlib.Path.open = lambda p, mode="r", *a, **m: opened(p, mode, *a, **m)  # type: ignore[method-assign,assignment,misc]
            os.fsync = fsync
            os.replace, os.rename = moved(saved[3], "rename"), moved(saved[4], "rename")
            os.unlink, os.remove = once(saved[5], "remove"), once(remove, "remove")
            os.mkdir = once(saved[6], "mkdir")
            sqlite3.connect = connected  # type: ignore[assignment]
            yield self
        finally:
            builtins.open, io.open, os.fsync, os.replace, os.rename, os.unlink, os.mkdir = saved
            os.remove, sqlite3.connect, pathlib.Path.open = remove, connect, path_open  # type: ignore[method-assign]


open_ = builtins.open


class _Raw(io.FileIO):
    """A file whose writes, after Python's buffer, are points."""

    layer: Layer

    def write(self, content: Any) -> int:
        content, name = bytes(content), os.path.abspath(str(self.name))
        half = content[: len(content) // 2]
        self.layer.point(f"write {os.path.basename(name)}", (name, self.tell(), half))
        self.layer.unsynced.add(name)
        return super().write(content)
