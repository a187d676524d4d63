"""A classifier as a program and how its answers become leads, checked against the classifier.

Read once for each classifier. Before it is trusted the network is asked about a few rows, twice:
its answers must lie within the program's bounds of those very points, which are as narrow as
rounding. A last softmax keeps the order of the classes and is left out; its rounding may turn leads
that are smaller than `slack`.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.model.answers import parts
from durometer.model.classifier import Classifier
from durometer.model.onnx import Runtime, module_of, readable
from durometer.proofs.aten.affine import Convolution
from durometer.proofs.aten.export import exported, prepared
from durometer.proofs.aten.program import Operation, Program
from durometer.proofs.aten.reader import KNOWN, read
from durometer.proofs.aten.rows import program_of
from durometer.proofs.aten.shares import Softmax
from durometer.proofs.aten.state import held_state, tensor_bytes
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain

_INSTEAD = "use an attack alone, or Enumerate"


@dataclass(frozen=True, eq=False)
class Reading:
    """A program whose last numbers, times `matrix` plus `shift`, order the classes."""

    program: Program
    matrix: Tensor  # (classes, numbers of the output)
    shift: Tensor  # (classes,)
    heads: tuple[Softmax, ...]  # left out
    made_of: tuple[Any, ...]  # the weights as they were

    def spec(self, leads: Tensor) -> tuple[Tensor, Tensor]:
        """Leads of classes (n, m, C) as weights on the output (n, m, *shape), and what is added."""
        shape = self.program.operations[-1].shape
        weights = leads @ self.matrix
        return weights.reshape(*leads.shape[:2], *shape), leads @ self.shift

    @property
    def turns(self) -> bool:
        """May rounding after the last number turn a lead?"""
        return bool(self.heads) or bool((self.shift != 0).any())

    def margins(self, clean: Tensor) -> Tensor:
        """Clean scores (n, C) on the scale of the leads: a softmax was left out."""
        scores = clean.cpu().double()
        peeled = any(not head.log for head in self.heads)
        return scores.log() if peeled and bool((scores >= 0).all()) else scores

    def slack(self, network: Network) -> Tensor:
        """(n,): the lead that rounding in a softmax may turn."""
        low, high = network.bounds[len(self.program.operations) - 1]
        size = torch.maximum(low.abs(), high.abs()).flatten(1).amax(1)
        total = torch.zeros_like(size)
        for head in self.heads:
            terms = math.prod(head.shape) + 38
            if head.log:
                total = total + 2 * terms * head.unit * (1 + 3 * size)
            else:
                total = total + 2.1 * (terms + 2 * (2 * size).clamp_max(110.0)) * head.unit
        if bool((self.shift != 0).any()):  # 1 - p, in the model's own precision
            total = total + 4 * self.program.operations[-1].unit
        return total


_READ: weakref.WeakKeyDictionary[Classifier, Reading] = weakref.WeakKeyDictionary()


def read_model(model: Classifier, x: Tensor) -> Reading:
    """The program of a classifier; `x` (n, ...) are inputs of it."""
    if model.bound:
        raise Unsupported(
            f"{model.title}: its answers depend on the row they are measured against, which no "
            f"bound knows; {_INSTEAD}"
        )
    graph = model.module is None and readable(model)
    weights = [] if graph else _weights(model.module)
    made_of = (tuple(x.shape[1:]), x.dtype, *weights)
    held = _READ.get(model)
    if held is None or held.made_of != made_of:
        held = _READ[model] = (_read_graph if graph else _read)(model, x, made_of)
    elif not graph:
        _kernels(held.program, x)
    return held


def _weights(module: Any) -> list[Any]:
    """Whatever the program was made of: weights by their bytes (`.data` leaves no trace of a
    write), layers, their arguments and hooks."""
    tensors = (*module.parameters(), *module.buffers())
    numbers = [tensor_bytes(t) for t in tensors]
    return [*numbers, [id(m) for m in module.modules()], held_state(module)]


def _read_graph(model: Classifier, x: Tensor, made_of: tuple[Any, ...]) -> Reading:
    """Of an ONNX file: its graph in torch is read, its answers are the runtime's."""
    if model.answers == "labels":
        raise Unsupported(f"Bounds reads scores, and this graph answers labels; {_INSTEAD}")
    module = module_of(model)
    if not module.held.dtype.is_floating_point:
        raise Unsupported(f"Bounds: the graph takes {module.held.dtype}, no numbers; {_INSTEAD}")
    x = x.cpu().to(module.held.dtype)
    if isinstance(model.call, Runtime) and model.call.alone:  # no row ever meets another
        program = read(exported(prepared(module.eval()), x[:1], KNOWN))
    else:
        program = program_of(module.eval(), x[:1], graph=True)
    _answers_as_read(program, x, lambda rows: torch.as_tensor(model.call(rows)))
    return _headless(model, program, made_of)


def _read(model: Classifier, x: Tensor, made_of: tuple[Any, ...]) -> Reading:
    if model.takes != "tensor" or model.answers == "labels":
        raise Unsupported(
            f"Bounds reads networks that take a tensor and answer scores; this one takes "
            f"{model.takes!r} and answers {model.answers}; {_INSTEAD}"
        )
    first = next(model.module.parameters(), None)
    if first is not None and x.is_floating_point():
        x = x.to(first.device, first.dtype)  # as the model is asked
    with torch.no_grad():
        several = not isinstance(model.module(x[:1].clone()), Tensor)
    network = _Part(model.module, model.part) if several else model.module
    program = program_of(network, x[:1])
    _kernels(program, x)
    _answers_as_read(program, x, network)
    return _headless(model, program, made_of)


