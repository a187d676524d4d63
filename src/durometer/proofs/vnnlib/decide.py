"""Decides a VNN-LIB property of an ONNX network: sat, unsat or unknown.

sat is a point: found by gradients through the graph in torch, and confirmed by onnxruntime, in
exact arithmetic on the answers it gives. unsat is a proof by the bounds of this package: in every
part of every box, each case has a condition that no output meets. Cut are the inputs where few of
them vary, else the ReLUs, until the time is over.

What a reader would get wrong: the inputs of a network are single precision, the bounds in the file
are not. A point lies in the box; only where an interval holds no number of the network's type its
nearest one is taken, and the proof is about a box that holds these, too. The proof is about what is
computed, with any order of additions; answers of onnxruntime are compared with it on points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import Contradiction, DurometerError, Unsupported
from durometer.kernels.arrays import Array
from durometer.model import graph
from durometer.model.onnx import Runtime, onnx
from durometer.proofs.aten.export import exported, prepared
from durometer.proofs.aten.program import Program
from durometer.proofs.aten.reader import KNOWN, read
from durometer.proofs.bounds.branches import branches
from durometer.proofs.bounds.climb import climb
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.vnnlib.parse import Case, Property
from durometer.proofs.vnnlib.parse import read as read_property

_FEW = 12  # inputs that vary: more are not worth halving
_STARTS, _STEPS = 12, 30  # of the search, for each box
_POINTS = 8  # on which onnxruntime must answer within the bounds of the point
_AUDIT = 32  # points of each box that is called unsat
_PARTS = 64  # boxes that are bounded at a time
_ALPHA = 20
_WIDE = 2.0**-23  # of an input: more than its rounding to single precision
_TINY = 2.0**-149
_OWN = 1e-12  # weights and limits as double precision holds them


@dataclass(frozen=True)
class Answer:
    """What is known about a property.

    Args:
        verdict: "sat": there is a counterexample. "unsat": there is none. "unknown": neither is
            known.
        x: The counterexample's inputs, in the order X_0, X_1, ...; empty without one.
        y: What onnxruntime answers to it.
        why: For "unknown", what ended the search.
    """

    verdict: Literal["sat", "unsat", "unknown"]
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    why: str = ""

    def counterexample(self) -> str:
        """The counterexample in VNN-LIB form."""
        cells = [f"({k}_{i} {v!r})" for k, vs in (("X", self.x), ("Y", self.y))
                 for i, v in enumerate(vs)]  # fmt: skip
        return "sat\n(" + "\n ".join(cells) + ")\n"


class _Late(Exception):
    """The time is over."""


@dataclass(frozen=True, eq=False)
class _Question:
    """One box and the cases that share it."""

    cases: tuple[Case, ...]
    low: Tensor  # (D,) float64: the numbers of the network's type that lie in the box
    high: Tensor
    weights: Tensor  # (m, outputs): of all conditions
    limits: Tensor  # (m,)
    of: Tensor  # (m,): whose they are


@dataclass(frozen=True, eq=False)
class _Net:
    """A graph for one input: answers by onnxruntime, gradients by torch."""

    runtime: Runtime
    twin: graph.Graph
    shape: tuple[int, ...]
    outputs: int = field(init=False)

    def __post_init__(self) -> None:
        zero = np.zeros(math.prod(self.shape))
        object.__setattr__(self, "outputs", len(self.answer(zero)))

    def answer(self, x: Array) -> Array:
        """(outputs,): what onnxruntime says to one flat input."""
        made = self.runtime(torch.from_numpy(np.ascontiguousarray(x)).reshape(self.shape))
        return np.asarray(made).reshape(-1).astype(np.float64)

    def torch(self, x: Tensor) -> Tensor:
        """(outputs,): the same in torch."""
        out: Tensor = self.twin(x.reshape(self.shape)).reshape(-1)
        return out.double()


def decide(network: Path, property_file: Path, seconds: float = 60.0) -> Answer:
    """Whether a network has an input that a VNN-LIB file describes.

    Args:
        network: The ONNX file: one input, one output, single or double precision.
        property_file: The VNN-LIB file.
        seconds: CPU time after which the answer is "unknown".

    Raises:
        DurometerError: A file is missing, damaged, or does not fit the other.
        Unsupported: The property is no box with linear conditions on the outputs.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise DurometerError(f"seconds={seconds}: expected a positive number")
    until = time.process_time() + seconds
    asked = read_property(property_file)
    net = _open(network)
    size = math.prod(net.shape)
    if (size, net.outputs) != (asked.inputs, asked.outputs):
        raise DurometerError(
            f"'{property_file}' is about {asked.inputs} inputs and {asked.outputs} outputs, "
            f"'{network}' has {size} and {net.outputs}"
        )
    questions = _questions(asked, net)
    for question in questions:
        for x in _searched(net, question, until):
            found = _confirmed(net, question, x)
            if found is not None:
                return found
    return _proved(net, questions, until)


