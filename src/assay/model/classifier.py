"""wrap(): every kind of classifier behind one face: inputs in the problem's units -> logits (n, C).

Torch modules are differentiable; everything else (scikit-learn, XGBoost, LightGBM, CatBoost, ONNX,
numpy callables) is a black box. Black boxes that give probabilities are turned into logits by the
logarithm, so that losses mean the same thing everywhere and the arg-max is the model's own.

What a reader would get wrong: a module is put into eval mode and its weights stop collecting
gradients only *inside* `with model.ready():`; afterwards both are as they were.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.errors import AssayError, Unsupported

_TINY = 1e-30  # a probability of 0 as a logit: about -69, below every real one


@dataclass(frozen=True, eq=False)
class Classifier:
    """A model as the library sees it; made by `wrap`, not by hand."""

    call: Callable[..., Any]
    kind: str
    differentiable: bool
    outputs: str = "logits"  # what `call` returns: "logits" or "probabilities"
    names: tuple[str, ...] | None = None  # class labels, where the model knows them
    module: Any = field(default=None, repr=False)  # the torch module, where there is one
    source: Any = field(default=None, repr=False)  # what was wrapped
    slack: float = 0.0  # relative margin below which a success may be mere rounding
    bound: bool = False  # made for one batch: row i's parameters belong to row i of that batch
    reject: int | None = None  # the class that means "I do not answer", where there is one
    reads: str = "numbers"  # what a row is: "numbers", or "words" (ids, see spaces/words.py)
    together: bool = False  # a row's answer depends on the rows it is asked with

    def logits(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """(n, C) logits on the device of `x`, in the model's own precision.

        `rows` are the places of `x` in its batch; only a bound classifier looks at them. The model
        gets a copy: it may change its input in place (`StandardScaler(copy=False)`), and `x` may be
        the user's own data.
        """
        x = x.clone()
        if self.bound:
            out = self.call(x, torch.arange(len(x), device=x.device) if rows is None else rows)
        else:
            out = self.call(x)
        out = out if isinstance(out, Tensor) else torch.as_tensor(np.asarray(out))
        if out.ndim == 1 or (out.ndim == 2 and out.shape[1] == 1):
            out = _two_columns(out.reshape(-1), self.outputs)
        if out.ndim != 2 or len(out) != len(x):
            raise AssayError(
                f"the model gave an output of shape {tuple(out.shape)} for {len(x)} inputs; "
                f"expected ({len(x)}, classes)"
            )
        if not out.is_floating_point():
            out = out.double()
        if self.outputs == "probabilities":
            out = out.clamp_min(_TINY).log()
        return out.to(x.device)

    def among(self, batch: Tensor) -> Classifier:
        """The same classifier for rows of this batch: whoever is not asked about stays in it.

        A classifier whose rows do not depend on each other is given back as it is.
        """
        if not self.together:
            return self
        return replace(self, call=partial(_complete, self.call, batch), bound=True, together=False)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Eval mode, and no gradients to weights, for as long as the block lasts."""
        if self.module is None:
            yield
            return
        modes = [(m, m.training) for m in self.module.modules()]
        wanted = [(p, p.requires_grad) for p in self.module.parameters()]
        self.module.eval()
        for p, _ in wanted:
            p.requires_grad_(False)
        try:
            yield
        finally:
            for m, mode in modes:
                m.training = mode
            for p, want in wanted:
                p.requires_grad_(want)

    @property
    def hash(self) -> str:
        """A digest of the model's parameters, or "unknown" where they cannot be read."""
        digest = hashlib.blake2b(digest_size=6)
        if self.module is not None:
            for name, value in self.module.state_dict().items():
                digest.update(name.encode())
                if isinstance(value, Tensor):
                    digest.update(
                        value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
                        if value.ndim
                        else str(value.item()).encode()
                    )
            return digest.hexdigest()
        if isinstance(self.source, Path):
            return hashlib.blake2b(self.source.read_bytes(), digest_size=6).hexdigest()
        picture = io.BytesIO()
        try:
            _Picture(picture).dump(self.source)
        except (pickle.PicklingError, TypeError, AttributeError):
            return "unknown"
        digest.update(picture.getbuffer())
        return digest.hexdigest()


