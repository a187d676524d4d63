"""Sources: where a run's data and model come from, as the [data] and [model] tables of a file say.

Nothing is opened until `load()`; what can be refused without opening anything (a missing file, two
sources at once, a name nobody knows) is refused by `check()`, before any work.

What a reader would get wrong: `pickle`, `torchscript` and `python` run code that is in the file
they name. They are for files you trust; `onnx` is the one that only holds a model.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from assay.config.build import Wrong, at
from assay.config.positions import Path as Place
from assay.config.registry import find
from assay.data import Dataset
from assay.errors import AssayError, nearest
from assay.model.classifier import Classifier, wrap


@dataclass(frozen=True)
class Data:
    """A bundled data set by `name`, or a file at `path` (.npz, .csv, .parquet).

    `where` keeps classes, e.g. {y = [1, "stop"]}; `rows` then draws that many, the same ones for
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
        if (self.name is None) == (self.path is None):
            raise Wrong(place, "data needs either a name (of a bundled set) or a path (of a file)")
        with at((*place, "name")):
            if self.name is not None:
                find("datasets", self.name)
        with at((*place, "path")):
            if self.path is not None:
                _check_file(folder, self.path)
        if self.schema is not None and self.name is not None:
            raise Wrong((*place, "schema"), f"{self.name} comes with its own schema, if it has one")
        if self.schema is not None and not _there(folder / self.schema):
            said = f"schema = '{self.schema}': no such file in {folder.resolve()}"
            raise Wrong((*place, "schema"), said)
        if self.rows is not None and self.rows < 1:
            raise Wrong((*place, "rows"), f"rows = {self.rows}: expected at least 1")
        if self.where is not None and set(self.where) != {"y"}:
            raise Wrong(
                (*place, "where"), f"where = {dict(self.where)}: expected classes: {{y = 1}}"
            )

    def load(self, folder: Path = Path()) -> Dataset:
        if self.name is not None:
            splits = find("datasets", self.name)(**self.options)
            data: Dataset | None = getattr(splits, self.split)
            if data is None:
                raise AssayError(f"split = '{self.split}': {self.name} has no such part")
        else:
            file = folder / str(self.path)
            schema = self.schema and str(folder / self.schema)
            data = _READERS[file.suffix](file, replace(self, schema=schema))
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
    if Path(path).suffix not in _READERS:
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


def _table(file: Path, source: Data) -> Dataset:
    import pandas as pd

    try:
        frame = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
    except Exception as error:  # of pandas or Arrow, which have kinds of their own
        said = str(error) or type(error).__name__
        raise AssayError(f"'{file}' cannot be read as a table: {said}") from None
    for column in (source.label, source.ids):
        if column is not None and column not in frame:
            raise AssayError(f"'{file}' has no column '{column}'{nearest(column, map(str, frame))}")
    ids = None if source.ids is None else frame[source.ids].to_numpy()
    inputs = frame.drop(columns=[c for c in (source.label, source.ids) if c is not None])
    if source.schema is not None:
        from assay.tables.schema import Schema

        schema = Schema.read(source.schema)
        made = _dataset(schema.tensor(inputs), frame[source.label].to_numpy(), ids, source, file)
        return replace(made, schema=schema)
    text = [str(c) for c in inputs if not pd.api.types.is_numeric_dtype(inputs[c].dtype)]
    if text:
        raise AssayError(
            f"column '{text[0]}' of '{file}' is not numeric; encode text as numbers first"
        )
    return _dataset(inputs.to_numpy(dtype=float), frame[source.label].to_numpy(), ids, source, file)


def _dataset(x: Any, y: Any, ids: Any, source: Data, file: Path,
             classes: Any = None) -> Dataset:  # fmt: skip
    if not np.issubdtype(y.dtype, np.number):  # names: their sorted order is the classes' order
        classes, y = np.unique(y.astype(str), return_inverse=True)
    if source.scale != 1.0:
        x = (np.asarray(x) * source.scale).astype(x.dtype if x.dtype.kind == "f" else np.float32)
    names = None if classes is None else tuple(str(c) for c in classes)
    return Dataset(x, y, ids=ids, classes=names, name=file.name)


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
