"""Models fitted on data frames: asked by name, in the types they were fitted on.

`form` turns an array of rows with known columns into what the model takes: its own columns in its
own order, text as text, categories as categories. Numbers alone go as one block, which costs no
more than an array. `fitted` makes a wrapped model anew for a data set's columns and puts its
classes into the data's order.

What a reader would get wrong: a model fitted on an array knows no names. It is asked in the order
of the data's columns, and only the comparison with its own `predict` can tell whether that fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.data.columns import Columns
from durometer.model.rules import Ruled, purpose
from durometer.spaces import token_ids

if TYPE_CHECKING:
    from durometer.data.dataset import Dataset
    from durometer.model.classifier import Classifier

Rows = Callable[[np.ndarray], Any]
_COMPOSED = ("pipeline", "compose", "model_selection", "calibration")  # modules of scikit-learn


def names_of(model: Any, known: Iterable[str] = ()) -> tuple[str, ...] | None:
    """The columns a model was fitted with, None if it was fitted on an array.

    Names that only count (0, 1, 2) count as none, unless the data's own columns are called so.
    """
    model = model.estimator if isinstance(model, Ruled) else model
    try:
        found = getattr(model, "feature_names_in_", None)
    except Exception:  # xgboost: not fitted, or fitted on an array
        found = None
    if found is None and hasattr(model, "feature_names_"):  # CatBoost
        found = model.feature_names_
    if found is None and type(model).__name__ == "Booster":
        found = model.feature_name() if hasattr(model, "feature_name") else model.feature_names
    if found is None:
        return None
    names = tuple(str(n) for n in found)
    made_up = all(re.fullmatch(rf"(Column_|f)?{i}", n) for i, n in enumerate(names))
    return None if made_up and set(names) != set(known) else names


def form(model: Any, columns: Columns | None) -> Rows:
    """Rows (n, d) of these columns as the model takes them."""
    wanted = names_of(model, () if columns is None else columns.names)
    root = type(model).__module__.split(".")[0]
    if columns is None:
        return _positional(model, wanted, root)
    if wanted is None:
        _count(model, len(columns), columns)
        return lambda x: x
    at = column_indices(model, columns) or []
    own = columns.select([columns.names[i] for i in at])
    straight = at == list(range(len(columns)))
    composed = type(model).__module__.split(".")[1:2] in [[m] for m in _COMPOSED]
    if own.numeric and root == "xgboost" and not _wants_names(model):
        order = np.array(at)
        return (lambda x: x) if straight else (lambda x: x.take(order, axis=1))
    if own.numeric and not composed:
        own = Columns.named(wanted)  # numbers are numbers: one block of float64
    else:
        own = Columns(tuple(replace(c, name=n) for c, n in zip(own.each, wanted, strict=True)))
    if root in ("xgboost", "lightgbm"):
        own = categorical(own)
    if root == "xgboost" and not own.numeric:
        codes = _codes(model, own)
        if codes is not None:
            return lambda x: codes(x[:, at])
    return lambda x: own.frame(x if straight else x[:, at])


def _wants_names(model: Any) -> bool:
    """XGBoost takes bare rows for trees; its linear booster insists on the names it knows."""
    if type(model).__name__ == "Booster":
        return False  # asked through a DMatrix
    learner = json.loads(model.get_booster().save_config())["learner"]
    return bool(learner["gradient_booster"]["name"] == "gblinear")


def _codes(model: Any, columns: Columns) -> Rows | None:
    """Rows as the codes that XGBoost itself makes of categories, which costs no frame; None where
    the model does not say how it counts them."""
    booster = model if type(model).__name__ == "Booster" else model.get_booster()
    if not hasattr(booster, "get_categories") or not all(
        c.kind in ("real", "integer", "boolean", "label") for c in columns.each
    ):
        return None
    try:
        counted = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    except Exception:  # an older model file, or a build without Arrow
        return None
    labels = [i for i, c in enumerate(columns.each) if c.kind == "label"]
    widest = max((len(columns.each[i].values) for i in labels), default=0)
    theirs = np.full((widest + 1, len(labels)), np.nan)  # the last row: missing
    for k, i in enumerate(labels):
        c = columns.each[i]
        known = [] if counted.get(c.name) is None else counted[c.name].to_pylist()
        places = {str(v): j for j, v in enumerate(known)}
        if any(str(v) not in places for v in c.values):
            return None
        if c.codes != tuple(float(j) for j in range(len(c.codes))):
            return None
        theirs[: len(c.values), k] = [places[str(v)] for v in c.values]
    column = np.arange(len(labels))
    run = bool(labels) and labels == list(range(labels[0], labels[-1] + 1))
    where: Any = slice(labels[0], labels[-1] + 1) if run else labels  # a slice copies nothing

    def rows(x: np.ndarray) -> np.ndarray:
        """These are ours to change."""
        codes = x[:, where]
        codes = np.where(codes == codes, codes, widest)  # missing: the last one
        at = codes.astype(np.int64)
        if (at != codes).any():
            raise DurometerError(
                f"a column of labels holds {float(codes[at != codes][0]):g}, between two of them; "
                "give the data a schema and move in schema.space(...)"
            )
        x[:, where] = theirs[at, column]
        return x

    return rows


def categorical(columns: Columns) -> Columns:
    """Text as categories, which is how XGBoost and LightGBM take it; both match by value."""
    import pandas as pd

    return Columns(
        tuple(
            c
            if c.kind != "label" or isinstance(c.dtype, pd.CategoricalDtype)
            else replace(c, dtype=pd.CategoricalDtype(list(c.values)))
            for c in columns.each
        )
    )


def _positional(model: Any, wanted: tuple[str, ...] | None, root: str) -> Rows:
    if wanted is None or root == "catboost" or (root == "xgboost" and not _wants_names(model)):
        return lambda x: x

    def framed(x: np.ndarray) -> Any:
        _count(model, x.shape[1], None)
        return Columns.named(wanted).frame(x)

    return framed


def _count(model: Any, given: int, columns: Columns | None) -> None:
    wanted = getattr(model, "n_features_in_", None)
    if wanted == 0:  # what CatBoost says of a model that was read from a file
        wanted = len(getattr(model, "feature_names_", ())) or None
    if wanted is not None and wanted != given:
        named = "" if columns is None else f" ({', '.join(columns.names[:6])} ...)"
        raise DurometerError(
            f"{type(model).__name__} was fitted on {wanted} columns, the data have {given}{named}"
        )


def column_indices(model: Any, columns: Columns) -> list[int] | None:
    """Where the columns a model wants stand among the data's; None if it was fitted on an array."""
    own = match_columns(model, columns)
    return None if own is None else columns.place(own)