def turns(rows: Tensor) -> Iterator[Tensor]:
    """Places of `rows` in groups that name each row at most once: a population asks for several."""
    order = rows.argsort(stable=True)
    rank = torch.empty_like(rows)
    place = torch.arange(len(rows), device=rows.device)
    rank[order] = place - torch.searchsorted(rows[order], rows[order])
    for turn in range(int(rank.max()) + 1 if len(rows) else 0):
        yield (rank == turn).nonzero()[:, 0]


def _complete(call: Callable[..., Any], batch: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """Answers for these rows of the batch, the others as they are."""
    answers, places = [], []
    for places_now in turns(rows):
        at = rows[places_now]
        full = batch.to(x.dtype).index_copy(0, at, x[places_now])
        answers.append(call(full)[at])
        places.append(places_now)
    found = torch.cat(answers)
    return found[torch.cat(places).argsort()]


class _Picture(pickle.Pickler):
    """A pickle that is the same each time: arrays of records field by field, because the padding
    between the fields (scikit-learn's trees have seven bytes a node) is whatever memory held."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, np.ndarray) and thing.dtype.names:
            return tuple, ([np.ascontiguousarray(thing[name]) for name in thing.dtype.names],)
        return NotImplemented


def _two_columns(out: Tensor, outputs: str) -> Tensor:
    """One score for the positive class as two classes."""
    if outputs == "probabilities":
        return torch.stack([1 - out, out], dim=1)
    return torch.stack([-out / 2, out / 2], dim=1)


def wrap(model: Any, outputs: str | None = None) -> Classifier:
    """A classifier of any kind as a `Classifier`.

    `outputs` says what the model returns, "logits" or "probabilities"; by default torch modules and
    callables are taken to give logits (`checks` flags it when they do not), others are known.

    >>> wrap(torch.nn.Linear(4, 3)).differentiable
    True
    """
    if outputs not in (None, "logits", "probabilities"):
        raise AssayError(f"outputs={outputs!r}: expected 'logits' or 'probabilities'")
    if isinstance(model, Classifier):
        return model if outputs is None else replace(model, outputs=outputs)
    if isinstance(model, type):
        raise AssayError(f"{model.__name__} is a class; give a model made by it")
    if isinstance(model, torch.nn.Module):
        return Classifier(
            _torch_call(model),
            f"torch {type(model).__name__}",
            True,
            outputs or "logits",
            module=model,
            source=model,
            slack=1e-5,
        )
    if isinstance(model, str | Path):
        return _onnx(Path(model), outputs)
    root = type(model).__module__.split(".")[0]
    if root == "xgboost" and type(model).__name__ == "Booster":
        return _booster_xgboost(model)
    if root == "lightgbm" and type(model).__name__ == "Booster":
        return _booster_lightgbm(model)
    if root == "catboost" and hasattr(model, "predict") and not hasattr(model, "predict_proba"):
        raise Unsupported("a CatBoost model without classes: wrap a CatBoostClassifier")
    if all(hasattr(model, name) for name in ("start", "base", "adapt")):
        raise AssayError(
            f"{type(model).__name__} is a defender, not a model: play it as a game, "
            f"ay.Transductive({type(model).__name__}(...), batch=128)"
        )
    if hasattr(model, "predict"):
        return _estimator(model)
    if callable(model):
        return Classifier(
            model,
            f"callable {getattr(model, '__name__', type(model).__name__)}",
            True,
            outputs or "logits",
            source=model,
            slack=1e-5,
        )
    raise AssayError(
        f"cannot wrap a {type(model).__name__}: expected a torch module, a fitted scikit-learn / "
        "XGBoost / LightGBM / CatBoost classifier, a path to an ONNX file, or a callable"
    )


def _torch_call(module: torch.nn.Module) -> Callable[[Tensor], Tensor]:
    first = next(module.parameters(), None)

    def call(x: Tensor) -> Tensor:
        out = module(x if first is None else x.to(first.device, first.dtype))
        logits: Tensor = out[0] if isinstance(out, tuple) else out
        return logits

    return call


def as_arrays(function: Callable[[np.ndarray], Any], flat: bool = True) -> Callable[[Tensor], Any]:
    """A function of arrays, as one of tensors."""

    def call(x: Tensor) -> Any:
        rows = x.detach().cpu()
        return function((rows.reshape(len(rows), -1) if flat else rows).numpy())

    return call


def _estimator(model: Any) -> Classifier:
    """scikit-learn and whatever follows its manner: probabilities, else scores, else labels."""
    return next(offers(model))


def offers(model: Any) -> Iterator[Classifier]:
    """What an estimator can be asked for, the most telling first; last, its labels as votes."""
    kind = f"{type(model).__module__.split('.')[0]} {type(model).__name__}"
    labels = _labels(model, kind)
    names = tuple(str(c) for c in labels)
    columns = getattr(model, "feature_names_in_", None)

    def framed(x: np.ndarray) -> Any:
        if columns is None:
            return x
        import pandas as pd

        return pd.DataFrame(x, columns=list(columns))

    def ask(name: str, x: np.ndarray) -> Any:
        return getattr(model, name)(framed(x))

    def votes(x: np.ndarray) -> np.ndarray:
        predicted = np.asarray(model.predict(framed(x))).reshape(-1, 1)
        return np.asarray(predicted == labels[None], dtype=float)

    for name, outputs in (("predict_proba", "probabilities"), ("decision_function", "logits")):
        if hasattr(model, name):
            call = as_arrays(partial(ask, name))
            yield Classifier(call, kind, False, outputs, names, source=model)
    yield Classifier(as_arrays(votes), kind, False, "probabilities", names, source=model)


def _labels(model: Any, kind: str) -> np.ndarray:
    try:
        labels = model.classes_
    except AttributeError:
        raise AssayError(
            f"{kind} has no classes: it is not fitted, or not a classifier; call fit(X, y) first"
        ) from None
    return np.asarray(labels)


def _booster_xgboost(model: Any) -> Classifier:
    """By its margins: what it predicts is a label or a raw score with some objectives."""
    objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    _classifies("XGBoost", objective, ("binary:", "multi:", "reg:logistic"))

    def margins(x: np.ndarray) -> Any:
        return model.inplace_predict(x, predict_type="margin")

    return Classifier(as_arrays(margins), "XGBoost Booster", False, "logits", source=model)


def _booster_lightgbm(model: Any) -> Classifier:
    """By its raw scores, for the same reason."""
    head = model.model_to_string(num_iteration=1).splitlines()
    said = [line.removeprefix("objective=") for line in head if line.startswith("objective=")]
    _classifies("LightGBM", said[0] if said else "", ("binary", "multiclass", "cross_entropy"))
    scores = partial(model.predict, raw_score=True)
    return Classifier(as_arrays(scores), "LightGBM Booster", False, "logits", source=model)


def _classifies(library: str, objective: str, known: tuple[str, ...]) -> None:
    if not objective.startswith(known):
        raise Unsupported(
            f"a {library} Booster with objective '{objective or 'custom'}': not known to classify; "
            "if its scores are logits, give a function that returns them"
        )


def _onnx(path: Path, outputs: str | None) -> Classifier:
    if not path.exists():
        raise AssayError(f"no model file at '{path}'")
    if path.suffix != ".onnx":
        raise AssayError(f"'{path}': only .onnx files can be wrapped by path; load others yourself")
    try:
        import onnxruntime
    except ImportError:
        raise Unsupported(f"'{path}' needs onnxruntime: pip install 'assay[onnx]'") from None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    dtype = np.float64 if "double" in entry.type else np.float32

    def call(x: Tensor) -> Any:
        out = session.run(None, {entry.name: x.detach().cpu().numpy().astype(dtype)})
        return next(o for o in reversed(out) if isinstance(o, np.ndarray) and o.ndim == 2)

    return Classifier(call, "ONNX", False, outputs or "logits", source=path, slack=1e-5)
