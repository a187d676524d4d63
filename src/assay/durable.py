"""Durable files: a file is whole or it is not there, whatever ends the process in between.

Every file that assay keeps is written here: to a temporary beside it, flushed to the disk, renamed;
then the folder is flushed, since a rename is durable only when its folder is. Files that belong
together are all written first and renamed last, one after the other.

What a reader would get wrong: a rename alone is not enough. After a power cut the new name may
stand for an empty file, unless the content was flushed before.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.errors import AssayError

TEMPORARY = ".tmp"


@contextmanager
def together(folder: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """Files of one folder that appear only when all of them are written.

    >>> with together(Path("runs/night")) as new:                        # doctest: +SKIP
    ...     new("spec.json").write(b"{}")
    """
    files: dict[str, BinaryIO] = {}

    def new(name: str) -> BinaryIO:
        files[name] = (folder / (name + TEMPORARY)).open("wb")
        return files[name]

    try:
        yield new
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for name in files:
            os.replace(folder / (name + TEMPORARY), folder / name)
        sync(folder)
    except BaseException:
        for name, file in files.items():
            try:
                file.close()
                (folder / (name + TEMPORARY)).unlink(missing_ok=True)
            except OSError:
                pass  # the first error is the one to tell
        raise


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
    with together(path.parent) as new:
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


def digest(written: Path | BinaryIO) -> str:
    """A digest of a file's bytes; of one that is still open, of what is written so far."""
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


@contextmanager
def reading(path: Path, fix: str) -> Iterator[None]:
    """Whatever goes wrong while this file is read is said with its name and with what to do."""
    try:
        yield
    except AssayError:
        raise
    except FileNotFoundError:
        raise AssayError(f"'{path}' is missing; {fix}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise AssayError(f"'{path}' cannot be read: {error.strerror}") from None
    except (
        *(OSError, EOFError, ValueError, KeyError, TypeError, IndexError, AttributeError),
        *(NotImplementedError, OverflowError, MemoryError, zipfile.BadZipFile, zlib.error),
    ) as error:  # ValueError: JSON, text and Arrow too
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AssayError(f"'{path}' is damaged ({said}); {fix}") from None
