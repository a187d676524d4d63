"""Sources: where a run's data come from, as the [data] table of a file says (models: models.py).

Nothing is opened until `load()`; what can be refused without opening anything (a missing file, two
sources at once, a name nobody knows) is refused by `check()`, before any work.

What a reader would get wrong: a table in a file is the user's own table, with its text and its
missing cells. What its columns are is for the schema to say, and the model's business to take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from durometer.config.build import Wrong, at
from durometer.config.positions import Path as Place
from durometer.config.python_files import file_of, load
from durometer.config.registry import find
from durometer.core.durable_files import source_digests
from durometer.core.errors import DurometerError, nearest
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.tables.table_io import read_table


@dataclass(frozen=True)
class Data:
    """Where the rows come from: exactly one of `name`, `path`, `python` and `parquet`.

    Args:
        name: A bundled data set, one of `durometer list datasets`. Beside another source: what
            reports call the data.
        path: A file: .npz (arrays x and y), .csv, .csv.gz or .parquet.
        python: "file.py:name", a `Dataset` or a function without parameters that makes one. It runs
            what is in the file.
        parquet: A Parquet file, or a folder of them, that is read part by part (`Parquet`).
        split: Which part of a bundled data set.
        rows: Draws that many rows, the same ones for every seed.
        where: Keeps classes, {y = [1, "stop"]}, or rows by any column, {purpose = "car"}.
        label: The column (array of an .npz) that holds the class.
        ids: The column (array of an .npz) that holds the ids of the rows.
        scale: Multiplies the inputs, e.g. "1/255" for bytes.
        schema: A file that says what the columns of a table are.
        text: The column that holds sentences, where these are the inputs.
        extra: Columns of a table that are no features; they are kept for slices.
        options: The data set's own parameters; written straight into [data], without this key.
    """

    name: str | None = None
    path: str | None = None
    python: str | None = None
    parquet: str | None = None
    split: Literal["train", "val", "test"] = "test"
    rows: int | None = None
    where: Mapping[str, Any] | None = None
    label: str = "y"
    ids: str | None = None
    scale: float = 1.0
    schema: str | None = None
    text: str | None = None
    extra: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, folder: Path, place: Place = ()) -> None:
        sources = ("path", "python", "parquet")
        given = [key for key in sources if getattr(self, key) is not None]
        if self.name is None and not given:
            raise Wrong(place, "data needs either a name (of a bundled set) or a path (of a file)")
        if len(given) > 1:
            a, b = given[:2]
            raise Wrong((*place, b), f"data come from a {a} or from {b}, not from both")
        if self.parquet is not None:
            self._check_parts(folder, place)
        with at((*place, "python")):
            if self.python is not None and not there(folder / file_of(self.python)):
                raise DurometerError(
                    f"python = '{self.python}': no such file in {folder.resolve()}"
                )
        with at((*place, "name")):
            if self.name is not None and not given:
                find("datasets", self.name)
        with at((*place, "path")):
            if self.path is not None:
                _check_file(folder, self.path)
        if self.schema is not None and self.path is None and self.parquet is None:
            raise Wrong((*place, "schema"), f"{self.name} comes with its own schema, if it has one")
        if self.schema is not None and not there(folder / self.schema):
            said = f"schema = '{self.schema}': no such file in {folder.resolve()}"
            raise Wrong((*place, "schema"), said)
        if self.text is not None and (self.schema is not None or self.path is None):
            raise Wrong((*place, "text"), "text names a column of a file of sentences: no schema")
        if self.extra and not (self.parquet or _suffix(Path(self.path or "")) in TABLES):
            raise Wrong((*place, "extra"), "extra names columns of a table: a path, or parquet")
        if self.rows is not None and self.rows < 1:
            raise Wrong((*place, "rows"), f"rows = {self.rows}: expected at least 1")

    def _check_parts(self, folder: Path, place: Place) -> None:
        """A file or a folder of them, and nothing that needs all rows at once."""
        path = folder / str(self.parquet)
        try:
            found = any(path.glob("**/*.parquet")) if path.is_dir() else path.suffix == ".parquet"
        except (OSError, ValueError):
            found = False
        if not found or not path.exists():
            raise Wrong(
                (*place, "parquet"),
                f"parquet = '{self.parquet}': expected a Parquet file, or a folder with some, in "
                f"{folder.resolve()}",
            )
        for key, usual in (("where", None), ("rows", None), ("scale", 1.0), ("text", None)):
            if getattr(self, key) != usual:
                raise Wrong(
                    (*place, key),
                    f"{key} needs all rows at once, and parquet = '{self.parquet}' is read part by "
                    "part; what fits into memory is read whole with path =",
                )

    def sources(self, folder: Path = Path()) -> dict[str, str]:
        """SHA-256 of the files that hold the rows and their schema; none of a bundled set."""
        python = self.python and file_of(self.python)
        rows = self.path or self.parquet or python
        found = source_digests(folder / rows, "data") if rows else {}
        return found | (source_digests(folder / self.schema, "schema") if self.schema else {})

    def load(self, folder: Path = Path()) -> Dataset | Parquet:
        if self.parquet is not None:
            self._check_parts(folder, ("data",))  # rows may come from the command line
            return self._parts(folder)
        data: Dataset | None
        if self.python is not None:
            data = load(folder, self.python)
            if not isinstance(data, Dataset):
                raise DurometerError(
                    f"python = '{self.python}' gives a {type(data).__name__}; expected an "
                    "du.Dataset, or a function without parameters that returns one"
                )
            data = replace(data, name=self.name) if self.name is not None else data
        elif self.path is None:
            assert self.name is not None
            splits = find("datasets", self.name)(**self.options)
            if isinstance(splits, Dataset) or not hasattr(splits, self.split):
                raise DurometerError(
                    f"name = '{self.name}' gives a {type(splits).__name__} without the part "
                    f"'{self.split}'; expected du.datasets.Splits(train, test)"
                )
            data = getattr(splits, self.split)
            if data is None:
                raise DurometerError(f"split = '{self.split}': {self.name} has no such part")
        else:
            file = folder / str(self.path)
            schema = self.schema and str(folder / self.schema)
            data = _READERS[_suffix(file)](file, replace(self, schema=schema))
        if self.where is not None:
            data = data.where(**self.where)
        return data if self.rows is None else data.sample(self.rows)

    def _parts(self, folder: Path) -> Parquet:
        schema = None
        if self.schema is not None:
            from durometer.tables.schema import Schema

            schema = Schema.read(str(folder / self.schema))
        path = folder / str(self.parquet)
        named = self.name or path.resolve().name
        data = Parquet(path, self.label, self.ids, schema, extra=self.extra, name=named)
        _ = data.parts, data.labels  # what cannot be one table is said here
        return data


def named(value: str) -> tuple[str, str]:
    """What a command line calls data, as a key of [data] and its value."""
    return ("python" if ".py:" in value else "path"), value


def there(file: Path) -> bool:
    """Is it a file? What cannot be a name is the name of none."""
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def _check_file(folder: Path, path: str) -> None:
    if not there(folder / path):
        raise DurometerError(f"path = '{path}': no such file in {folder.resolve()}")
    if _suffix(Path(path)) not in _READERS:
        raise DurometerError(f"path = '{path}': expected a file of {', '.join(_READERS)}")


def _npz(file: Path, source: Data) -> Dataset:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {k: archive[k] for k in archive.files}
    except Exception as error:  # a cut archive raises half a dozen kinds
        said = str(error) or "it ends too early"
        raise DurometerError(f"'{file}' cannot be read as an .npz file of arrays: {said}") from None
    wanted = ["x", source.label, *([source.ids] if source.ids else [])]
    for key in wanted:
        if key not in arrays:
            raise DurometerError(f"'{file}' has no array '{key}'{nearest(key, arrays)}")
    classes = arrays["classes"].tolist() if "classes" in arrays else None
    return _dataset(
        arrays["x"], arrays[source.label], arrays.get(source.ids or "ids"), source, file, classes
    )


def _suffix(file: Path) -> str:
    return "".join(file.suffixes[-2:]) if file.suffix == ".gz" else file.suffix


def _table(file: Path, source: Data) -> Dataset:
    schema, text = None, [source.label, *([source.text] if source.text else [])]
    if source.schema is not None:
        from durometer.tables.schema import Schema

        schema = Schema.read(source.schema)
        text += [f.name for f in schema.features if f.kind == "category"]
    frame = read_table(file, text)
    for column in (source.label, source.ids, source.text):
        if column is not None and column not in frame:
            raise DurometerError(
                f"'{file}' has no column '{column}'{nearest(column, map(str, frame))}"
            )
    if source.text is not None:
        texts = frame[source.text]
        missing = [i for i, text in enumerate(texts) if not isinstance(text, str)]
        if missing:
            raise DurometerError(
                f"column '{source.text}' of '{file}' holds no text in row {missing[0]}: "
                f"{texts.iloc[missing[0]]!r}"
            )
        ids = None if source.ids is None else frame[source.ids].to_numpy()
        return _dataset(texts.tolist(), frame[source.label].to_numpy(), ids, source, file)
    named = source.name or file.name
    made = Dataset(
        frame, target=source.label, ids=source.ids, schema=schema, name=named, extra=source.extra
    )
    if source.scale == 1.0:
        return made
    if made.columns is not None and not made.columns.numeric:
        raise DurometerError(f"scale = {source.scale}: '{file}' has columns that are no numbers")
    return replace(made, x=made.x * source.scale, table=None)  # no longer the table it was


def _dataset(x: Any, y: Any, ids: Any, source: Data, file: Path,
             classes: Any = None) -> Dataset:  # fmt: skip
    if not np.issubdtype(y.dtype, np.number):  # names: their sorted order is the classes' order
        classes, y = np.unique(y.astype(str), return_inverse=True)
    if source.scale != 1.0:
        x = (np.asarray(x) * source.scale).astype(x.dtype if x.dtype.kind == "f" else np.float32)
    names = None if classes is None else tuple(str(c) for c in classes)
    return Dataset(x, y, ids=ids, classes=names, name=source.name or file.name)


TABLES = (".csv", ".csv.gz", ".parquet")
_READERS = {".npz": _npz, ".csv": _table, ".csv.gz": _table, ".parquet": _table}
