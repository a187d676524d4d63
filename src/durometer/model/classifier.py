"""wrap(): every kind of classifier behind one face: inputs in the problem's units -> logits (n, C).

Torch modules are differentiable; everything else (scikit-learn, XGBoost, LightGBM, CatBoost, ONNX,
numpy callables; `adapters.py`) is a black box. Black boxes that give probabilities are turned into
logits by the logarithm, so that losses mean the same thing everywhere and the arg-max is the
model's own. How a model wants its rows is found when data are there (`frames.py`).

What a reader would get wrong: a module is put into eval mode and its weights stop collecting
gradients only *inside* `with model.ready():`; afterwards both are as they were.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.validation import SIGNED, noun
from durometer.data.columns import Columns
from durometer.kernels.memory import keep_freed
from durometer.model.answers import AnswerKind, fitting, parts, votes


class Predicts(Protocol):
    """A fitted estimator, in scikit-learn's manner."""

    def predict(self, rows: Any, /) -> Any:
        """A label for each row."""


_TINY = 1e-30  # a probability of 0 as a logit: about -69, below every real one


@noun(eq=False)
class Classifier:
    """A model as the library sees it; made by `wrap`, not by hand.

    >>> import durometer as du
    >>> import torch
    >>> model = du.wrap(lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], 1))
    >>> model.logits(torch.tensor([[0.25]]))
    tensor([[0.2500, 0.7500]])
    """

    call: Callable[..., Any]
    kind: str
    differentiable: bool
    answers: AnswerKind = "logits"  # what `call` returns
    names: tuple[str, ...] | None = None  # class labels, where the model knows them
    module: Any = field(default=None, repr=False)  # the torch module, where there is one
    source: Any = field(default=None, repr=False)  # what was wrapped
    slack: float = 0.0  # relative margin below which a success may be mere rounding
    bound: bool = False  # made for one batch: row i's parameters belong to row i of that batch
    reject: int | None = field(
        default=None, metadata={"least": 0}
    )  # the class that means "I do not answer", where there is one
    reads: Literal["numbers", "symbols"] = (
        "numbers"  # what a row is: "numbers", or "symbols" (words, bytes: choices.py)
    )
    together: bool = False  # a row's answer depends on the rows it is asked with
    takes: str = "tensor"  # what `source` is called with: one of `adapters.INPUTS`, or "own"
    name: str = ""  # what its owner calls it
    columns: Columns | None = None  # of the inputs it is asked with
    order: tuple[int, ...] | None = None  # its own class behind each column of the logits
    own: Callable[[Any], Any] | None = field(default=None, repr=False)  # rows as users have them
    score: float | None = field(default=None, metadata=SIGNED)  # the accuracy its owner measured
    told: bool = False  # its owner said what it answers
    part: str = ""  # which of several outputs holds the answers, as `answers.parts` names them
    labels: tuple[str, ...] | None = None  # the data's classes: labels are read by them
    sure: bool = False  # ... and these are all there are

    @property
    def title(self) -> str:
        """What reports call it."""
        return self.name or self.kind

    @property
    def device(self) -> torch.device | None:
        """Where a module's weights are; None: it has none, or is no module."""
        first = self._weight
        return None if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """The type a module computes in."""
        first = self._weight
        return torch.get_default_dtype() if first is None else first.dtype

    @property
    def _weight(self) -> Tensor | None:
        weights: Iterator[Tensor] = () if self.module is None else self.module.parameters()  # type: ignore[assignment]
        return next((w for w in weights if w.is_floating_point()), None)

    @property
    def described(self) -> dict[str, str]:
        """What a spec says of it; without a name of its own it goes by its kind."""
        part = {"answers_part": self.part} if self.part else {}
        known = {"model": self.title, "model_kind": self.kind, "model_hash": self.hash}
        return known | {"answers": self.answers} | part

    def logits(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """(n, C) logits on the device of `x`, in the model's own precision.

        `rows` are the places of `x` in its batch; only a bound classifier looks at them. The model
        gets a copy: it may change its input in place (`StandardScaler(copy=False)`), and `x` may be
        the user's own data.
        """
        x = x if self.reads == "symbols" else x.clone()  # a choice forgets its options in a copy
        if self.bound:
            out = self.call(x, torch.arange(len(x), device=x.device) if rows is None else rows)
        else:
            out = self.call(x)
        out = self.chosen(out, len(x))
        if self.answers == "labels":
            out = votes(out, self.names or self.labels)
        out = _scores(out)
        if out.ndim == 1 or (out.ndim == 2 and out.shape[1] == 1):
            _one_score(out)
            out = _two_columns(out.reshape(-1), self.answers)
        if out.ndim != 2 or len(out) != len(x):
            raise DurometerError(
                f"the model gave an output of shape {tuple(out.shape)} for {len(x)} inputs; "
                f"expected ({len(x)}, classes)"
            )
        if self.order is not None:
            out = out[:, list(self.order)]
        if not out.is_floating_point():
            out = out.double()
        if self.answers == "probabilities":
            out = _logs(out)
        return out.to(x.device)

    def chosen(self, out: Any, n: int) -> Any:
        """Of several outputs for n rows the one that holds the answers; refused where none fits."""
        out = out.logits if hasattr(out, "logits") else out
        found = parts(out)
        if found is None:
            return out
        if len(found) == 1:
            return next(iter(found.values()))
        return found[self.part or fitting(found, n, self.labels, self.sure)]

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
        keep_freed()
        modes = [(m, m.training) for m in self.module.modules()]
        wanted = [(p, p.requires_grad) for p in self.module.parameters()]
        with suppress(NotImplementedError):  # an exported program has one mode, and says so
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
    between the fields (scikit-learn's trees have seven bytes a node) is whatever memory held; text
    vectorisers without the memory address they remember."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, np.ndarray) and thing.dtype.names:
            return tuple, ([np.ascontiguousarray(thing[name]) for name in thing.dtype.names],)
        state = getattr(thing, "__dict__", {})
        if "_stop_words_id" in state:
            return type(thing).__new__, (type(thing),), state | {"_stop_words_id": None}
        return NotImplemented


def _scores(out: Any) -> Tensor:
    """What a model gives, as one tensor."""
    if type(out) is Tensor:
        return out
    if isinstance(out, list) and out and isinstance(out[0], Tensor):
        out = torch.stack(out)
    if isinstance(out, Tensor):
        return out
    try:
        return torch.as_tensor(np.require(out, requirements=["C", "W"]))
    except TypeError as error:
        raise DurometerError(
            f"the model gives a {type(out).__name__} that cannot be read as scores ({error}); "
            "wrap a function that returns an array (rows, classes)"
        ) from None


def _logs(probabilities: Tensor) -> Tensor:
    """Their logarithms; in numpy where no gradient is asked for, which costs a tenth of torch's."""
    plain = probabilities.dtype in (torch.float32, torch.float64)
    if probabilities.requires_grad or probabilities.device.type != "cpu" or not plain:
        return probabilities.clamp_min(_TINY).log()
    array = probabilities.numpy()
    return torch.from_numpy(np.log(np.maximum(array, array.dtype.type(_TINY))))


def _one_score(out: Tensor) -> None:
    """Whole numbers instead of a score are labels, and of these only 0 and 1 are as good as one."""
    if not out.is_floating_point() and out.numel() and not bool(((out == 0) | (out == 1)).all()):
        raise DurometerError(
            f"the model gives one whole number for a row, up to {int(out.max())}: labels have no "
            "scores; wrap a function that returns an array (rows, classes)"
        )


def _two_columns(out: Tensor, answers: str) -> Tensor:
    """One score for the positive class as two classes."""
    if answers == "probabilities":
        return torch.stack([1 - out, out], dim=1)
    return torch.stack([-out / 2, out / 2], dim=1)


# A model of any kind; a path is an ONNX file.
AnyModel = Classifier | torch.nn.Module | Predicts | Callable[..., Any] | str | Path


def wrap(
    model: AnyModel,
    answers: AnswerKind | None = None,
    *,
    inputs: str | None = None,
    name: str = "",
    predict: Callable[[Any], Any] | None = None,
    score: float | None = None,
    tokenizer: Any = None,
    gradients: bool = False,
) -> Classifier:
    """A classifier of any kind as a `Classifier`.

    `answers` says what the model returns, "logits", "probabilities" or "labels"; unless given,
    labels are found out, torch modules and callables are taken to give logits (`checks` flags it
    when they give probabilities), and others are known. Of several outputs (a tuple, a mapping)
    the one with a column for each class is taken.
    `inputs` says what a module or callable takes: "tensor" (default), "integers", "array", "frame"
    (a DataFrame in the types of your table), "mapping" (its columns as arrays) or "text" (a list of
    strings); a Hugging Face model comes with its `tokenizer`. `predict` is the
    model's own entry point, which takes your table as it is: before any attack its answers are
    compared with those of the wrapped model. `score` is the accuracy you measured yourself.
    `gradients=True` makes an ONNX file differentiable, where torch knows its operators.

    >>> wrap(torch.nn.Linear(4, 3), name="linear").title
    'linear'
    """
    from durometer.model import adapters

    if answers not in (None, *get_args(AnswerKind)):
        raise DurometerError(f"answers={answers!r}: expected 'logits', 'probabilities' or 'labels'")
    if inputs not in (None, *adapters.INPUTS):
        raise DurometerError(f"inputs={inputs!r}: expected one of {', '.join(adapters.INPUTS)}")
    if score is not None and not 0 <= score <= 1:
        raise DurometerError(f"score={score}: expected an accuracy between 0 and 1")
    if tokenizer is not None:
        from durometer.model.text import hugging_face

        model = hugging_face(model, tokenizer)
    made = model if isinstance(model, Classifier) else adapters.adapt(model, answers, inputs)
    if gradients:
        from durometer.model.onnx import differentiable

        made = differentiable(made)
    if inputs is not None and made.takes != inputs:
        raise DurometerError(
            f"inputs={inputs!r}: {made.kind} is asked in the form it was fitted on"
        )
    given: dict[str, Any] = {"answers": answers, "name": name, "own": predict, "score": score}
    given["told"] = None if answers is None else True
    return replace(made, **{k: v for k, v in given.items() if v not in (None, "")})