def match_columns(model: Any, columns: Columns) -> list[str] | None:
    """The data's names of the columns a model wants; None if it was fitted on an array."""
    wanted = names_of(model, columns.names)
    return None if wanted is None else _matched(model, wanted, columns)


def to_fit(model: Any, columns: Columns | None) -> Rows:
    """Rows as a model like this one is fitted on them: with names and types where it knows them.

    To be asked, numbers alone would do (`form`); fitted on these, it would forget its names.
    """
    own = None if columns is None else match_columns(model, columns)
    if columns is None or own is None:
        wanted = names_of(model) if columns is None else None
        return (lambda x: x) if wanted is None else Columns.named(wanted).frame
    at, shown = columns.place(own), columns.select(own)
    if type(model).__module__.split(".")[0] in ("xgboost", "lightgbm"):
        shown = categorical(shown)
    return lambda x: shown.frame(np.ascontiguousarray(x[:, at]))


def column_names_of(model: Any, names: Iterable[str]) -> dict[str, str]:
    """The data's own names by those a model has for them: LightGBM writes blanks as _."""
    own = {name: name for name in names}
    if type(model).__module__.startswith("lightgbm"):
        own = {re.sub(r"\s", "_", name): name for name in own} | own
    return own


def _matched(model: Any, wanted: tuple[str, ...], columns: Columns) -> list[str]:
    """The data's own names of the columns a model wants."""
    known = column_names_of(model, columns.names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise DurometerError(
            f"{type(model).__name__} was fitted with a column '{missing[0]}', which the data do "
            f"not have{nearest(missing[0], columns.names)} ({len(missing)} of {len(wanted)} are "
            "missing); name the columns as they were named when it was fitted"
        )
    return [known[name] for name in wanted]


def align_columns(model: Classifier, data: Dataset) -> Classifier:
    """The model asked with these data's columns, its classes in these data's order."""
    from durometer.model import adapters
    from durometer.model.onnx import Runtime, differentiable

    if model.reads == "numbers" and token_ids.is_token_ids(data.x):
        raise DurometerError(
            f"the data hold texts, and {model.title} would be asked with numbers that stand for "
            "words: a function that takes a list of strings is du.wrap(function, inputs='text')"
        )
    if data.columns is not None and model.takes in ("own", "frame", "mapping"):
        inputs = None if model.takes == "own" else model.takes
        again = adapters.adapt(model.source, None, inputs, data.columns)
        if isinstance(model.call, Runtime) and model.call.twin is not None:
            again = differentiable(again)
        model = replace(model, call=again.call, columns=data.columns)
    names = data.classes or tuple(str(c) for c in range(int(data.y.max()) + 1))
    return _ordered(replace(model, labels=names, sure=data.classes is not None), data)


def _ordered(model: Classifier, data: Dataset) -> Classifier:
    """Classes by name: the data's order is the one that `y` is counted in."""
    mine, theirs = model.names, data.classes
    if mine is None or theirs is None or mine == theirs or model.order is not None:
        return model
    if sorted(mine) == sorted(theirs):
        return replace(model, order=tuple(mine.index(c) for c in theirs), names=theirs)
    both = set(mine) & set(theirs)
    if both:
        odd = next(c for c in (*theirs, *mine) if c not in both)
        raise DurometerError(
            f"the model's classes are {', '.join(mine)}, the data's {', '.join(theirs)}: "
            f"'{odd}' is in only one of them; leave out rows that the model has no class for"
        )
    if not any(c.lstrip("-").replace(".", "", 1).isdigit() for c in (*mine, *theirs)):
        raise DurometerError(
            f"the model's classes are {', '.join(mine)}, the data's {', '.join(theirs)}: nothing "
            "says which is which; write the labels as the model does"
        )
    return model  # numbers on one side: a class by its place


def several_labels(kind: str, count: int) -> Unsupported:
    """What is said of a model that gives several labels for a row."""
    return Unsupported(
        f"{kind} predicts {count} labels for a row, and one class per row is evaluated: "
        "du.wrap(model, label=j), with Y[:, j] for its data"
    )


def align_classes(model: Any, data: Dataset) -> Dataset:
    """The data with the model's classes: where these are numbers other than 0..C-1 and `y` holds
    just these, or where they are names of which the data hold some."""
    from durometer.model.classifier import source_of

    source = source_of(model)
    known = getattr(source, "classes_", None)
    if known is None and purpose(model) == "outlier_detector":
        known = [-1, 1]
    if known is None:
        return data
    if isinstance(known, list) and known and np.ndim(known[0]) > 0:
        raise several_labels(type(source).__name__, len(known))
    labels = np.asarray(known)
    if data.classes is not None:
        names = tuple(str(c) for c in labels.tolist()) if labels.ndim == 1 else ()
        if not set(data.classes) < set(names):
            return data
        return replace(data, y=[data.classes[i] for i in data.y.tolist()], classes=names)
    if labels.dtype.kind not in "iu" or np.array_equal(labels, np.arange(len(labels))):
        return data
    y = data.y.cpu().numpy()
    if not np.isin(y, labels).all():
        return data
    names = tuple(str(c) for c in labels)
    return replace(data, y=[str(c) for c in y.tolist()], classes=names)
