"""Adapters: how each kind of model is called, and what its answer means.

Estimators are asked for probabilities, else scores, else labels; Boosters for margins,
because what they predict is a label or a raw score with some objectives; ONNX graphs get each
input they declare, in the type they declare.

What a reader would get wrong: an adapter made here knows no columns yet. `frames.fitted` makes it
anew for the data at hand, so that rows reach the model by name and in the types it was fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.columns import Columns
from durometer.model import text
from durometer.model.answers import AnswerKind
from durometer.model.classifier import Classifier
from durometer.model.frames import Rows, form
from durometer.model.thresholds import threshold_of

INPUTS = ("tensor", "integers", "array", "frame", "mapping", "text")


def adapt(
    model: Any,
    answers: AnswerKind | None = None,
    inputs: str | None = None,
    columns: Columns | None = None,
) -> Classifier:
    """A model of any kind, asked with rows that have these columns."""
    if isinstance(model, type):
        raise DurometerError(f"{model.__name__} is a class; give a model made by it")
    if inputs == "text" or text.reads_text(model):
        return text.adapt(model, answers)
    if isinstance(model, torch.nn.Module):
        kind = f"torch {type(model).__name__}"
        return _function(_moved(model), kind, answers, inputs, columns, model)
    if isinstance(model, str | Path):
        from durometer.model.onnx import onnx

        return onnx(Path(model), answers, columns)
    root = type(model).__module__.split(".")[0]
    if root == "xgboost" and type(model).__name__ == "Booster":
        return _booster_xgboost(model, columns)
    if root == "lightgbm" and type(model).__name__ == "Booster":
        return _booster_lightgbm(model, columns)
    if root == "catboost" and hasattr(model, "predict") and not hasattr(model, "predict_proba"):
        raise Unsupported("a CatBoost model without classes: wrap a CatBoostClassifier")
    if all(hasattr(model, name) for name in ("start", "base", "adapt")):
        raise DurometerError(
            f"{type(model).__name__} is a defender, not a model: play it as a game, "
            f"du.Transductive({type(model).__name__}(...), batch=128)"
        )
    if hasattr(model, "predict"):
        return next(offers(model, columns))
    if callable(model):
        kind = f"callable {getattr(model, '__name__', type(model).__name__)}"
        return _function(model, kind, answers, inputs, columns, model)
    raise DurometerError(
        f"cannot wrap a {type(model).__name__}: expected a torch module, a fitted scikit-learn / "
        "XGBoost / LightGBM / CatBoost classifier, a path to an ONNX file, or a callable"
    )


def _function(
    call: Callable[[Any], Any],
    kind: str,
    answers: AnswerKind | None,
    inputs: str | None,
    columns: Columns | None,
    source: Any,
) -> Classifier:
    """A module or function, with its inputs in the form it takes."""
    takes = inputs or "tensor"
    module = source if isinstance(source, torch.nn.Module) else None
    return Classifier(
        taking(takes, call, columns),
        kind,
        takes == "tensor",
        answers or "logits",
        module=module,
        source=source,
        slack=1e-5,
        takes=takes,
        columns=columns,
    )


def taking(takes: str, call: Callable[[Any], Any], columns: Columns | None) -> Callable[..., Any]:
    """A function of tensors, made of one that takes something else."""
    if takes == "tensor":
        return call
    if takes == "integers":
        return lambda x: call(whole(x, torch.int64))
    if takes == "array":
        return as_arrays(call, flat=False)

    def framed(x: np.ndarray) -> Any:
        if columns is None:
            raise DurometerError(
                f"the model takes a {takes}: give the data as a table, or names=[...]"
            )
        frame = columns.frame(x)
        return call(frame if takes == "frame" else {c: frame[c].to_numpy() for c in frame})

    return as_arrays(framed, flat=False)


def whole(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Inputs as integers; what is none is refused, not cut off."""
    if not bool((x == x.round()).all()):
        wrong = float(x[x != x.round()].flatten()[0])
        raise DurometerError(
            f"the model takes integers, and {wrong:g} is none; move in a schema's space, with "
            "features of kind 'integer' or 'category'"
        )
    return x.to(dtype)


def _moved(module: torch.nn.Module) -> Callable[[Tensor], Any]:
    first = next(module.parameters(), None)

    def call(x: Tensor) -> Any:
        if first is None:
            return module(x)
        return module(x.to(first.device, first.dtype) if x.is_floating_point() else x)

    return call


