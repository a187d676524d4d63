"""Parquet: data larger than memory, read a part at a time by whoever plays the part.

A part is at most `rows` rows of one row group of one file. The plan is made from the files' footers
alone, so a worker process or a Ray worker opens the file itself and reads its own row groups; rows
never travel through the driver.

What a reader would get wrong: what must be one for all parts is settled before the first: a row's
id is its place in the whole (or the column `ids`), labels that are text are classes in their sorted
order over all files (one pass over that column), and text among the features needs a schema, which
says its values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun
from durometer.data.dataset import Dataset

PART = 65536  # rows
PROBED = 8  # places in the data at which it is looked at before the run
EACH = 128  # rows there


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` of a row group; the first of them is row `first` of the whole."""

    file: Path
    group: int
    start: int
    stop: int
    first: int


@noun
class Parquet:
    """Data larger than memory: a Parquet file, or a folder of them in the order of their names.

    `evaluate` takes it in place of a `Dataset`, together with a folder for the records
    (`run=Run(folder)`). Only a few parts are in memory at a time.

    Args:
        path: The file, or the folder, which is searched for *.parquet at any depth.
        target: The column of the true classes. Labels that are not numbers become classes in sorted
            order over all files.
        ids: A column of unique ids. None: a row's id is its position in the whole.
        schema: A `Schema`; required where a feature is text.
        classes: Names of the classes. None: read from the labels, where these are not numbers.
        extra: Columns that are not features; they are kept for slices.
        rows: Rows per part; at most one row group of a file. Default 65,536.
        name: What reports call the data. Default: the name of the file or folder.

    Raises:
        DurometerError: `path` is no path, or `rows` no whole number of at least 1.

    >>> import tempfile, pandas as pd
    >>> file = tempfile.mkdtemp() + "/loans.parquet"
    >>> pd.DataFrame({"age": [31.0, 45.0, 28.0], "paid": ["no", "yes", "no"]}).to_parquet(file)
    >>> data = Parquet(file, target="paid", rows=2)
    >>> len(data), len(data.parts), data.part(1).ids.tolist(), data.labels
    (3, 2, [2], ('no', 'yes'))
    """

    path: str | Path
    target: str
    ids: str | None = None
    schema: Any = None
    classes: tuple[str, ...] | None = None
    extra: tuple[str, ...] = ()
    rows: int = PART
    name: str = ""

    def __len__(self) -> int:
        return self.parts[-1].first + self.parts[-1].stop - self.parts[-1].start

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files, in order."""
        path = Path(self.path)
        found = (path,) if path.is_file() else tuple(sorted(path.glob("**/*.parquet")))
        if not found:
            raise DurometerError(f"'{path}': expected a Parquet file, or a folder with some")
        return found

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts, planned from the files' footers; raises `DurometerError` where the files have
        different columns.
        """
        made, first = [], 0
        columns = self._columns(self.files[0])
        for file in self.files:
            other = set(columns) ^ set(self._columns(file))
            if other:
                raise DurometerError(
                    f"'{file}' and '{self.files[0]}' are no one table: {sorted(other)[0]} is in "
                    "one of them only"
                )
            about = _opened(file).metadata
            for group in range(about.num_row_groups):
                n = about.row_group(group).num_rows
                for start in range(0, n, self.rows):
                    stop = min(start + self.rows, n)
                    made.append(Part(file, group, start, stop, first + start))
                first += n
        if not made:
            raise DurometerError("the data set is empty: there is nothing to evaluate")
        return tuple(made)

    @cached_property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes, from all files; None where the labels are class indices."""
        import pyarrow as pa

        if self.classes is not None:
            return self.classes
        kind = self._type(self.target)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return None
        seen: set[str] = set()
        for file in self.files:
            with _sound(file):
                for batch in _opened(file).iter_batches(self.rows, columns=[self.target]):
                    column = batch.column(0)
                    if column.null_count:
                        raise DurometerError(
                            f"column '{self.target}' has missing labels; drop those rows"
                        )
                    seen |= {str(v) for v in column.unique().to_pylist()}
        return tuple(sorted(seen))

    def _type(self, column: str) -> Any:
        schema = _opened(self.files[0]).schema_arrow
        if column not in schema.names:
            raise DurometerError(
                f"no column '{column}' in '{self.files[0]}'{nearest(column, schema.names)}"
            )
        return schema.field(column).type

    def part(self, k: int) -> Dataset:
        """Reads one part.

        Args:
            k: Its number, from 0.

        Returns:
            A `Dataset` of its rows.

        Raises:
            DurometerError: The file is damaged, or has changed since the evaluation began.
        """
        part = self.parts[k]
        # Known once the run has a hash of its data: a worker's rows must be the hashed ones.
        digest = self.__dict__.get("digests", {}).get((part.file, part.group))
        frame = _read(part, self.rows, digest)
        return self._dataset(frame, np.arange(part.stop - part.start) + part.first)

    def head(self) -> Dataset:
        """About a thousand rows from all over the files, with which a model is checked before the
        run.
        """
        import pandas as pd

        groups = [p for p in self.parts if p.start == 0]
        at = np.unique(np.linspace(0, len(groups) - 1, PROBED).astype(int)).tolist()
        each = PROBED * EACH // len(at)
        frames, ids = [], []
        for part in (groups[k] for k in at):
            with _sound(part.file):
                batch = next(_opened(part.file).iter_batches(each, row_groups=[part.group]))
                frames.append(batch.to_pandas())
            ids.append(np.arange(len(batch)) + part.first)
        return self._dataset(pd.concat(frames, ignore_index=True), np.concatenate(ids))

    def those(self, ids: np.ndarray) -> Dataset:
        """The rows with the given ids, in the order of the files; reads all files once.

        Args:
            ids: The ids, as an array.
        """
        import pandas as pd

        wanted, frames, found = {str(i) for i in ids.tolist()}, [], []
        for part in self.parts:
            frame = _read(part, self.rows)
            places = np.arange(part.stop - part.start) + part.first
            own = frame[self.ids].to_numpy() if self.ids else places
            kept = np.array([str(i) in wanted for i in own.tolist()], bool)
            frames.append(frame[kept])
            found.append(places[kept])
        return self._dataset(pd.concat(frames, ignore_index=True), np.concatenate(found))

    def _dataset(self, frame: Any, ids: np.ndarray) -> Dataset:
        extra = [*self.extra, *([self.ids] if self.ids else [])]
        return Dataset(
            frame,
            ids=frame[self.ids].to_numpy() if self.ids else ids,
            schema=self.schema,
            classes=self.labels,
            name=self.name or Path(self.path).stem,
            target=self.target,
            extra=extra,
        )

    def _columns(self, file: Path) -> list[str]:
        import pyarrow as pa

        found = _opened(file).schema_arrow
        for field in found:
            named = field.name in (self.target, self.ids, *self.extra)
            number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            if self.schema is None and not (named or number or pa.types.is_boolean(field.type)):
                raise DurometerError(
                    f"column '{field.name}' holds {field.type}: give a schema= that says its "
                    f"values, or leave it out of the features: extra=['{field.name}']"
                )
        return [f"column '{name}'" for name in found.names]

    @cached_property
    def hash(self) -> str:
        """A digest of the contents of the files and of how they are read."""
        kinds = [(f.name, str(f.type)) for f in _opened(self.files[0]).schema_arrow]
        made = (kinds, self.target, self.ids, self.extra, self.labels)
        content = repr((list(self.digests.values()), made)).encode()
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @cached_property
    def digests(self) -> dict[tuple[Path, int], str]:
        """A digest of the bytes of each row group, by (file, number of the row group); reads all
        files once.
        """
        groups = dict.fromkeys((part.file, part.group) for part in self.parts)
        return {(file, group): _digest(file, group) for file, group in groups}

    def __getstate__(self) -> dict[str, Any]:
        _ = self.parts, self.labels  # the plan is the driver's: a worker must not make another
        return self.__dict__


@contextmanager
def _sound(file: Path, group: int | None = None) -> Iterator[None]:
    """A file that is damaged raises half a dozen kinds: of the disk, of Arrow, of JSON."""
    try:
        yield
    except (DurometerError, MemoryError):
        raise
    except Exception as error:
        where = f"'{file}'" if group is None else f"'{file}', row group {group},"
        said = str(error) or "it ends too early"
        raise DurometerError(f"{where} cannot be read as Parquet: {said}") from None


def _opened(file: Path) -> Any:
    import pyarrow.parquet as pq

    with _sound(file):
        opened = pq.ParquetFile(file)
        _ = opened.schema_arrow.names  # names may be no text
    return opened


def _digest(file: Path, group: int) -> str:
    """Of the bytes of a row group's columns, which need not lie side by side."""
    about, digest = _opened(file).metadata.row_group(group), hashlib.blake2b(digest_size=8)
    with _sound(file, group), file.open("rb") as content:
        for column in (about.column(i) for i in range(about.num_columns)):
            left = column.total_compressed_size
            content.seek(column.dictionary_page_offset or column.data_page_offset)
            while block := content.read(min(left, 1 << 20)):
                digest.update(block)
                left -= len(block)
    return digest.hexdigest()