def _open(path: Path) -> _Net:
    runtime = onnx(path, None, None).call
    if not isinstance(runtime, Runtime):
        raise DurometerError(f"'{path}' is no ONNX graph")
    entries, results = runtime.session.get_inputs(), runtime.session.get_outputs()
    if len(entries) != 1 or len(results) != 1:
        raise Unsupported(
            f"'{path}' has {len(entries)} inputs and {len(results)} outputs: expected one of each"
        )
    if entries[0].type not in ("tensor(float)", "tensor(double)"):
        raise Unsupported(f"'{path}' takes {entries[0].type}: expected float or double")
    free = [not isinstance(d, int) or d < 1 for d in entries[0].shape]
    if any(free[1:]):
        raise Unsupported(f"'{path}': an input of shape {entries[0].shape} has no fixed size")
    shape = tuple(1 if f else int(d) for f, d in zip(free, entries[0].shape, strict=True))
    twin = graph.read(path, runtime.scores)
    try:
        return _Net(runtime, twin, shape)
    except (RuntimeError, ValueError, TypeError) as error:
        raise Unsupported(f"'{path}' cannot be run on one input: {_first(error)}") from None


def _questions(asked: Property, net: _Net) -> list[_Question]:
    """The cases by their boxes; cases that no input or no output can meet are left out."""
    boxes: dict[tuple[Any, Any], list[Case]] = {}
    for case in asked.cases:
        never = any(not c.weights and c.limit < 0 for c in case.conditions)
        if not case.empty and not never:
            boxes.setdefault((case.low, case.high), []).append(case)
    single = net.twin.dtype == torch.float32
    made = []
    for (low, high), cases in boxes.items():
        real = [[c for c in case.conditions if c.weights] for case in cases]
        flat = [(k, c) for k, held in enumerate(real) for c in held]
        weights = torch.zeros(len(flat), asked.outputs, dtype=torch.float64)
        for i, (_, c) in enumerate(flat):
            for j, w in c.weights:
                weights[i, j] = float(w)
        limits = torch.tensor([float(c.limit) for _, c in flat], dtype=torch.float64)
        sides = _representable(low, high, np.float32 if single else np.float64)
        of = torch.tensor([k for k, _ in flat], dtype=torch.int64)
        made.append(_Question(tuple(cases), *sides, weights, limits, of))
    return made


def _representable(
    low: tuple[Fraction, ...], high: tuple[Fraction, ...], kind: Any
) -> tuple[Tensor, Tensor]:
    """The lowest and highest numbers of a type in each interval; where there is none, the
    nearest."""
    out = np.empty((2, len(low)))
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        first, last = kind(float(a)), kind(float(b))
        if not (np.isfinite(first) and np.isfinite(last)):
            raise Unsupported(f"X_{i} reaches numbers that the network's type does not have")
        nearest = first
        if Fraction(float(first)) < a:
            first = np.nextafter(first, kind(np.inf))
        if Fraction(float(last)) > b:
            last = np.nextafter(last, kind(-np.inf))
        out[:, i] = (nearest, nearest) if first > last else (first, last)
    return torch.from_numpy(out[0]), torch.from_numpy(out[1])


def _confirmed(net: _Net, question: _Question, x: Tensor) -> Answer | None:
    """The answer sat, where onnxruntime says so, too."""
    y = net.answer(x.numpy())
    if not np.isfinite(y).all():
        return None
    exact = [Fraction(float(v)) for v in y]
    if any(all(c.holds(exact) for c in case.conditions) for case in question.cases):
        return Answer("sat", tuple(x.tolist()), tuple(float(v) for v in y))
    return None


