"""The ensemble as a model is asked: with the data's columns and over the data's classes.

A model is asked by name: its columns may stand in another order in the data, and its classes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from durometer.core.errors import Unsupported
from durometer.data.columns import Columns
from durometer.kernels.arrays import Bools, Ints
from durometer.model.classifier import Classifier
from durometer.model.frames import column_indices
from durometer.model.rules import Ruled
from durometer.trees import Ensemble, read
from durometer.trees.readers import relative_to, scores_of

# by identity: a CatBoost model has no hash; the columns it was read for
_read: dict[int, tuple[ref[Any], Columns | None, Ensemble]] = {}


def ensemble_of(model: Classifier) -> Ensemble:
    """The flat form of a model, read and checked once, by the columns it is asked with."""
    ensemble = _once(model.source, model.columns)
    return _asked(model, model.source, ensemble)


def ensembles_of(model: Classifier, rows: Ints) -> Iterator[tuple[Ints, Ensemble]]:
    """Places among `rows` with the ensemble for them: one for all, or, where a score is measured
    against the row's own, one for each."""
    source = model.source
    if not isinstance(source, Ruled) or source.rule.cuts is not None:
        yield np.arange(len(rows)), ensemble_of(model)
        return
    if source.clean is None:
        raise Unsupported(f"{model.title}: there is no clean row to measure against")
    trees = scores_of(source, model.columns)
    for place, row in enumerate(rows.tolist()):
        made = relative_to(source, model.columns, trees, float(source.clean[row]))
        yield np.array([place]), _asked(model, source, made)


def _asked(model: Classifier, source: Any, ensemble: Ensemble) -> Ensemble:
    source = source.estimator if isinstance(source, Ruled) else source
    at = None if model.columns is None else column_indices(source, model.columns)
    if model.columns is None or at is None:
        return ensemble
    return ensemble.asked_by(at, len(model.columns))


def _once(source: Any, columns: Columns | None) -> Ensemble:
    key = id(source)
    known = _read.get(key)
    if known is None or known[0]() is not source or not _same(known[1], columns):
        kept = ref(source, partial(_forget, key, _read))
        known = _read[key] = kept, columns, read(source, columns)
    return known[2]


def _same(a: Columns | None, b: Columns | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.alike(b) and [c.kind for c in a.each] == [c.kind for c in b.each])


def _forget(key: int, among: dict[int, Any], _: Any) -> None:
    among.pop(key, None)


def own_classes(model: Classifier, ensemble: Ensemble, allowed: Bools) -> Bools:
    """A mask (n, classes) over the logits, as one over the ensemble's own classes."""
    if allowed.shape[1] != ensemble.n_classes:
        raise Unsupported(
            f"the goal is over {allowed.shape[1]} classes, the {ensemble.source} model has "
            f"{ensemble.n_classes}"
        )
    if model.order is None:
        return allowed
    own = np.zeros_like(allowed)
    own[:, list(model.order)] = allowed
    return own