def as_arrays(function: Callable[[np.ndarray], Any], flat: bool = True) -> Callable[[Tensor], Any]:
    """A function of arrays, as one of tensors."""

    def call(x: Tensor) -> Any:
        rows = x.detach().cpu()
        return function((rows.reshape(len(rows), -1) if flat else rows).numpy())

    return call


def offers(model: Any, columns: Columns | None = None) -> Iterator[Classifier]:
    """What an estimator can be asked for, the most telling first; last, its labels."""
    kind = f"{type(model).__module__.split('.')[0]} {type(model).__name__}"
    labels = _labels(model, kind)
    names = tuple(str(c) for c in labels)
    rows = form(model, columns)

    def ask(name: str, x: np.ndarray) -> Any:
        return getattr(model, name)(rows(x))

    def votes(x: np.ndarray) -> np.ndarray:
        predicted = np.asarray(model.predict(rows(x))).reshape(-1, 1)
        return np.asarray(predicted == labels[None], dtype=float)

    def made(call: Callable[[np.ndarray], Any], answers: AnswerKind) -> Classifier:
        return Classifier(
            as_arrays(call), kind, False, answers, names, source=model, takes="own", columns=columns
        )

    kinds: tuple[tuple[str, AnswerKind], ...] = (
        ("predict_proba", "probabilities"), ("decision_function", "logits"),
    )  # fmt: skip
    rule = threshold_of(model)
    if rule is not None:
        yield made(lambda x: rule.margins(rows(x)), "logits")
    for name, answers in kinds:
        if hasattr(model, name):
            yield made(partial(ask, name), answers)
    yield made(votes, "labels")


def _labels(model: Any, kind: str) -> np.ndarray:
    try:
        labels = model.classes_
    except AttributeError:
        raise _no_classes(model, kind) from None
    if isinstance(labels, list):
        raise Unsupported(
            f"{kind} predicts {len(labels)} labels for a row, and one class per row is evaluated; "
            "wrap a function that answers for one of the labels, with y[:, j] for its data"
        )
    return np.asarray(labels)


def _no_classes(model: Any, kind: str) -> DurometerError:
    """Why an estimator has no classes, and what to do."""
    try:
        purpose = model.__sklearn_tags__().estimator_type
    except Exception:  # no estimator of scikit-learn's, or an old one
        purpose = getattr(model, "_estimator_type", None)
    if purpose == "regressor":
        return Unsupported(
            f"{kind} is a regressor: it gives numbers, and robustness is evaluated for classes. "
            "Wrap the decision that is made by them, positive for class 1, e.g. "
            "du.wrap(lambda x: model.predict(x) - 0.5, inputs='frame')"
        )
    if purpose == "outlier_detector":
        return Unsupported(
            f"{kind} is an anomaly detector without classes. Wrap its score, positive for class 1 "
            "(no anomaly): du.wrap(lambda x: model.decision_function(x), inputs='array'), with 0 "
            "for anomalies and 1 for the others in y"
        )
    if purpose in ("clusterer", "transformer"):
        return Unsupported(f"{kind} is a {purpose}, not a classifier: it predicts no classes")
    return DurometerError(
        f"{kind} has no classes: it is not fitted, or not a classifier; call fit(X, y) first"
    )


def _booster_xgboost(model: Any, columns: Columns | None) -> Classifier:
    objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    _classifies("XGBoost", objective, ("binary:", "multi:", "reg:logistic"))
    rows = form(model, columns)

    def margins(x: np.ndarray) -> Any:
        return model.inplace_predict(rows(x), predict_type="margin")

    return _booster(margins, "XGBoost Booster", model, columns)


def _booster_lightgbm(model: Any, columns: Columns | None) -> Classifier:
    head = model.model_to_string(num_iteration=1).splitlines()
    said = [line.removeprefix("objective=") for line in head if line.startswith("objective=")]
    _classifies("LightGBM", said[0] if said else "", ("binary", "multiclass", "cross_entropy"))
    rows: Rows = form(model, columns)

    def scores(x: np.ndarray) -> Any:
        return model.predict(rows(x), raw_score=True)

    return _booster(scores, "LightGBM Booster", model, columns)


def _booster(call: Rows, kind: str, model: Any, columns: Columns | None) -> Classifier:
    return Classifier(
        as_arrays(call), kind, False, "logits", source=model, takes="own", columns=columns
    )


def _classifies(library: str, objective: str, known: tuple[str, ...]) -> None:
    if not objective.startswith(known):
        raise Unsupported(
            f"a {library} Booster with objective '{objective or 'custom'}': not known to classify; "
            "if its scores are logits, give a function that returns them"
        )
