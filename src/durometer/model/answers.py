"""What a model answers: logits, probabilities or labels; and which part of its output that is.

Labels are recognised by structure (an estimator that can only `predict`, a function that gives one
whole number or one word for a row), else by the answers themselves: all of them one-hot on up to 64
rows, and on points half-way between rows of different labels, where a score would show a slope.

What a reader would get wrong: a probability that is 0 or 1 on every row may still be a score.
`softmax(40 z)` is, and the points in between say so; a tree of full depth is not, and they say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Exhausted

AnswerKind = Literal["logits", "probabilities", "labels"]
SCORES: tuple[AnswerKind, ...] = ("logits", "probabilities")
ANY: tuple[AnswerKind, ...] = (*SCORES, "labels")
MOST, LEAST = 64, 8  # rows that are looked at
_HALVINGS = 6  # of all pairs, and then of a few until they nearly touch
_CLOSE, _CLOSER = 16, 18  # pairs, halvings: a small forest is torn only just where its trees turn
_BY_NAME = ("logits", "probabilities", "scores", "output")


def only_labels(ask: Callable[[Tensor], Tensor], x: Tensor, known: Tensor | None = None) -> bool:
    """Are all answers (n, C) one-hot, on these rows and on the way from one label to another?

    `known` are the answers on the rows, where they have been asked for. Fewer than eight different
    rows say too little: two classes and one row are always two numbers.
    """
    x = x[:MOST]
    first = ask(x) if known is None else known[:MOST]
    if not _hard(first) or len({row.tobytes() for row in x.detach().cpu().numpy()}) < LEAST:
        return False
    label = first.argmax(1)
    try:
        here, there, label = _pairs(ask, x, label)
        for turn in range(_HALVINGS + _CLOSER if len(here) else 0):
            if turn == _HALVINGS:
                here, there, label = here[:_CLOSE], there[:_CLOSE], label[:_CLOSE]
            middle = (here + there) / 2
            answers = ask(middle)
            if not _hard(answers):
                return False
            same = (answers.argmax(1) == label).reshape(-1, *[1] * (x.ndim - 1))
            here, there = torch.where(same, middle, here), torch.where(same, there, middle)
    except Exhausted:
        raise
    except Exception:  # it may take only what a row can be: half a category is none
        return True
    return True


def _pairs(
    ask: Callable[[Tensor], Tensor], x: Tensor, label: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, partners of another label, and the rows' labels: other rows, and where all rows are
    alike their mirror images in the range of the data."""
    for shift in range(1, len(x)):
        apart = label != label.roll(shift)
        if bool(apart.any()):
            return x[apart], x.roll(shift, 0)[apart], label[apart]
    mirrored = x.amin(0) + x.amax(0) - x
    apart = ask(mirrored).argmax(1) != label
    return x[apart], mirrored[apart], label[apart]


def _hard(answers: Tensor) -> bool:
    """In every row one number, and another one in all the other columns; the same two in all."""
    if answers.ndim != 2 or answers.shape[1] < 2:
        return False
    high, low = answers.max(), answers.min()
    return bool(high > low) and bool(
        (((answers == high).sum(1) == 1) & ((answers == low).sum(1) == answers.shape[1] - 1)).all()
    )


def one_each(out: Any) -> bool:
    """Is it one whole number or one word for each row? Then these are labels."""
    if isinstance(out, Tensor):
        return (
            out.ndim == 1 or (out.ndim == 2 and out.shape[1] == 1)
        ) and not out.is_floating_point()
    if not isinstance(out, np.ndarray | list):
        return False
    if isinstance(out, list) and any(isinstance(v, Tensor) for v in out):
        return all(v.ndim == 0 and not v.is_floating_point() for v in out)
    array = np.asarray(out)
    return (
        array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)
    ) and array.dtype.kind in "iubUOS"


def votes(out: Any, names: Sequence[str] | None) -> Tensor:
    """(n, C): 1 for the class that is answered, 0 for all others.

    `names` are the labels in the order of the classes, where `out` holds one label for each row.
    """
    array = np.asarray(out.detach().cpu() if isinstance(out, Tensor) else out)
    if array.ndim == 2 and array.shape[1] > 1:
        index, classes = array.argmax(1), array.shape[1]
    else:
        if names is None:
            raise DurometerError(
                "the model gives one label for a row, and nothing says which classes there are: "
                "evaluate it on data, or wrap a function that returns an array (rows, classes)"
            )
        index, classes = _places(array.reshape(-1), names), len(names)
    return torch.nn.functional.one_hot(
        torch.from_numpy(np.ascontiguousarray(index)).long(), classes
    ).float()


def _places(labels: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The class of each label: by its name, or by its number where the names are words."""
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "f" and bool((labels == np.round(labels)).all()):
        labels = labels.astype(np.int64)
    place = {str(name): i for i, name in enumerate(names)}
    whole = labels.dtype.kind in "iu"
    if whole and not any(str(v) in place for v in np.unique(labels)[:1000].tolist()):
        place = {str(i): i for i in range(len(names))}
    known = [place.get(str(v), -1) for v in labels.tolist()]
    if -1 in known:
        shown = ", ".join(list(map(str, names))[:8]) + (" ..." if len(names) > 8 else "")
        raise DurometerError(
            f"the model answers {labels[known.index(-1)]}, which is none of the classes {shown}; "
            "name all classes: du.Dataset(x, y, classes=(...))"
        )
    return np.array(known, dtype=np.int64)


def parts(out: Any) -> dict[str, Any] | None:
    """What a model gives several of, by name; None where it gives one thing."""
    if isinstance(out, Mapping):
        return {repr(k): v for k, v in out.items()}
    several = isinstance(out, tuple) or (
        isinstance(out, list) and bool(out) and np.ndim(out[0]) == 2
    )
    return {f"part {i} of {len(out)}": v for i, v in enumerate(out, 1)} if several else None


def fitting(found: Mapping[str, Any], n: int, names: Sequence[str] | None, sure: bool) -> str:
    """Which of the parts are the scores: by name, else by the number of classes.

    `names`: the classes, as far as the labels show them; `sure`: these are all of them.
    """
    for name in _BY_NAME:
        if repr(name) in found:
            return repr(name)
    shape = {k: tuple(np.shape(v)) for k, v in found.items()}
    rows = {k: s for k, s in shape.items() if len(s) in (1, 2) and s[0] == n}
    width = {k: s[1] if len(s) == 2 and s[1] > 1 else 2 for k, s in rows.items()}
    count = None if names is None else len(names)
    fits = list(width) if count is None else [k for k, w in width.items() if w == count]
    if count is not None and not fits and not sure:
        fits = [k for k, w in width.items() if w > count]
    if len(fits) == 1:
        return fits[0]
    said = " and ".join(f"{'' if k.startswith('part ') else k + ' '}{s}" for k, s in shape.items())
    known = "" if count is None else f", and the data have {count} classes"
    many = f"; {len(fits)} of its parts have {count} columns" if fits and count is not None else ""
    raise DurometerError(
        f"the model gives {len(found)} parts, {said}{known}{many}: which are the scores? Wrap a "
        "function that returns them"
    )