@dataclass
class _Reading:
    """A row group half read: parts are mostly asked for in order, and each is decoded once."""

    file: Path
    written: int
    group: int
    rows: int
    batches: Iterator[Any]
    next: int = 0


_reading: list[_Reading] = []  # one at a time


def _read(part: Part, rows: int, digest: str | None = None) -> Any:
    """The cells of a part, as a frame; refuses a row group of another digest."""
    k = part.start // rows
    now = _reading[0] if _reading else None
    written = part.file.stat().st_mtime_ns if part.file.exists() else 0
    asked = (part.file, written, part.group, rows)
    if now is None or (now.file, now.written, now.group, now.rows) != asked or now.next > k:
        _reading.clear()
        opened = _opened(part.file)
        if digest is not None and _digest(part.file, part.group) != digest:
            raise DurometerError(
                f"'{part.file}' has changed since the evaluation began: its rows are no longer "
                "those it is about; begin again"
            )
        now = _Reading(*asked, opened.iter_batches(rows, row_groups=[part.group]))
        _reading[:] = [now]
    try:
        with _sound(part.file, part.group):
            for _ in range(now.next, k + 1):
                batch = next(now.batches)
                now.next += 1
            return batch.to_pandas()
    except DurometerError:
        _reading.clear()
        raise
