"""Library: the runs under a folder. Specs are read once and kept in memory.

Links are not followed, and only regular files of a sensible size are opened: a folder may come from
anybody. What cannot be read is listed with the reason.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.spec import Spec
from durometer.report.checks import Flag
from durometer.report.folder import FIX, read_json, read_spec

_DEEP, _LARGE = 8, 16_000_000  # levels of folders; bytes of a spec
_OWN = ("chunks", "replaced", "damaged")  # folders of a run that hold no run to list
_CHUNK = re.compile(r"[0-9]{1,9}\.npz")
_LEVELS = ("warning", "note")
_Stamp = tuple[int, int, str]  # of a spec: when written, how long; its records: "file", "link", ""


@dataclass(frozen=True)
class Entry:
    """A run.

    Args:
        name: Its folder, from the folder that is viewed.
        folder: Its folder.
        spec: What was asked; empty where it cannot be read.
        flags: Warnings and notes.
        written: When its spec was written, in seconds since 1970.
        finished: Whether its records are there.
        digest: Digest of the records when they were saved; "" where it is not known.
        problem: Why it cannot be read; "" where it can.
        tags: What a run is sorted by: its game, its attacks, and those of its evidence ("tags").
        words: What a search looks at.
    """

    name: str
    folder: Path
    spec: Spec = field(default_factory=Spec)
    flags: tuple[Flag, ...] = ()
    written: float = 0.0
    finished: bool = False
    digest: str = ""
    problem: str = ""
    words: str = ""
    tags: tuple[str, ...] = ()


@dataclass
class Library:
    """The runs under `root`, newest first.

    Args:
        root: The folder to view.
    """

    root: Path
    _known: dict[str, tuple[_Stamp, Entry]] = field(default_factory=dict)

    def entries(self) -> list[Entry]:
        """Every run; a spec that was read before is not read again."""
        found = {}
        for folder, written in _runs(self.root):
            name = folder.relative_to(self.root).as_posix()
            stamp = (written.st_mtime_ns, written.st_size, _records(folder))
            kept = self._known.get(name)
            found[name] = kept if kept and kept[0] == stamp else (stamp, _read(name, folder, stamp))
        self._known = found
        return sorted((e for _, e in found.values()), key=lambda e: (-e.written, e.name))

    def get(self, name: str) -> Entry:
        """A run by its name."""
        for entry in self.entries():
            if entry.name == name:
                return entry
        raise DurometerError(f"no run '{name}' under this folder")


def is_file(path: Path) -> bool:
    """A regular file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _records(folder: Path) -> str:
    path = folder / "records.parquet"
    if is_file(path):
        return "file"
    return "link" if os.path.lexists(path) else ""


def _runs(root: Path) -> list[tuple[Path, os.stat_result]]:
    found, level = [], [root]
    for _ in range(_DEEP):
        below: list[Path] = []
        for folder in level:
            try:
                with os.scandir(folder) as inside:
                    entries = list(inside)
            except OSError:
                continue  # it is gone, or not ours to read
            specs = [e for e in entries if e.name == "spec.json"]
            specs = [e for e in specs if e.is_file(follow_symlinks=False)]
            found += [(folder, e.stat(follow_symlinks=False)) for e in specs]
            inner = [e for e in entries if e.is_dir(follow_symlinks=False)]
            below += [Path(e.path) for e in inner if not (specs and e.name in _OWN)]
        level = below
    return found


def _read(name: str, folder: Path, stamp: _Stamp) -> Entry:
    path, written = folder / "spec.json", stamp[0] / 1e9
    try:
        if stamp[1] > _LARGE:
            raise DurometerError(f"'{path}' is larger than any spec ({stamp[1]:,} bytes)")
        if stamp[2] == "link":
            raise DurometerError(f"'{folder / 'records.parquet'}' is a link, or no regular file")
        stored = read_json(path, FIX)
        spec = read_spec(path, FIX, stored)
        with durable_files.reading(path, FIX):
            flags = tuple(
                Flag(str(f["id"]), str(f["text"]), _LEVELS[f["level"] != "warning"])
                for f in stored.get("flags", ())
            )
            digest = str(dict(stored.get("saved", {})).get("records.parquet", ""))
    except DurometerError as error:
        return Entry(name, folder, written=written, problem=str(error), words=name.casefold())
    asked = [spec.text(k) for k in ("model", "data", "space", "goal", "attack", "noise", "under")]
    told = [t.strip() for t in spec.evidence.get("tags", "").split(",") if t.strip()]
    tags = tuple(dict.fromkeys([*told, *filter(None, [spec.game_type]), *spec.attacks]))
    words = " ".join([name, *asked, *tags, *(f.id for f in flags)]).casefold()
    return Entry(name, folder, spec, flags, written, stamp[2] == "file", digest, "", words, tags)


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Args:
        chunks: Files of finished chunks, in the order in which they were written.
        of: How many there will be; 0 where it is not known.
        last: When the last was written, in seconds since 1970; 0 where there is none.
    """

    chunks: tuple[Path, ...] = ()
    of: int = 0
    last: float = 0.0


def progress(entry: Entry) -> Progress:
    """What a run that is not finished has written so far."""
    found = []
    try:
        with os.scandir(entry.folder / "chunks") as inside:
            for e in inside:
                if _CHUNK.fullmatch(e.name) and e.is_file(follow_symlinks=False):
                    found.append((e.stat(follow_symlinks=False).st_mtime, Path(e.path)))
    except OSError:
        return Progress(of=entry.spec.chunks)  # it has not begun
    found.sort()
    last = found[-1][0] if found else 0.0
    return Progress(tuple(p for _, p in found), entry.spec.chunks, last)


def search(entries: list[Entry], text: str, tag: str = "") -> list[Entry]:
    """The entries that hold every word of a text and have a tag ("": any)."""
    wanted = text.casefold().split()
    mine = [e for e in entries if not tag or tag in e.tags]
    return [e for e in mine if all(word in e.words for word in wanted)]
