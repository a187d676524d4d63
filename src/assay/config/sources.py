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

from assay.config.build import Wrong, at
from assay.config.positions import Path as Place
from assay.config.registry import find
from assay.data import Dataset
from assay.errors import AssayError, nearest


@dataclass(frozen=True)
class Data:
    """A bundled data set by `name`, or a file at `path` (.npz, .csv, .csv.gz, .parquet).

    With a path, `name` is what reports call it. `where` keeps classes, e.g. {y = [1, "stop"]}, or
    rows by any column of a table, {purpose = "car"}; `rows` then draws that many, the same ones for
    every seed. `label` and `ids` name columns of a table (arrays y and ids of an .npz), `scale`
    multiplies the inputs ("1/255" for bytes), `schema` is a file that says what the columns of a
    table are; `options` go to the data set's own function.
    """

    name: str | None = None
    path: str | None = None
    split: Literal["train", "val", "test"] = "test"
    rows: int | None = None
    where: Mapping[str, Any] | None = None
    label: str = "y"
    ids: str | None = None
    scale: float = 1.0
    schema: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, folder: Path, place: Place = ()) -> None:
        if self.name is None and self.path is None:
            raise Wrong(place, "data needs either a name (of a bundled set) or a path (of a file)")
        with at((*place, "name")):
            if self.name is not None and self.path is None:
                find("datasets", self.name)
        with at((*place, "path")):
            if self.path is not None:
                _check_file(folder, self.path)
        if self.schema is not None and self.path is None:
            raise Wrong((*place, "schema"), f"{self.name} comes with its own schema, if it has one")
        if self.schema is not None and not _there(folder / self.schema):
            said = f"schema = '{self.schema}': no such file in {folder.resolve()}"
            raise Wrong((*place, "schema"), said)
        if self.rows is not None and self.rows < 1:
            raise Wrong((*place, "rows"), f"rows = {self.rows}: expected at least 1")

    def load(self, folder: Path = Path()) -> Dataset:
        if self.path is None:
            assert self.name is not None
            splits = find("datasets", self.name)(**self.options)
            data: Dataset | None = getattr(splits, self.split)
            if data is None:
                raise AssayError(f"split = '{self.split}': {self.name} has no such part")
        else:
            file = folder / str(self.path)
            schema = self.schema and str(folder / self.schema)
            data = _READERS[_suffix(file)](file, replace(self, schema=schema))
        if self.where is not None:
            data = data.where(**self.where)
        return data if self.rows is None else data.sample(self.rows)


def _there(file: Path) -> bool:
    """Is it a file? What cannot be a name is the name of none."""
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def _check_file(folder: Path, path: str) -> None:
    if not _there(folder / path):
        raise AssayError(f"path = '{path}': no such file in {folder.resolve()}")
    if _suffix(Path(path)) not in _READERS:
        raise AssayError(f"path = '{path}': expected a file of {', '.join(_READERS)}")


def _npz(file: Path, source: Data) -> Dataset:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {k: archive[k] for k in archive.files}
    except Exception as error:  # a cut archive raises half a dozen kinds
        said = str(error) or "it ends too early"
        raise AssayError(f"'{file}' cannot be read as an .npz file of arrays: {said}") from None
    wanted = ["x", source.label, *([source.ids] if source.ids else [])]
    for key in wanted:
        if key not in arrays:
            raise AssayError(f"'{file}' has no array '{key}'{nearest(key, arrays)}")
    classes = arrays["classes"].tolist() if "classes" in arrays else None
    return _dataset(
        arrays["x"], arrays[source.label], arrays.get(source.ids or "ids"), source, file, classes
    )


def _suffix(file: Path) -> str:
    return "".join(file.suffixes[-2:]) if file.suffix == ".gz" else file.suffix


def _table(file: Path, source: Data) -> Dataset:
    import pandas as pd

    try:
<<<<<<< HEAD
        frame = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
    except Exception as error:  # of pandas or Arrow, which have kinds of their own
        said = str(error) or type(error).__name__
        raise AssayError(f"'{file}' cannot be read as a table: {said}") from None
=======
        frame = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise AssayError(f"'{file}' cannot be read as a table: {error}") from None
