"""ONNX graphs: every input the graph declares, in the type it declares, by name.

A graph with one input gets the rows as they are; one with several (a converted pipeline: an input
per column) gets each column by its name, text as text. Of its outputs the scores are taken, by
name where the names say so; labels, where there are some, are the graph's own entry point. Answers
are onnxruntime's. Gradients, where they are wanted, are of the same graph in torch (`graph.py`),
and each time one is asked for, the two answers are compared. A graph that declares a batch of one
is asked one row at a time.

What a reader would get wrong: probabilities are recognised by the output's name only; elsewhere
`answers="probabilities"` must be said, or they are taken for logits (and flagged).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.data.columns import Columns
from durometer.model import graph
from durometer.model.answers import AnswerKind
from durometer.model.classifier import Classifier
from durometer.spaces.discrete import RelaxedTokens

_APART = 1e-3  # of the largest answer: further apart, torch does not compute what the runtime does
_TYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "string": object,
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip


def onnx(path: Path, answers: AnswerKind | None, columns: Columns | None) -> Classifier:
    """The graph in a file."""
    try:
        there = path.exists()
    except (OSError, ValueError):  # no name of a file at all
        there = False
    if not there:
        raise DurometerError(f"no model file at '{path}'")
    if path.suffix != ".onnx":
        raise DurometerError(
            f"'{path}': only .onnx files can be wrapped by path; load others yourself"
        )
    try:
        import onnxruntime
    except ImportError:
        raise Unsupported(f"'{path}' needs onnxruntime: pip install 'durometer[onnx]'") from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        said = str(error).splitlines()[0]
        raise DurometerError(f"'{path}' cannot be read as an ONNX graph: {said}") from None
    feed = _feed(session.get_inputs(), columns)
    scores = _scores(session.get_outputs())
    likely = "probab" in scores.lower() or scores.lower().endswith("proba")

    return Classifier(
        Runtime(session, scores, feed, None, _alone(session.get_inputs()), _digest(path)),
        "ONNX",
        False,
        answers or ("probabilities" if likely else "logits"),
        source=path,
        slack=1e-5,
        takes="own",
        columns=columns,
        name=path.name,
    )


@dataclass(frozen=True, eq=False)
class Runtime:
    """A session asked for its scores; with a `twin` in torch, gradients lead back to the input."""

    session: Any
    scores: str
    feed: Callable[[Tensor], dict[str, Any]]
    twin: graph.Graph | None = None
    alone: bool = False  # the graph takes one row at a time
    digest: str = ""  # of the file that the session was made from

    def __call__(self, x: Tensor) -> Any:
        if self.alone and len(x) > 1 and not isinstance(x, RelaxedTokens):
            return torch.cat([torch.as_tensor(self(x[k : k + 1])) for k in range(len(x))])
        plain = x.detach().as_subclass(Tensor).cpu()
        answer = _table(self.session.run([self.scores], self.feed(plain))[0])
        wanted = torch.is_grad_enabled() and (x.requires_grad or isinstance(x, RelaxedTokens))
        if self.twin is None or not wanted:
            return answer
        twin, own = self.twin(x), torch.as_tensor(answer)
        apart = float((twin.detach() - own).abs().max() / own.abs().max().clamp_min(1e-12))
        if not apart <= _APART:
            raise DurometerError(
                f"in torch the graph's answers are {apart:.2g} (of the largest) away from "
                "onnxruntime's: its gradients cannot be trusted; wrap it without gradients=True"
            )
        return own + (twin - twin.detach())


def readable(model: Classifier) -> bool:
    """Is it a graph in a file, which proofs read in place of a module?"""
    return isinstance(model.call, Runtime) and isinstance(model.source, Path)


def module_of(model: Classifier) -> graph.GraphModule:
    """The graph of a file as a torch module.

    Raises:
        Unsupported: The graph has an operator that is not known, or the file has changed.
    """
    assert isinstance(model.call, Runtime) and isinstance(model.source, Path)
    if _digest(model.source) != model.call.digest:
        raise Unsupported(f"'{model.source}' is not the file any more that was wrapped")
    return graph.GraphModule(graph.read(model.source, model.call.scores))


def _alone(entries: Any) -> bool:
    return len(entries) == 1 and len(entries[0].shape) > 1 and entries[0].shape[0] == 1


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def differentiable(model: Classifier) -> Classifier:
    """The same file, with gradients."""
    if not (isinstance(model.call, Runtime) and isinstance(model.source, Path)):
        raise DurometerError(f"gradients=True is for ONNX files, and a {model.kind} is none")
    twin = graph.read(model.source, model.call.scores)
    reads: Literal["numbers", "symbols"] = "numbers" if twin.dtype.is_floating_point else "symbols"
    call = replace(model.call, twin=twin)
    return replace(model, call=call, differentiable=True, reads=reads)


def _feed(entries: Any, columns: Columns | None) -> Callable[[Tensor], dict[str, Any]]:
    """Tensors as what the graph's inputs take."""
    if len(entries) == 1:
        entry = entries[0]
        return lambda x: {entry.name: _cast(x.numpy(), entry)}
    names = ", ".join(entry.name for entry in entries)
    if columns is None:  # `frames.fitted` makes it anew when the data are there

        def refuse(x: Tensor) -> dict[str, Any]:
            raise DurometerError(
                f"the graph has {len(entries)} inputs ({names}): give the data as a table with "
                "columns of these names"
            )

        return refuse
    for entry in entries:
        if entry.name not in columns.names:
            raise DurometerError(
                f"the graph takes '{entry.name}', which the data do not have"
                f"{nearest(entry.name, columns.names)}"
            )
    at = columns.place([entry.name for entry in entries])

    def feed(x: Tensor) -> dict[str, Any]:
        rows, made = x.numpy(), {}
        for entry, i in zip(entries, at, strict=True):
            text = entry.type == "tensor(string)"
            cells = columns.each[i].decode(rows[:, i]) if text else rows[:, i]
            flat = len(entry.shape) == 1
            values = _cast(np.asarray(cells), entry)
            made[entry.name] = values if flat else values.reshape(-1, 1)
        return made

    return feed


def _cast(values: np.ndarray, entry: Any) -> np.ndarray:
    """Values in the declared type; a number that it cannot hold is refused, not cut off."""
    kind = entry.type.removeprefix("tensor(").removesuffix(")")
    if kind not in _TYPES:
        raise Unsupported(f"input '{entry.name}' of type {entry.type}: expected numbers or text")
    dtype = _TYPES[kind]
    if dtype is object:
        return np.array([str(v) for v in values.ravel().tolist()], dtype=object)
    cast: np.ndarray = values.astype(dtype)
    if np.issubdtype(dtype, np.integer) or dtype is np.bool_:
        wrong = cast.astype(np.float64) != values
        if wrong.any():
            raise DurometerError(
                f"input '{entry.name}' takes {kind}, and {float(values[wrong][0]):g} is none; move "
                "in a schema's space, with features of kind 'integer' or 'category'"
            )
    return np.asarray(cast)


def _scores(entries: Any) -> str:
    """The name of the output that holds scores per class."""
    for word in ("logit", "prob", "score"):
        for entry in entries:
            if word in entry.name.lower():
                return str(entry.name)
    wide = [e for e in entries if "tensor" not in e.type or len(e.shape or ()) == 2]
    return str((wide or list(entries))[-1].name)


def _table(out: Any) -> Any:
    """Scores as an array; converted pipelines give a mapping per row (ZipMap)."""
    if isinstance(out, list) and out and isinstance(out[0], dict):
        return torch.tensor([list(row.values()) for row in out], dtype=torch.float64)
    return out