def _searched(net: _Net, question: _Question, until: float) -> list[Tensor]:
    """Points of a box that may be counterexamples: ends of short ascents by signs of gradients."""
    low, high = question.low, question.high
    kind = net.twin.dtype
    draws = torch.Generator().manual_seed(0)
    count = max(_STARTS, min(len(question.cases), 4 * _STARTS))
    ends = []
    for start in range(count):
        if time.process_time() > until and start:
            break
        share = torch.rand(len(low), generator=draws, dtype=torch.float64)
        share = torch.full_like(share, 0.5) if start == 0 else share
        x = torch.minimum((low + share * (high - low)).to(kind).double().maximum(low), high)
        mine = question.of == start % len(question.cases)
        best, best_value = x, -math.inf
        for step in range(_STEPS):
            if len(mine) == 0 or not bool(mine.any()):
                break  # every point will do
            z = x.to(kind).requires_grad_()
            value = (question.limits - question.weights @ net.torch(z))[mine].min()
            if float(value.detach()) > best_value:
                best, best_value = x, float(value.detach())
            if best_value >= 0 or not value.requires_grad:
                break
            (slope,) = torch.autograd.grad(value, z)
            size = 0.25 * (high - low) * (1 - step / _STEPS)
            x = torch.minimum((x + size * slope.double().sign()).to(kind).double(), high)
            x = x.maximum(low)
        ends.append(best)
    return ends


def _proved(net: _Net, questions: list[_Question], until: float) -> Answer:
    """The answer unsat where every box is closed; sat where a part of one shows a point."""
    if not questions:
        return Answer("unsat")
    try:
        example = questions[0].low.to(net.twin.dtype).reshape(net.shape)
        program = read(exported(prepared(graph.GraphModule(net.twin).eval()), example, KNOWN))
        _answers_as_read(net, program, questions)
    except Unsupported as error:
        return Answer("unknown", why=str(error))
    for k, question in enumerate(questions):
        try:
            found = _closed(net, program, question, until)
        except _Late:
            return Answer("unknown", why=f"the time was over in box {k + 1} of {len(questions)}")
        if isinstance(found, Answer):
            return found
        if not found:
            return Answer(
                "unknown", why=f"box {k + 1} of {len(questions)} could not be cut further"
            )
        _audit(net, question)
    return Answer("unsat")


def _domain(question: _Question) -> Domain:
    """The box with everything that may be rounded into it."""
    low = question.low - _WIDE * question.low.abs() - _TINY
    high = question.high + _WIDE * question.high.abs() + _TINY
    return _boxes(low[None], high[None])


def _boxes(low: Tensor, high: Tensor) -> Domain:
    n, size = low.shape
    ones = torch.ones(size, dtype=torch.float64)
    eps = torch.zeros(n, 1, dtype=torch.float64)
    return Domain((low + high) / 2, low, high, math.inf, eps, ones, ones * 0)


def _answers_as_read(net: _Net, program: Program, questions: list[_Question]) -> None:
    """Refuse a graph to which onnxruntime gives answers outside the bounds of the point."""
    draws = torch.Generator().manual_seed(1)
    points = []
    for k in range(_POINTS):
        question = questions[k % len(questions)]
        share = torch.rand(len(question.low), generator=draws, dtype=torch.float64)
        x = question.low + share * (question.high - question.low)
        points.append(x.to(net.twin.dtype).double().maximum(question.low).minimum(question.high))
    point = torch.stack(points)
    network = _prepared(program, _boxes(point, point))
    low, high = (side.flatten(1) for side in network.bounds[len(program.operations) - 1])
    for k, x in enumerate(point):
        y = torch.from_numpy(net.answer(x.numpy()))
        if y.shape != low[k].shape or not bool(((y >= low[k]) & (y <= high[k])).all()):
            raise Unsupported("onnxruntime does not answer as the graph was read")


def _prepared(program: Program, held: Domain, signs: dict[int, Tensor] | None = None) -> Network:
    network = Network(program, held, signs or {})
    with torch.no_grad():
        network.prepare()
    return network


