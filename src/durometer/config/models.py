"""Models from files, as the [model] table of a run file says: by kind, or by the file's ending.

    [model]
    path = "model.ubj"          # or python = "file.py:name", onnx = ..., pickle = ..., ...
    name = "credit, March"

What a reader would get wrong: `pickle`, `torchscript` and `python` run code that is in the file
they name. They are for files you trust; the others only hold a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

from durometer.config.build import at
from durometer.config.model_files import CHECKS
from durometer.config.positions import Path as Place
from durometer.config.python_files import file_of, load
from durometer.config.sources import there
from durometer.core.durable_files import source_digests
from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.model.answers import AnswerKind
from durometer.model.classifier import Classifier, wrap
from durometer.model.remote import Endpoint
from durometer.model.text import from_folder

_HARMLESS = ("numpy.dtype",)  # types without code that scikit-learn's own models hold


@dataclass(frozen=True)
class Request:
    """How a model behind `url` is asked: the table [model.request], each key as in `Endpoint`.

    Args:
        headers: HTTP headers; `${NAME}` in a value is read from the environment.
        encode: "file.py:name", a function that makes the body of a request from rows.
        decode: "file.py:name", a function that reads the answers from a reply.
        batch: Rows per request.
        timeout: Seconds until a request is given up.
        retries: How often a request is repeated.
        backoff: Seconds before the first repetition; they double.
        rate: Requests per second, at most. Left out: no limit.
        questions: Rows that may be sent in total. Left out: no limit.
        seconds: Seconds that requests may take in total. Left out: no limit.
    """

    headers: Mapping[str, str] | None = None
    encode: str | None = None
    decode: str | None = None
    batch: int = 256
    timeout: float = 30.0
    retries: int = 5
    backoff: float = 0.5
    rate: float | None = None
    questions: int | None = None
    seconds: float | None = None

    def endpoint(self, folder: Path, url: str) -> Endpoint:
        given = {f.name: getattr(self, f.name) for f in fields(self)} | {
            "headers": dict(self.headers or {}),
            "encode": self.encode and load(folder, self.encode),
            "decode": self.decode and load(folder, self.decode),
        }
        return Endpoint(url, **given)


@dataclass(frozen=True)
class Model:
    """Where the model comes from (exactly one place), and what it answers.

    Trust the file you name: python, pickle and torchscript run what is in it.

    Args:
        path: A file whose kind its ending tells.
        python: "file.py:name", a model, or a function without parameters that returns one.
        onnx: An ONNX file.
        pickle: A file written by pickle or joblib.
        skops: A file written by skops.
        xgboost: An XGBoost model, JSON or UBJ.
        lightgbm: A LightGBM model, text.
        catboost: A CatBoost model, cbm.
        torchscript: A file written by `torch.jit.save`.
        exported: A file written by `torch.export.save`.
        hugging_face: A folder written by `save_pretrained`: a classifier and its tokeniser.
        url: The address of a model behind HTTP.
        demo: A small model that is trained on the spot: "mnist", "gtsrb", "orl", "url" (a forest)
            or "url_net".
        request: How the model behind `url` is asked: a table, see below.
        answers: What the model returns, as in `wrap`: "logits", "probabilities", "labels" ...
            Left out: found out by asking.
        name: What reports call the model.
        score: The accuracy you know it to have; a run that finds another one is flagged.
        inputs: What a function takes: "tensor", "integers", "array", "frame" (DataFrame), "mapping"
            (columns by name) or "text" (a list of sentences). Left out: found out.
        gradients: Makes an ONNX file differentiable, where torch knows its operators.
        trusted: Names of types in a skops file that skops does not know.
    """

    path: str | None = None

    python: str | None = None
    onnx: str | None = None
    pickle: str | None = None
    skops: str | None = None
    xgboost: str | None = None
    lightgbm: str | None = None
    catboost: str | None = None
    torchscript: str | None = None
    exported: str | None = None
    hugging_face: str | None = None
    url: str | None = None
    demo: str | None = None
    request: Request | None = None
    answers: AnswerKind | None = None
    name: str = ""
    score: float | None = None
    inputs: Literal["tensor", "integers", "array", "frame", "mapping", "text"] | None = None
    gradients: bool = False
    trusted: Sequence[str] = ()

    @property
    def kind(self) -> str:
        given = [k for k in _LOADERS if getattr(self, k) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise DurometerError(f"model needs exactly one of {', '.join(_LOADERS)}; got {got}")
        return given[0]

    def check(self, folder: Path, place: Place = ()) -> None:
        with at(place):
            kind = self.kind
        with at((*place, kind)):
            value = getattr(self, kind)
            if kind == "demo":
                _demo_named(value)
                return
            if self.request is not None and kind != "url":
                raise DurometerError(f"request: {kind} = '{value}' is not asked over a network")
            if kind == "url":
                Endpoint(value, dict((self.request or Request()).headers or {}))
                return
            file = file_of(value) if kind == "python" else value
            is_folder = kind == "hugging_face" and (folder / file).is_dir()
            if not (is_folder or there(folder / file)):
                raise DurometerError(f"{kind} = '{value}': no such file in {folder.resolve()}")
            if kind == "path" and Path(value).suffix not in _ENDINGS:
                known = ", ".join(_ENDINGS)
                raise DurometerError(
                    f"path = '{value}': expected a file of {known}; or name its kind"
                )

    def sources(self, folder: Path = Path()) -> dict[str, str]:
        """SHA-256 of the file, or the files, that hold the model; none where it is no file."""
        kind, value = self.kind, getattr(self, self.kind)
        if kind in ("demo", "url"):
            return {}
        return source_digests(folder / (file_of(value) if kind == "python" else value), "model")

    def load(self, folder: Path = Path()) -> Classifier:
        kind, value = self.kind, getattr(self, self.kind)
        if kind == "path":
            kind = _ENDINGS[Path(value).suffix]
        load = _opened(kind, partial(_skops, self.trusted)) if kind == "skops" else _LOADERS[kind]
        if kind == "url":
            model = (self.request or Request()).endpoint(folder, value)
        else:
            model = load(folder, value)
        own = model.name if isinstance(model, Classifier) else ""
        try:
            return wrap(
                model, self.answers, inputs=self.inputs, name=self.name or own or _called(value),
                score=self.score, gradients=self.gradients,
            )  # fmt: skip
        except (DurometerError, KeyboardInterrupt):
            raise
        except Exception as error:  # a library that opens a file and cannot say what is in it
            said = f"{type(error).__name__}: {error}"
            raise DurometerError(f"the model of '{value}' cannot be asked: {said[:300]}") from error


def named(value: str) -> tuple[str, str]:
    """What a command line calls a model, as a key of [model] and its value.

    >>> named("net.py:net"), named("loans.ubj")
    (('python', 'net.py:net'), ('path', 'loans.ubj'))
    """
    if ".py:" in value:
        return "python", value
    if value.startswith(("http://", "https://")):
        return "url", value
    return ("hugging_face" if Path(value).is_dir() else "path"), value


def _called(value: str) -> str:
    """A name for reports, where none is given: of the object, else of its file.

    >>> _called("models/own.py:loan_net"), _called("models/loans.onnx"), _called("mnist")
    ('loan_net', 'loans', 'mnist')
    """
    if "://" in value:
        return Endpoint(value).place
    return value.rpartition(":")[2] if ".py:" in value else Path(value).stem


def _content(path: Path) -> str:
    """What a file looks like, in a word; empty where it could be anything."""
    with path.open("rb") as file:
        start = file.read(512)
    if start.lstrip().startswith(b"{"):
        return "xgboost" if b"learner" in start or b"version" in start else "JSON"
    for magic, kind in (
        (b"{L", "xgboost"), (b"tree", "lightgbm"), (b"CBM1", "catboost"), (b"\x80", "pickle"),
    ):  # fmt: skip
        if start.startswith(magic):
            return kind
    if start.startswith(b"PK"):
        import zipfile

        try:
            inside = zipfile.ZipFile(path).namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return "a damaged archive"
        if any("/code/" in name for name in inside):
            return "torchscript"
        if any(name.endswith("data.pkl") for name in inside):
            return "a file of torch.save (load it in Python: python = 'file.py:name')"
        if any("model" in name and name.endswith(".json") for name in inside):
            return "exported"
        return "skops" if "schema.json" in inside else ""
    return ""


def _opened(kind: str, read: Callable[[Path], Any]) -> Callable[[Path, str], Any]:
    """A reader whose failure says what the file looks like instead."""

    def load(folder: Path, value: str) -> Any:
        path = folder / value
        try:
            if kind in CHECKS:
                CHECKS[kind](path)
            return read(path)
        except (DurometerError, KeyboardInterrupt):
            raise
        except ImportError as error:
            raise Unsupported(f"'{path}' needs {error.name}: pip install {error.name}") from None
        except Exception as error:
            found = _content(path)
            seems = f"; it looks like {found}" if found and found != kind else ""
            said = str(error).strip().splitlines()
            raise DurometerError(
                f"'{path}' cannot be read as {kind}{seems}: {type(error).__name__}: "
                f"{said[0] if said else ''}"
            ) from error

    return load


def _pickle(path: Path) -> Any:
    import joblib

    return joblib.load(path)  # reads plain pickles as well


def _skops(trusted: Sequence[str], path: Path) -> Any:
    from skops import io

    odd = [t for t in io.get_untrusted_types(file=path) if t not in (*_HARMLESS, *trusted)]
    if odd:
        raise DurometerError(
            f"'{path}' holds {', '.join(odd)}, which skops does not know; if you trust the file, "
            f"say so: trusted = {[*trusted, *odd]}".replace("'", '"')
        )
    return io.load(path, trusted=[*_HARMLESS, *trusted])


def _xgboost(path: Path) -> Any:
    import xgboost

    model = xgboost.XGBClassifier()
    model.load_model(path)
    return model


def _lightgbm(path: Path) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=str(path))


def _catboost(path: Path) -> Any:
    import catboost

    return catboost.CatBoostClassifier().load_model(str(path))


def _torchscript(path: Path) -> Any:
    import torch

    return torch.jit.load(str(path))  # type: ignore[no-untyped-call]


def _exported(path: Path) -> Any:
    import torch

    return torch.export.load(str(path)).module()


def _demo_named(name: str) -> Callable[[], Any]:
    from durometer.demo.models import MODELS

    if name not in MODELS:
        raise DurometerError(f"demo = '{name}': no such model{nearest(name, MODELS)}")
    return MODELS[name]


_LOADERS: dict[str, Callable[[Path, str], Any]] = {
    "path": lambda folder, value: folder / value,
    "python": load,
    "onnx": lambda folder, value: folder / value,
    "pickle": _opened("pickle", _pickle),
    "skops": _opened("skops", partial(_skops, ())),
    "xgboost": _opened("xgboost", _xgboost),
    "lightgbm": _opened("lightgbm", _lightgbm),
    "catboost": _opened("catboost", _catboost),
    "torchscript": _opened("torchscript", _torchscript),
    "exported": _opened("exported", _exported),
    "hugging_face": lambda folder, value: from_folder(folder / value),
    "url": lambda folder, value: Endpoint(value),
    "demo": lambda folder, value: _demo_named(value)(),
}
_ENDINGS = {
    ".joblib": "pickle", ".pkl": "pickle", ".pickle": "pickle", ".skops": "skops",
    ".json": "xgboost", ".ubj": "xgboost", ".txt": "lightgbm", ".cbm": "catboost",
    ".onnx": "onnx", ".pt": "torchscript", ".pt2": "exported",
}  # fmt: skip
KINDS = tuple(_LOADERS)