def _headless(model: Classifier, program: Program, made_of: tuple[Any, ...]) -> Reading:
    """The program without a last softmax, which keeps the order of the classes."""
    matrix, shift = _classes(model, program.operations[-1])
    heads: list[Softmax] = []
    operations = list(program.operations)
    while isinstance(head := operations[-1], Softmax) and _over_all(head):
        heads.append(head)
        operations = operations[: head.inputs[0] + 1]
    if heads and bool((shift != 0).any()):
        raise Unsupported("Bounds: one probability by a softmax")
    return Reading(
        replace(program, operations=tuple(operations)), matrix, shift, tuple(heads), made_of
    )


class _Part(torch.nn.Module):
    """A network that gives several outputs, as one that gives the part with the answers."""

    def __init__(self, network: torch.nn.Module, part: str) -> None:
        super().__init__()
        self.network, self.part = network, part
        self.training = network.training

    def forward(self, x: Tensor) -> Any:
        out = self.network(x)
        out = out.logits if hasattr(out, "logits") else out
        found = parts(out)
        if found is None:
            return out
        if len(found) > 1 and self.part not in found:
            raise Unsupported(f"Bounds: which of {len(found)} outputs holds the answers is unknown")
        return found[self.part] if len(found) > 1 else next(iter(found.values()))


def _over_all(head: Softmax) -> bool:
    """Over all numbers of a row: then it keeps their order."""
    return math.prod(head.shape) == head.shape[head.axis]


def _classes(model: Classifier, last: Operation) -> tuple[Tensor, Tensor]:
    """How the output becomes one score for each class, as `Classifier.logits` does it."""
    count = math.prod(last.shape)
    if count > 1:
        matrix = torch.eye(count, dtype=torch.float64)
        shift = torch.zeros(count, dtype=torch.float64)
    elif model.answers == "probabilities":
        matrix = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
        shift = torch.tensor([1.0, 0.0], dtype=torch.float64)
    else:
        matrix = torch.tensor([[-0.5], [0.5]], dtype=torch.float64)
        shift = torch.zeros(2, dtype=torch.float64)
    if model.order is not None:
        matrix, shift = matrix[list(model.order)], shift[list(model.order)]
    return matrix, shift


def _kernels(program: Program, x: Tensor) -> None:
    """The bounds of rounding are about kernels that add products in the type they say."""
    coarse = _coarse_products()
    if coarse:
        raise Unsupported(
            f"Bounds: {coarse}, so products are rounded more than single precision does; set it "
            f"back, or {_INSTEAD}"
        )
    convolves = any(isinstance(op, Convolution) for op in program.operations)
    if x.device.type == "cpu":
        backends: Any = torch.backends
        fused = backends.mkldnn.is_available() and backends.mkldnn.enabled
        if convolves and not fused and backends.nnpack.is_available():
            raise Unsupported(
                "Bounds: without mkldnn torch may convolve by NNPACK, whose rounding has no known "
                f"bound; enable torch.backends.mkldnn, or {_INSTEAD}"
            )
    elif x.device.type == "cuda" and (
        torch.backends.cuda.matmul.allow_tf32 or (convolves and torch.backends.cudnn.allow_tf32)
    ):
        raise Unsupported(
            f"Bounds: the device may round products to TF32; switch that off, or {_INSTEAD}"
        )


def _coarse_products() -> str:
    """Which of torch's settings lets products of single precision be rounded more; "": none."""
    backends: Any = torch.backends
    for name in ("conv", "matmul"):  # torch 2.9 and later; "none": what the older setting says
        held = getattr(getattr(backends.mkldnn, name, None), "fp32_precision", "none")
        if held not in ("none", "ieee"):
            return f"torch.backends.mkldnn.{name}.fp32_precision is {held!r}"
    if os.environ.get("ONEDNN_DEFAULT_FPMATH_MODE", "STRICT").upper() not in ("", "STRICT"):
        return f"ONEDNN_DEFAULT_FPMATH_MODE is {os.environ['ONEDNN_DEFAULT_FPMATH_MODE']}"
    try:
        if torch.get_float32_matmul_precision() == "highest":
            return ""
    except RuntimeError:  # both kinds of setting were used, so torch itself cannot tell
        pass
    return "torch.set_float32_matmul_precision is not 'highest'"


def _answers_as_read(program: Program, x: Tensor, ask: Callable[[Tensor], Any]) -> None:
    """Refuse a network whose answers are outside the program's bounds of the point."""
    seen = x if program.encoder is None else program.encoder(x)
    point = seen.detach().cpu().double().flatten(1)
    n, size = point.shape
    flat = torch.ones(size, dtype=torch.float64)
    eps = torch.zeros(n, 1, dtype=torch.float64)
    network = Network(program, Domain(point, point, point, math.inf, eps, flat, flat * 0))
    with torch.no_grad():
        network.prepare()
        low, high = (side.flatten(1) for side in network.bounds[len(program.operations) - 1])
        for _ in range(2):
            out = ask(x.clone()).detach().cpu().double().reshape(n, -1)
            if out.shape != low.shape or bool(((out < low) | (out > high)).any()):
                raise Unsupported(
                    "Bounds: the network does not answer as it was read, or answers differently "
                    f"twice; {_INSTEAD}"
                )