def _closed(net: _Net, program: Program, question: _Question, until: float) -> bool | Answer:
    """Is no case possible in the box? A point, where one turned up on the way."""
    count = len(question.cases)
    if len(torch.unique(question.of)) < count:
        return False  # a case without conditions
    held = _domain(question)
    network = _prepared(program, held)
    low, high = network.bounds[len(program.operations) - 1]
    size = torch.maximum(low.abs(), high.abs()).flatten()
    slack = _OWN * (question.weights.abs() @ size + question.limits.abs())
    spec = -question.weights.reshape(1, -1, *program.operations[-1].shape)

    def closed(lead: Tensor, at: Tensor) -> Tensor:
        """(n, cases) bool: has the case a condition, of those at `at`, that is met nowhere?"""
        if time.process_time() > until:
            raise _Late
        never = lead + (question.limits + slack)[at] < 0
        lost = torch.zeros(len(lead), count, dtype=torch.int64)
        lost.index_add_(1, question.of[at], never.long())
        return lost > 0

    every = torch.arange(len(question.of))
    with torch.no_grad():
        done = closed(network.highest(spec), every)[0]
        always = network.highest(-spec)[0] <= question.limits  # no help: it is met everywhere
    if bool(done.all()):
        return True
    if int((question.high > question.low).sum()) <= _FEW:
        return _halved(net, program, question, spec, lambda lead: closed(lead, every).all(1))
    hopeful = ~always
    at = (hopeful & ~done[question.of]).nonzero()[:, 0]
    if len(at):
        climbed, _ = climb(network, spec[:, at], _ALPHA)
        done = done | closed(climbed, at)[0]
    for case in (~done).nonzero()[:, 0].tolist():
        at = (hopeful & (question.of == case)).nonzero()[:, 0]
        if not len(at):
            return False

        def sure(lead: Tensor, _: Tensor, at: Tensor = at, case: int = case) -> Tensor:
            return closed(lead, at)[:, case]

        if not bool(branches(program, held, spec[:, at], sure, 2**40, network.bounds, early=False)):
            return False
    return True


def _halved(
    net: _Net, program: Program, question: _Question, spec: Tensor, sure: Callable[[Tensor], Tensor]
) -> bool | Answer:
    """The box cut in halves at the input that weighs most, until every part is closed."""
    whole = _domain(question)
    stack = [(whole.low, whole.high)]
    while stack:
        low, high = stack.pop()
        if len(low) > _PARTS:
            stack.append((low[_PARTS:], high[_PARTS:]))
            low, high = low[:_PARTS], high[:_PARTS]
        network = _prepared(program, _boxes(low, high))
        with torch.no_grad():
            specs = spec.expand(len(low), *spec.shape[1:])
            weight, _ = network.linear(specs)
            lead = network.highest(specs)
        left = ~sure(lead)
        low, high, weight, lead = (v[left] for v in (low, high, weight, lead))
        if not len(low):
            continue
        middle = (low[:1] + high[:1]) / 2
        x = middle[0].to(net.twin.dtype).double().maximum(question.low).minimum(question.high)
        found = _confirmed(net, question, x)
        if found is not None:
            return found
        width = high - low
        gain = (weight.abs().amax(1) + 1e-12) * width
        at = gain.argmax(1, keepdim=True)
        if bool((width.gather(1, at) <= 1e-9 * (1 + low.abs().gather(1, at))).any()):
            return False
        cut = (low.gather(1, at) + high.gather(1, at)) / 2
        stack.append(
            (torch.cat([low, low.scatter(1, at, cut)]), torch.cat([high.scatter(1, at, cut), high]))
        )
    return True


def _audit(net: _Net, question: _Question) -> None:
    """A few points of a box that was called unsat, asked of onnxruntime itself."""
    draws = torch.Generator().manual_seed(2)
    for k in range(_AUDIT):
        share = torch.rand(len(question.low), generator=draws, dtype=torch.float64)
        share = share.round() if k % 2 else share
        x = question.low + share * (question.high - question.low)
        x = x.to(net.twin.dtype).double().maximum(question.low).minimum(question.high)
        if _confirmed(net, question, x) is not None:
            raise Contradiction("a box was proven to hold no counterexample, and holds one")


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