>>>>>>> e6403ca (Model files by kind; tables in files are the user's own)
    for column in (source.label, source.ids):
        if column is not None and column not in frame:
            raise AssayError(f"'{file}' has no column '{column}'{nearest(column, map(str, frame))}")
    schema = None
    if source.schema is not None:
        from assay.tables.schema import Schema

        schema = Schema.read(source.schema)
    named = source.name or file.name
    made = Dataset(frame, target=source.label, ids=source.ids, schema=schema, name=named)
    if source.scale == 1.0:
        return made
    if made.columns is not None and not made.columns.numeric:
        raise AssayError(f"scale = {source.scale}: '{file}' has columns that are no numbers")
    return replace(made, x=made.x * source.scale, table=None)  # no longer the table it was


def _dataset(x: Any, y: Any, ids: Any, source: Data, file: Path,
             classes: Any = None) -> Dataset:  # fmt: skip
    if not np.issubdtype(y.dtype, np.number):  # names: their sorted order is the classes' order
        classes, y = np.unique(y.astype(str), return_inverse=True)
    if source.scale != 1.0:
        x = (np.asarray(x) * source.scale).astype(x.dtype if x.dtype.kind == "f" else np.float32)
    names = None if classes is None else tuple(str(c) for c in classes)
    return Dataset(x, y, ids=ids, classes=names, name=source.name or file.name)


<<<<<<< HEAD
_READERS = {".npz": _npz, ".csv": _table, ".parquet": _table}


@dataclass(frozen=True)
class Model:
    """A model from exactly one place; `outputs` says what it returns ("logits", "probabilities").

    `python`: "file.py:name", an object or a function without parameters that returns it. `onnx`,
    `pickle` (also joblib) and `torchscript`: a file. `demo`: a small model that is trained on the
    spot. Trust the file you name: python, pickle and torchscript run what is in it.
    """

    python: str | None = None
    onnx: str | None = None
    pickle: str | None = None
    torchscript: str | None = None
    demo: str | None = None
    outputs: Literal["logits", "probabilities"] | None = None

    @property
    def kind(self) -> str:
        given = [k for k in _LOADERS if getattr(self, k) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise AssayError(f"model needs exactly one of {', '.join(_LOADERS)}; got {got}")
        return given[0]

    def check(self, folder: Path, place: Place = ()) -> None:
        with at(place):
            kind = self.kind
        with at((*place, kind)):
            value = getattr(self, kind)
            if kind == "demo":
                _demo_named(value)
                return
            file, colon, name = value.rpartition(":") if kind == "python" else (value, "", "")
            if kind == "python" and not (colon and name.isidentifier() and file.endswith(".py")):
                raise AssayError(f"python = '{value}': expected 'file.py:name'")
            if not _there(folder / file):
                raise AssayError(f"{kind} = '{value}': no such file in {folder.resolve()}")

    def load(self, folder: Path = Path()) -> Classifier:
        model = _LOADERS[self.kind](folder, getattr(self, self.kind))
        return wrap(model, self.outputs)


def _python(folder: Path, value: str) -> Any:
    file, _, name = value.rpartition(":")
    path = (folder / file).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AssayError(f"python = '{value}': '{path}' cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # so that the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise AssayError(f"'{path}' cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise AssayError(f"'{path}' has no '{name}'{nearest(name, public)}")
    found = getattr(module, name)
    if inspect.isclass(found):
        needed = [p.name for p in inspect.signature(found).parameters.values() if _needed(p)]
        if needed:
            raise AssayError(
                f"python = '{value}' is a class that needs {', '.join(needed)}; name an object, or "
                "a function without parameters that makes it"
            )
        return found()
    makes = inspect.isfunction(found) and not inspect.signature(found).parameters
    return found() if makes else found


def _needed(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _pickle(folder: Path, value: str) -> Any:
    import joblib

    path = folder / value
    try:
        return joblib.load(path)  # reads plain pickles as well
    except Exception as error:
        raise AssayError(
            f"'{path}' cannot be unpickled: {type(error).__name__}: {error}"
        ) from error


def _torchscript(folder: Path, value: str) -> Any:
    import torch

    try:
        return torch.jit.load(str(folder / value))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise AssayError(f"'{folder / value}' is no TorchScript file: {error}") from None


def _demo_named(name: str) -> Callable[[], Any]:
    from assay.demo.models import MODELS

    if name not in MODELS:
        raise AssayError(f"demo = '{name}': no such model{nearest(name, MODELS)}")
    return MODELS[name]


_LOADERS: dict[str, Callable[[Path, str], Any]] = {
    "python": _python,
    "onnx": lambda folder, value: folder / value,
    "pickle": _pickle,
    "torchscript": _torchscript,
    "demo": lambda folder, value: _demo_named(value)(),
}
=======
_READERS = {".npz": _npz, ".csv": _table, ".csv.gz": _table, ".parquet": _table}
>>>>>>> e6403ca (Model files by kind; tables in files are the user's own)
