"""The ensemble as a problem asks it: the data's columns, the data's classes.

A model is asked by name: its columns may stand in another order in the data, and its classes too.
The reading follows both, and is compared with the model as it is asked, on the clean rows and on
corners of their boxes, before anything is proven.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

import numpy as np
import torch

from durometer.core.errors import Unsupported
from durometer.data.columns import Columns
from durometer.kernels.arrays import Bools, Floats
from durometer.model.classifier import Classifier
from durometer.model.frames import column_indices
from durometer.proofs.search.box import Box
from durometer.trees import Ensemble, read

_ROWS = 64  # compared with the model, as they are and in two corners
_VALUES = 100  # of a text column that are compared
_EACH = 9  # rows on which each is
# by identity: a CatBoost model has no hash; the columns it was read for
_read: dict[int, tuple[ref[Any], Columns | None, Ensemble]] = {}


def ensemble_of(model: Classifier) -> Ensemble:
    """The flat form of a model, read and checked once, by the columns it is asked with."""
    ensemble = _once(model.source, model.columns)
    at = None if model.columns is None else column_indices(model.source, model.columns)
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


def agree(model: Classifier, ensemble: Ensemble, box: Box, like: torch.Tensor) -> None:
    """Raise unless the reading and the model, asked as the problem asks it, give the same labels.

    `like` (n, ...) are inputs of the right shape and precision.
    """
    few = slice(0, _ROWS)
    corners = [np.where(np.isfinite(b), b, box.x0)[few] for b in (box.low_in, box.high_in)]
    rows: Floats = np.concatenate([box.x0[few], *corners])
    rows = np.concatenate([rows, _labelled(model, rows)])
    x = torch.from_numpy(rows).to(like.dtype).reshape(len(rows), *like.shape[1:])
    answers = model.logits(x).double().numpy()
    theirs = answers.argmax(1)
    if model.order is not None:
        theirs = np.asarray(model.order)[theirs]
        answers = answers[:, np.argsort(model.order)]
    exact = x.double().numpy().reshape(len(rows), -1)
    wrong = (ensemble.predict(exact) != theirs) & ~ensemble.near_tie(exact)
    wrong |= _out_of_order(answers, ensemble.scores(exact))
    if wrong.any():
        raise Unsupported(
            f"the reading of this {ensemble.source} model and the model as it is asked here differ "
            f"on {int(wrong.sum())} of {len(rows)} rows (categories in other codes?); use a "
            "search: Graft or MOEVA"
        )


def _labelled(model: Classifier, rows: Floats) -> Floats:
    """These rows with every value of every text column in turn: a library may code them in its own
    order, and labels of rows as they are need not show it."""
    if model.columns is None or not len(rows):
        return rows[:0]
    each = [(j, code) for j, c in enumerate(model.columns.each) for code in c.codes[:_VALUES]]
    stride = max(1, len(rows) // _EACH)
    some = rows[::stride][:_EACH]
    made = np.tile(some, (len(each), *(1 for _ in some.shape[1:])))
    for k, (j, code) in enumerate(each):
        made[k * len(some) : (k + 1) * len(some), j] = code
    return made


def _out_of_order(answers: Floats, scores: Floats) -> Bools:
    """Rows whose answer does not grow with the score as read; for two classes, where it must."""
    none = np.zeros(len(answers), bool)
    if answers.shape[1] != 2 or scores.shape[1] > 2:
        return none
    read = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0.0)
    said = answers[:, 1] - answers[:, 0]
    order = np.argsort(read, kind="stable")
    highest = np.maximum.accumulate(said[order])
    none[order] = said[order] < highest - 1e-4 * (1 + np.abs(highest))
    return none
