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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported
from durometer.core.spec import Spec
from durometer.core.validation import SIGNED, noun
from durometer.data.columns import Columns
from durometer.kernels.memory import keep_freed
from durometer.model.answers import AnswerKind, fitting, parts, votes
from durometer.model.log_domain import logarithms, watched
from durometer.model.remote import Endpoint
from durometer.model.rules import rule_of


class Predicts(Protocol):
    """A fitted estimator, in scikit-learn's manner."""

    def predict(self, rows: Any, /) -> Any:
        """A label for each row."""


TINY = 1e-30  # a probability of 0 as a logit: about -69, below every real one


@noun(eq=False)
class Classifier:
    """A model as the library sees it: inputs in the problem's units in, logits (n, C) out; made by
    `wrap`.

    Args:
        call: Maps inputs to answers.
        kind: What the model is, e.g. "torch" or "xgboost".
        differentiable: Whether gradients with respect to the inputs can be computed.
        answers: What `call` returns: "logits", "probabilities" or "labels".
        names: Class labels, where the model knows them.
        module: The torch module, where there is one.
        source: The object that was wrapped.
        slack: Relative margin below which a change of class may be mere rounding; such a change is
            no success.
        bound: Whether the classifier belongs to one batch: the parameters of row i are those of row
            i of that batch.
        reject: Index of the class that means "no answer", where there is one.
        reads: What a row is: "numbers", or "symbols" (words, bytes).
        together: Whether the answer for a row depends on the rows it is asked with, as with batch
            statistics.
        takes: The form `source` is called with: "tensor", "integers", "array", "frame", "mapping",
            "text" or "own".
        name: The name that reports use.
        columns: The columns of the inputs it is asked with.
        order: For each column of the logits the model's own class behind it. None: the same order.
        own: The model's own entry point, which takes a table as users have it; see
            `wrap(predict=)`.
        score: The accuracy that the owner measured.
        told: Whether the owner stated what the answers are.
        part: Which of several outputs holds the answers; empty: found by its shape.
        labels: The classes of the data, by which labels are read.
        sure: Whether these are all classes there are.

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
        """The name that reports use: its own, or its kind."""
        return self.name or self.kind

    @property
    def device(self) -> torch.device | None:
        """The device of a module's weights; None without a module or without weights."""
        first = self._weight
        return None if first is None else first.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type a module computes in; torch's default without one."""
        first = self._weight
        return torch.get_default_dtype() if first is None else first.dtype

    @property
    def _weight(self) -> Tensor | None:
        weights: Iterator[Tensor] = () if self.module is None else self.module.parameters()  # type: ignore[assignment]
        return next((w for w in weights if w.is_floating_point()), None)

    @property
    def described(self) -> Spec:
        """A spec with the fields that name the model, with its kind, its hash and what it
        answers.
        """
        return Spec(
            model=self.title, model_kind=self.kind, model_hash=self.hash,
            answers=self.answers, answers_part=self.part,
        )  # fmt: skip

    def logits(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits (n, C) on the device of `x`, in the model's own precision.

        Args:
            x: Inputs (n, ...) in the problem's units. The model gets a copy, so it may change them
                in place.
            rows: Positions of `x` in its batch; used by a bound classifier only. None: 0..n-1.

        Returns:
            A tensor (n, C). Probabilities come as their logarithms, one score per row as two
                classes.

        Raises:
            DurometerError: The output has another shape, or holds labels instead of scores.
        """
        x = x if self.reads == "symbols" else x.clone()  # a choice forgets its options in a copy
        asked: tuple[Tensor, ...] = (x,)
        if self.bound:
            asked = (x, torch.arange(len(x), device=x.device) if rows is None else rows)
        if self.answers == "probabilities" and self.module is not None:
            out, last = watched(lambda: self.call(*asked))
            out = self.chosen(out, len(x))
            known = logarithms(out, last)
            if known is not None:
                known = known if self.order is None else known[:, list(self.order)]
                return known.to(x.device)
        else:
            out = self.chosen(self.call(*asked), len(x))
        return self.read(out, x)

    def read(self, out: Any, x: Tensor) -> Tensor:
        """Logits (n, C) from the output that holds the answers.

        Args:
            out: That output.
            x: The inputs (n, ...) it belongs to.

        Raises:
            DurometerError: The output has another shape, or holds labels instead of scores.
        """
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
        logits: Tensor = out.to(x.device)
        return logits

    def chosen(self, out: Any, n: int) -> Any:
        """Selects the output that holds the answers, where a model returns several.

        Args:
            out: What the model returned.
            n: Number of rows it was asked about.

        Raises:
            DurometerError: No output fits, or several do.
        """
        out = out.logits if hasattr(out, "logits") else out
        found = parts(out)
        if found is None:
            return out
        if len(found) == 1:
            return next(iter(found.values()))
        return found[self.part or fitting(found, n, self.labels, self.sure)]

    def among(self, batch: Tensor) -> Classifier:
        """The same classifier for rows of one batch, where answers depend on the whole batch.

        Args:
            batch: The inputs (n, ...) of the batch; rows that are not asked about stay as they are
                here.

        Returns:
            A bound classifier, or this one where rows do not depend on each other.
        """
        if not self.together:
            return self
        return replace(self, call=partial(_complete, self.call, batch), bound=True, together=False)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """A context in which the module is in eval mode and its weights collect no gradients.

        Both are as before when the context ends.
        """
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
        if isinstance(self.source, Endpoint):
            return "unknown"
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
        return probabilities.clamp_min(TINY).log()
    array = probabilities.numpy()
    return torch.from_numpy(np.log(np.maximum(array, array.dtype.type(TINY))))


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


def source_of(model: object) -> Any:
    """The user's own model, out of a `Classifier`; any other as it is."""
    return model.source if isinstance(model, Classifier) else model


def wrap(
    model: AnyModel | None = None,
    answers: AnswerKind | Literal["score"] | None = None,
    *,
    remote: str | Endpoint | None = None,
    inputs: str | None = None,
    name: str = "",
    predict: Callable[[Any], Any] | None = None,
    score: float | None = None,
    tokenizer: Any = None,
    gradients: bool = False,
    threshold: float | None = None,
    bands: Sequence[float] | None = None,
    tolerance: float | None = None,
    relative: bool = False,
    label: int | None = None,
) -> Classifier:
    """Makes a `Classifier` of any model: torch, scikit-learn, XGBoost, LightGBM, CatBoost, ONNX,
    callables.

    Torch modules are differentiable, everything else is a black box. Probabilities are turned into
    logits by the logarithm. Of several outputs (a tuple, a mapping) the one with a column per class
    is taken.

    Args:
        model: A torch module, a fitted estimator, a callable, or the path of an ONNX file.
        remote: The address of a model behind HTTP, or an `Endpoint` with its limits, headers and
            form, instead of `model`.
        answers: What the model returns: "logits", "probabilities" or "labels". None: labels are
            recognised, other answers of modules and callables are taken for logits (reports warn
            where they look like probabilities); for other models it is known.
        inputs: What a module or callable takes: "tensor" (default), "integers", "array", "frame" (a
            DataFrame in the types of your table), "mapping" (columns as arrays) or "text" (a list
            of strings). A callable for texts needs "text".
        name: The name that reports use. Default: the kind of the model.
        predict: The model's own entry point, which takes your table as it is. Before any attack its
            answers are compared with those of the wrapped model.
        score: The accuracy you measured yourself, between 0 and 1; a report warns where it measures
            another.
        tokenizer: The tokenizer of a Hugging Face model.
        gradients: Whether to convert an ONNX file to torch, so that gradients can be computed.
        threshold: The operating threshold: class 1 where its score is at least this. The score is
            an estimator's probability of its second class (else its decision function, a
            regressor's prediction, an anomaly detector's `score_samples`). For modules and
            callables `answers` says what it is: "logits" or "probabilities" (the threshold is a
            probability) or "score" (it is in the score's units). Default None: the largest score
            decides.
        bands: Several thresholds that rise; the classes are the bands between them, and `y` counts
            them. Default None.
        tolerance: How far the score may move from the answer for the clean row. The classes are
            "fell", "same" and "rose", and `y` is not used: `Untargeted()` asks for a move by more
            than this, `Targeted("rose")` for one upwards. Default None.
        relative: Whether `tolerance` is a share of the clean score. Default False: in its units.
        label: Which label of a model that gives several for a row is evaluated, by its place; `y`
            is then `Y[:, label]`. Default None: the model gives one class for a row.

    Returns:
        The `Classifier`.

    Raises:
        DurometerError: A parameter has a value that is not listed, the model is of no known kind,
            or an ONNX file has operators that torch lacks.

    >>> wrap(torch.nn.Linear(4, 3), name="linear").title
    'linear'
    """
    from durometer.model import adapters

    if model is None and remote is None:
        raise DurometerError("cannot wrap None: give a model, or the address of one as remote=")
    if model is not None and remote is not None:
        raise DurometerError("wrap() takes a model or remote=, the address of one, not both")
    if remote is not None:
        model = Endpoint(remote) if isinstance(remote, str) else remote
    assert model is not None
    if label is not None:
        from durometer.model.one_label import one_label

        model = one_label(model, label)
    rule = rule_of(threshold, bands, tolerance, relative)
    if rule is None and answers == "score":
        raise DurometerError("answers='score' needs threshold=, bands= or tolerance=")
    if answers not in (None, "score", *get_args(AnswerKind)):
        raise DurometerError(f"answers={answers!r}: expected 'logits', 'probabilities' or 'labels'")
    if inputs not in (None, *adapters.INPUTS):
        raise DurometerError(f"inputs={inputs!r}: expected one of {', '.join(adapters.INPUTS)}")
    if score is not None and not 0 <= score <= 1:
        raise DurometerError(f"score={score}: expected an accuracy between 0 and 1")
    if tokenizer is not None:
        from durometer.model.text import hugging_face

        model = hugging_face(model, tokenizer)
    if rule is not None:
        if predict is not None or gradients or tokenizer is not None:
            raise Unsupported(
                f"{rule.sentence}: not together with predict=, gradients=, tokenizer="
            )
        made = adapters.decided(model, rule, answers, inputs)
        return replace(made, name=name, score=score)
    assert answers != "score"
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
