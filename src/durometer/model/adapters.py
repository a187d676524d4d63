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
from dataclasses import replace
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
from durometer.model.classifier import Classifier, source_of
from durometer.model.frames import Rows, form, several_labels
from durometer.model.one_label import OneLabel, labels_of
from durometer.model.remote import Endpoint
from durometer.model.rules import Decided, Decision, Rule, Ruled, detector, purpose, ruled
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
    if isinstance(model, Endpoint):
        kind = f"endpoint {model.place}"
        return _function(model, kind, answers, inputs or "array", columns, model)
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
    if not isinstance(model, Ruled) and purpose(model) == "outlier_detector":
        model = detector(model)
    asked = model.estimator if isinstance(model, Ruled) else model
    shown = asked.estimator if isinstance(asked, OneLabel) else asked
    kind = f"{type(shown).__module__.split('.')[0]} {type(shown).__name__}"
    kind += f", label {asked.label}" if isinstance(asked, OneLabel) else ""
    labels = _labels(model, kind)
    names = tuple(str(c) for c in labels)
    rows = form(asked, columns)
    ruled_by = f", {model.rule.sentence}" if isinstance(model, Ruled) else ""

    def ask(name: str, x: np.ndarray) -> Any:
        return getattr(model, name)(rows(x))

    def votes(x: np.ndarray) -> np.ndarray:
        predicted = np.asarray(model.predict(rows(x))).reshape(-1, 1)
        return np.asarray(predicted == labels[None], dtype=float)

    def made(call: Callable[[np.ndarray], Any], answers: AnswerKind) -> Classifier:
        return Classifier(
            as_arrays(call),
            kind + ruled_by,
            False,
            answers,
            names,
            source=model,
            takes="own",
            columns=columns,
        )

    kinds: tuple[tuple[str, AnswerKind], ...] = (
        ("predict_proba", "probabilities"), ("decision_function", "logits"),
    )  # fmt: skip
    if isinstance(model, Ruled):
        yield made(lambda x: model.logits(rows(x)), "logits")
        yield made(votes, "labels")
        return
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
        raise several_labels(kind, len(labels))
    several = labels_of(model)
    if several is not None:
        raise several_labels(kind, several)
    return np.asarray(labels)


def _no_classes(model: Any, kind: str) -> DurometerError:
    """Why an estimator has no classes, and what to do."""
    what = purpose(model)
    if what == "regressor":
        return Unsupported(
            f"{kind} is a regressor: it gives numbers. Say what counts as a change: "
            "du.wrap(model, tolerance=10) (moves by more than 10), du.wrap(model, tolerance=0.1, "
            "relative=True), or the decision that is made by them: du.wrap(model, threshold=100)"
        )
    if what in ("clusterer", "transformer"):
        return Unsupported(f"{kind} is a {what}, not a classifier: it predicts no classes")
    return DurometerError(
        f"{kind} has no classes: it is not fitted, or not a classifier; call fit(X, y) first. If "
        "its predict gives labels: du.wrap(model.predict, inputs='frame') or inputs='array'; if it "
        "gives a score (a ranker): du.wrap(model, tolerance=0.5) or du.wrap(model, threshold=1)"
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


def decided(model: Any, rule: Rule, answers: str | None, inputs: str | None) -> Classifier:
    """A model of any kind whose score decides by a rule."""
    said = rule.sentence
    if isinstance(model, torch.nn.Module) or (callable(model) and not hasattr(model, "predict")):
        if isinstance(model, Endpoint) or inputs == "text" or text.reads_text(model):
            kind = "an endpoint" if isinstance(model, Endpoint) else "a model of texts"
            raise Unsupported(
                f"{said}: {kind} has no rule yet; wrap a function that returns logits"
            )
        if answers not in ("logits", "probabilities", "score"):
            raise DurometerError(
                f"{said}: which score? Say what the model gives: answers='probabilities' or "
                "'logits' (the cuts are probabilities of class 1) or 'score' (they have its units)"
            )
        wrong = [c for c in rule.cuts or () if answers != "score" and not 0 < c < 1]
        if wrong:
            raise DurometerError(f"{said}: {wrong[0]:g} is no probability; answers='score'?")
        made = _decided(model, rule, answers, inputs)
    elif isinstance(model, str | Path | Classifier) or type(model).__name__ == "Booster":
        kind = type(model).__name__
        raise Unsupported(
            f"{said}: a rule is not put on a {kind}; give the fitted estimator, the torch module, "
            "or a function that returns the score, with answers='score'"
        )
    else:
        if answers is not None:
            raise DurometerError(
                f"answers={answers!r}: what an estimator gives is known; leave it out"
            )
        if not hasattr(model, "predict"):
            raise DurometerError(f"cannot wrap a {type(model).__name__}")
        made = next(offers(ruled(model, rule)))
    names = made.names if rule.count == 2 else rule.names
    kind = made.kind if isinstance(made.source, Ruled) else f"{made.kind}, {said}"
    return replace(made, kind=kind, answers="logits", told=True, names=names)


def _decided(model: Any, rule: Rule, answers: str, inputs: str | None) -> Classifier:
    if isinstance(model, torch.nn.Module):
        kind = f"torch {type(model).__name__}"
        if rule.cuts is not None:
            module = Decision(model, rule, answers)
            return _function(_moved(module), kind, "logits", inputs, None, module)
        one = Decided(_moved(model), rule, answers)
        return replace(_function(one, kind, "logits", inputs, None, one), module=model)
    kind = f"callable {getattr(model, '__name__', type(model).__name__)}"
    one = Decided(model, rule, answers)
    return _function(one, kind, "logits", inputs, None, one)


def rule_behind(model: Any) -> Rule | None:
    """The rule a wrapped model decides by; None: it has none."""
    source = source_of(model)
    return source.rule if isinstance(source, Ruled | Decided | Decision) else None


def relative(model: Classifier, batch: Tensor) -> Classifier:
    """A model with a tolerance, bound to a batch (n, ...) whose answers it is measured against."""
    source = model.source
    if not isinstance(source, Ruled | Decided) or source.rule.cuts is not None:
        return model
    if isinstance(source, Ruled):
        estimator, rows = source, form(source.estimator, model.columns)

        def flat(x: Tensor) -> np.ndarray:
            x = x.detach().cpu()
            return x.reshape(len(x), -1).numpy()

        clean = estimator.scores(rows(flat(batch)))

        def asked(x: Tensor, at: Tensor) -> np.ndarray:
            return estimator.logits(rows(flat(x)), clean[at.cpu().numpy()])

        return replace(model, call=asked, bound=True, source=estimator.at(clean))
    function = source
    score: Callable[[Any], Any] = function.scores
    if model.takes != "tensor":
        score = taking(model.takes, function.scores, model.columns)
    elif not model.differentiable:
        score = as_arrays(function.scores, flat=False)
    with torch.no_grad():
        begin = score(batch.clone())

    def against(x: Tensor, at: Tensor) -> Tensor:
        return function.against(score(x), begin[at.to(begin.device)])

    return replace(model, call=against, bound=True)


def measured_against(model: Classifier, row: Tensor) -> tuple[Classifier, Classifier]:
    """A model with a tolerance, bound to one row (1, ...), and the same as a model of any rows."""
    bound = relative(model, row)

    def asked(x: Tensor) -> Any:
        return bound.call(x, torch.zeros(len(x), dtype=torch.long, device=x.device))

    return bound, replace(bound, call=asked, bound=False, source=None)
