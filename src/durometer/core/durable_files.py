"""Durable files: a file is whole or it is not there, whatever ends the process in between.

Every file that durometer keeps is written here: to a temporary beside it, flushed to the disk,
renamed; then the folder is flushed, since a rename is durable only when its folder is. Files that
belong together are all written first and renamed last, one after the other.

A folder may come from anybody, so no link in it is followed to write: temporary files have random
names and must be new, a name that is read from a file is one entry of its folder (`entry`), and
what is opened in place (a lock, a log, a database, a subfolder) is no link (`refuse_links`).

What a reader would get wrong: a rename alone is not enough. After a power cut the new name may
stand for an empty file, unless the content was flushed before.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from durometer.core.errors import DurometerError

_TEMPORARY = re.compile(r".+\.[0-9a-f]{16}\.tmp|.+\.npz\.tmp")  # the second: of older versions
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_UNUSABLE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]')
DEEPEST = 100  # levels of a JSON file; durometer's own have about ten


@contextmanager
def replace_together(folder: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """Files of one folder that appear only when all of them are written.

    >>> with replace_together(Path("runs/night")) as new:                # doctest: +SKIP
    ...     new("spec.json").write(b"{}")
    """
    files: dict[str, BinaryIO] = {}
    places: dict[str, Path] = {}

    def new(name: str) -> BinaryIO:
        place = folder / f"{name}.{secrets.token_hex(8)}.tmp"
        files[name] = place.open("xb")  # "x" follows no link
        places[name] = place
        return files[name]

    try:
        yield new
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for name in files:
            os.replace(places[name], folder / name)
        sync(folder)
    except BaseException:
        for name, file in files.items():
            try:
                file.close()
                places[name].unlink(missing_ok=True)
            except OSError:
                pass  # the first error is the one to tell
        raise


def remove_leftovers(folder: Path) -> None:
    """Away with temporary files of a process that was killed; its lock must be held."""
    for path in folder.iterdir():
        if _TEMPORARY.fullmatch(path.name):
            path.unlink()


def entry(folder: Path, name: object) -> Path:
    """A name that was read from a file, as an entry of this folder and of no other.

    >>> entry(Path("runs"), "untargeted").as_posix()
    'runs/untargeted'
    """
    right = (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and len(name.encode(errors="replace")) < 256
        and not _UNUSABLE.search(name)
        and not _RESERVED.fullmatch(name)
        and name[-1] not in ". "
    )
    if not right:
        raise DurometerError(
            f"'{folder}' names {name!r}, which is not the name of a file or a folder"
        )
    path = folder / str(name)
    if path.is_symlink():
        raise DurometerError(f"'{path}' is a link; links in a run folder are not followed")
    return path


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """An error where one of these entries is a link, or neither a file nor a folder."""
    for name in names:
        path = folder / name
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            what = "a link" if stat.S_ISLNK(mode) else "no regular file"
            raise DurometerError(
                f"'{path}' is {what}: nothing is written through it; remove it, or copy what it "
                "stands for into the folder"
            )


def parsed(text: str | bytes) -> Any:
    """A JSON text; ValueError where it is none, or nested deeper than any of durometer's."""
    too_deep = f"it is nested more than {DEEPEST} levels deep"
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [found]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        if not inner:
            return found
        level = inner
    raise ValueError(too_deep)


@contextmanager
def arrays(file: Path | bytes) -> Iterator[Any]:
    """The arrays of an .npz file of durometer's, which are not compressed: what it unpacks to is
    known before any of it is read."""
    import numpy as np  # not for `durometer --help`, which imports this file

    size = len(file) if isinstance(file, bytes) else file.stat().st_size
    with zipfile.ZipFile(io.BytesIO(file) if isinstance(file, bytes) else file) as archive:
        members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED for m in members):
        raise ValueError("it is compressed, which durometer's files are not")
    if sum(m.file_size for m in members) > size:
        raise ValueError("it says that it holds more than it does")
    with np.load(io.BytesIO(file) if isinstance(file, bytes) else file) as found:
        yield found


def path_from(path: Path, folder: Path) -> str:
    """How a path is written for whoever stands in a folder; whole where no way leads there.

    >>> path_from(Path("a/b.py"), Path("a/runs/first"))
    '../../b.py'
    """
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def write(path: Path, content: str | bytes) -> None:
    """One file."""
    with replace_together(path.parent) as new:
        new(path.name).write(content.encode() if isinstance(content, str) else content)


def sync(folder: Path) -> None:
    """Flush the names of a folder."""
    if os.name == "nt":  # Windows has no handle of a folder, and flushes names itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(written: Path | BinaryIO | bytes) -> str:
    """A digest of a file's bytes; of one that is still open, of what is written so far."""
    if isinstance(written, bytes):
        return hashlib.blake2b(written, digest_size=12).hexdigest()
    if not isinstance(written, Path):
        written.flush()
        written = Path(written.name)
    with written.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=12)).hexdigest()


def sha256(written: Path | BinaryIO) -> str:
    """The digest that others can compute too, for documents: `sha256sum FILE`."""
    if not isinstance(written, Path):
        written.flush()
        written = Path(written.name)
    with written.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_digests(path: Path, role: str) -> dict[str, str]:
    """The SHA-256 of a file, or of every file of a folder, by names that show nothing of where they
    are on this machine: "model/loans.ubj", "data/parts/0.parquet".

    The names are for people; nobody may look for a file by them.
    """
    path = path.resolve()
    try:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        return {f"{role}/{p.relative_to(path.parent).as_posix()}": sha256(p) for p in inside}
    except OSError as error:
        raise DurometerError(f"'{path}' cannot be read: {error.strerror}") from None


@contextmanager
def reading(path: Path, fix: str) -> Iterator[None]:
    """Whatever goes wrong while this file is read is said with its name and with what to do."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError("it is no regular file")  # a pipe, or a device that never ends
        yield
    except DurometerError:
        raise
    except FileNotFoundError:
        raise DurometerError(f"'{path}' is missing; {fix}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise DurometerError(f"'{path}' cannot be read: {error.strerror}") from None
    except (
        *(OSError, EOFError, ValueError, KeyError, TypeError, IndexError, AttributeError),
        *(NotImplementedError, OverflowError, MemoryError, zipfile.BadZipFile, zlib.error),
        RecursionError,
    ) as error:  # ValueError: JSON, text and Arrow too
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DurometerError(f"'{path}' is damaged ({said}); {fix}") from None
