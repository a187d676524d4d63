"""The agreement check: is the model that is attacked the model its owner uses?

Between a user's table and the numbers an attack moves lie an encoding, an order of columns, types,
an order of classes. So before any attack the clean answers are compared with the model's own entry
point (`predict`, or what `wrap(predict=)` names) on the user's own rows, up to 1,000 of them. One
answer that differs by more than rounding stops the run, with the row as both sides saw it.

What a reader would get wrong: a near-tie may fall either way in another precision and is no
disagreement; and a model without an entry point of its own (a bare network) is not checked at all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.model.frames import categorical, column_names_of, names_of
from durometer.model.rules import Ruled
from durometer.spaces import token_ids

if TYPE_CHECKING:
    from durometer.data.dataset import Dataset
    from durometer.model.classifier import Classifier

ROWS = 1_000
_PART = 100  # rows at a time
_PATIENCE = 10.0  # seconds after which a slow model is not asked for more rows
_TIE = 1e-5  # of the largest logit: closer than this the arg-max is a matter of rounding


def agree(model: Classifier, data: Dataset) -> int:
    """How many rows were compared; raises where the two differ."""
    own = model.own
    asked_by_rows = model.reads == "numbers" or model.takes == "text"
    if own is None and model.module is None and asked_by_rows:
        own = getattr(model.source, "predict", None)
    if own is None:
        return 0
    began, done = time.process_time(), 0
    rows = _spread(len(data))
    while done < len(rows):
        part = rows[done : done + _PART]
        done += len(part)
        _compare(model, own, data, part)
        if time.process_time() - began > _PATIENCE:
            break
    return done


def _spread(n: int) -> Any:
    """Up to 1,000 rows from all over the table, in an order of which any beginning is so, too: a
    table may be sorted by just the column that does not fit."""
    if n <= ROWS:
        return np.arange(n)
    rows = np.linspace(0, n - 1, ROWS).round().astype(np.int64)
    return rows.reshape(_PART, -1).T.reshape(-1)


def _compare(model: Classifier, own: Any, data: Dataset, rows: Any) -> None:
    with model.ready(), torch.no_grad():
        logits = model.logits(data.x[rows]).cpu()
    asked = _own_rows(model, own, data, rows)
    try:
        answers = np.asarray(own(asked))
    except Exception as error:
        raise DurometerError(
            f"the model's own predict cannot take the rows as you gave them: "
            f"{type(error).__name__}: {error}; give the data as it was fitted on, or say what "
            "it is to be compared with: du.wrap(model, predict=...)"
        ) from error
    theirs = _indices(answers, model, data, logits)
    ours = logits.argmax(1).numpy()
    top = logits.topk(2, dim=1).values
    tie = (top[:, 0] - top[:, 1]) <= _TIE * logits.abs().amax(1).clamp_min(1e-12)
    wrong = (ours != theirs) & ~tie.numpy()
    if not wrong.any():
        return
    i = int(wrong.argmax())
    names = model.names or data.classes

    def called(c: int) -> str:
        return str(names[c]) if names and 0 <= c < len(names) else str(c)

    raise DurometerError(
        f"{int(wrong.sum())} of {len(ours)} clean answers differ from the model's own predict. "
        f"Row {rows[i]} (id {data.ids[rows[i]]}): predict says "
        f"'{called(int(theirs[i]))}', asked in durometer's form it says '{called(int(ours[i]))}'."
        f"{_shown(model, data, int(rows[i]))}"
    )


def _own_rows(model: Classifier, own: Any, data: Dataset, rows: Any) -> Any:
    """The rows as their owner has them: of the table that came in, as sentences, or an array."""
    if model.reads == "symbols" and token_ids.is_token_ids(data.x):
        return token_ids.sentences(data.x[rows])
    if data.table is None or data.columns is None:
        return data.x[rows].detach().cpu().numpy().copy()  # models may change what they get
    asked = getattr(own, "__self__", None)
    asked = asked.estimator if isinstance(asked, Ruled) else asked
    names = names_of(asked, data.columns.names) if asked is not None else None
    features = [c for c in data.table.columns if c in set(data.columns.names)]
    known = column_names_of(asked, data.table.columns)
    if names is not None and all(n in known for n in names):
        part = data.table.iloc[rows][[known[n] for n in names]].copy()
        if type(asked).__module__.startswith(("xgboost", "lightgbm")):  # take no text as such
            for c in categorical(data.columns).each:
                if c.name in part and c.kind == "label" and part[c.name].dtype != c.dtype:
                    part[c.name] = part[c.name].astype(c.dtype)
        return part
    part = data.table.iloc[rows][features].copy()
    return part.to_numpy() if asked is not None and names is None else part


def _indices(answers: np.ndarray, model: Classifier, data: Dataset, logits: Tensor) -> np.ndarray:
    """Labels, class indices or scores as class indices."""
    if answers.ndim == 2 and answers.shape[1] == logits.shape[1]:
        return np.asarray(answers.argmax(1))
    answers = answers.reshape(-1)
    if len(answers) != len(logits):
        raise DurometerError(
            f"the model's own predict gave {len(answers)} answers to {len(logits)} rows"
        )
    names = model.names or data.classes
    place = {name: i for i, name in enumerate(names or ())}
    if names and all(str(a) in place for a in answers.tolist()):
        return np.array([place[str(a)] for a in answers.tolist()])
    if answers.dtype.kind in "iub" or (
        answers.dtype.kind == "f" and bool((answers == np.round(answers)).all())
    ):
        return answers.astype(np.int64)
    if answers.dtype.kind == "f" and logits.shape[1] == 2:  # a Booster's probability of class 1
        return np.asarray(answers > 0.5, dtype=np.int64)
    raise DurometerError(
        f"the model's own predict gave {answers[0]!r}, which is none of its classes"
    )


def _shown(model: Classifier, data: Dataset, row: int) -> str:
    """The row, column by column: as it stands in the table, and as the model was asked."""
    if token_ids.is_token_ids(data.x):
        return f" The sentence: {token_ids.sentences(data.x[row : row + 1])[0]!r}"
    if data.columns is None:
        return ""
    asked = data.columns.frame(data.x[row : row + 1].numpy()).iloc[0]
    lines = ["", f"  {'column':<24} {'your table':<24} as the model was asked"]
    for name in data.columns.names:
        own = "" if data.table is None else repr(data.table[name].iloc[row])
        coded = float(data.x[row, data.columns.place([name])[0]])
        seen = repr(asked[name]) if model.takes in ("own", "frame", "mapping") else f"{coded:g}"
        lines.append(f"  {name:<24} {own:<24} {seen}")
    return "\n".join(lines)
