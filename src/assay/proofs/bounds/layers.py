"""A torch module as a list of steps that bounds can walk (`steps.py` says which kinds there are).

The module is traced with an example (`tracing.py`); what does not depend on the input is folded
into constants; layer norm and attention become several steps (`bilinear.py`).

What a reader would get wrong: an unknown step is refused by name. Guessing that it is harmless
would be a wrong proof. So is a step that moves the rows of a batch away from the first axis.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from assay.errors import Unsupported
from assay.proofs.bounds.bilinear import attention, bilinear, layer_norm, plain_attention
from assay.proofs.bounds.steps import (
    Bound,
    Step,
    bent,
    either,
    log_softmax_bounds,
    monotone,
    softmax_bounds,
)
from assay.proofs.bounds.tracing import graph_of, is_table_input


def trace(module: nn.Module, example: Tensor) -> tuple[list[Step], nn.Module | None]:
    """The steps of a module in order, and its table input where it has one.

    `example` (1, ...) is an input as the module takes it.
    """
    module = nn.Sequential(module)  # a layer by itself is a layer, too
    graph, rows = graph_of(module, example)
    reading = _Reading(module, rows)
    for node in graph.nodes:
        reading.add(node)
    steps = reading.steps
    while steps[-1].curve == "softmax head":
        steps.pop()  # keeps the order of the classes
    return steps, reading.first


class _Reading:
    """The steps so far, by the nodes they come from."""

    def __init__(self, module: nn.Module, rows: int) -> None:
        self._rows = rows  # of the example
        self._modules = dict(module.named_modules())
        self._alias: dict[fx.Node, str] = {}
        self._constants: dict[fx.Node, Any] = {}
        self._several: set[fx.Node] = set()  # give several tensors: read with what takes one
        self.steps: list[Step] = []
        self.first: nn.Module | None = None

    def add(self, node: fx.Node) -> None:
        """One more node."""
        if node.op == "placeholder":
            self.steps.append(Step(node.name, "input", (), _same, monotone(_same)))
        elif node.op == "output":
            held: Any = node.args[0]
            last = self._named(held[0] if isinstance(held, tuple) else held)
            at = next(k for k, s in enumerate(self.steps) if s.name == last)
            self.steps = self.steps[: at + 1]
        elif node.op == "get_attr" or (
            node.all_input_nodes and all(a in self._constants for a in node.all_input_nodes)
        ):
            value = node.meta["value"]
            if isinstance(value, Tensor) and value.ndim and value.shape[0] == self._rows:
                raise Unsupported(f"Bounds: '{node.name}' makes one constant for each row")
            self._constants[node] = value
        elif node.op == "call_module":
            self._layer(node, self._modules[str(node.target)])
        else:
            self._operation(node)

    def _named(self, node: fx.Node) -> str:
        return self._alias.get(node, node.name)

    def _variables(self, node: fx.Node) -> tuple[str, ...]:
        return tuple(self._named(a) for a in node.all_input_nodes if a not in self._constants)

    def _layer(self, node: fx.Node, m: nn.Module) -> None:
        if is_table_input(m):
            if self.steps[-1].kind != "input":
                raise Unsupported("Bounds: a table input behind other layers")
            self.first = m
            self._alias[node] = self.steps[-1].name
            return
        self._first_axis(node)
        self.steps += _module(node.name, self._variables(node), m, node.meta["value"].ndim)

    def _operation(self, node: fx.Node) -> None:
        if node.target in _CASTS or node.target is functional.dropout:
            self._alias[node] = self._variables(node)[0]
            return
        if node.target in _SPLITS:
            self._several.add(node)
            return
        self._first_axis(node)
        source = node.args[0] if node.args else None
        if isinstance(source, fx.Node) and source in self._several:
            call = _call(source, self._constants, self._rows)
            index: Any = node.args[1]

            def part(*values: Tensor) -> Tensor:
                found: Tensor = call(*values)[index]
                return found

            self.steps.append(
                Step(node.name, "affine", self._variables(source), part, monotone(part))
            )
            return
        self.steps += _function(node, self._variables(node), self._constants, self._rows)

    def _first_axis(self, node: fx.Node) -> None:
        """Rows of a batch must stay apart, on the first axis."""
        value = node.meta["value"]
        if not isinstance(value, Tensor) or not value.ndim or value.shape[0] != self._rows:
            raise Unsupported(
                f"Bounds: '{node.name}' does not keep the rows of a batch on the first axis; "
                "write it so that it does, or use an attack alone"
            )


def _same(x: Tensor) -> Tensor:
    return x


def _call(node: fx.Node, constants: dict[fx.Node, Any], traced: int) -> Callable[..., Any]:
    """What a node computes from its variables, for any number of rows."""

    def call(*values: Any) -> Any:
        rows = len(values[0])
        held: dict[fx.Node, Any] = dict(constants)
        held |= zip((a for a in node.all_input_nodes if a not in constants), values, strict=True)
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: held[n])
        if node.target in _SHAPED:
            args = (args[0], *_resized(args[1:], traced, rows))
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    return call


def _resized(size: Any, traced: int, rows: int) -> Any:
    """The example's number of rows, where a shape names it, replaced."""
    if isinstance(size, tuple | list):
        return tuple(_resized(s, traced, rows) for s in size)
    return rows if isinstance(size, int) and size == traced else size


def _weighted(module: nn.Module) -> Callable[..., Bound]:
    """Centre and radius through a layer with weights: the radius by their absolute values."""

    def interval(side: Bound) -> Bound:
        centre, radius = (side[0] + side[1]) / 2, (side[1] - side[0]) / 2
        middle = module(centre)
        weight: Any = module.weight
        size = weight.abs()
        if isinstance(module, nn.Linear):
            spread = functional.linear(radius, size)
        else:
            held: Any = module
            turn = functional.conv1d if isinstance(module, nn.Conv1d) else functional.conv2d
            spread = turn(radius, size, None, held.stride, held.padding, held.dilation, held.groups)
        return middle - spread, middle + spread

    return interval


_BENT = {
    nn.ReLU: "relu", nn.LeakyReLU: "leaky", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh",
    nn.GELU: "gelu", nn.SiLU: "silu", nn.ELU: "elu", nn.Softplus: "softplus",
}  # fmt: skip
_SAME = (
    nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Flatten, nn.Unflatten, nn.ZeroPad2d,
    nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
)  # fmt: skip

_LARGEST = (nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)


def _module(name: str, inputs: tuple[str, ...], m: nn.Module, ndim: int) -> list[Step]:
    if type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d) and _plain(m):
        return [Step(name, "affine", inputs, m, _weighted(m))]
    if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) and m.track_running_stats:
        return [Step(name, "affine", inputs, m, either(m))]
    if isinstance(m, _SAME):
        return [Step(name, "affine", inputs, m, monotone(m))]
    if isinstance(m, _LARGEST) and not m.return_indices:
        return [Step(name, "pooled", inputs, m, monotone(m))]
    if isinstance(m, nn.LayerNorm):
        return layer_norm(name, inputs, m)
    if isinstance(m, nn.Softmax | nn.LogSoftmax) and m.dim is not None:
        return [_soft(name, inputs, m, m.dim, ndim, isinstance(m, nn.LogSoftmax))]
    curve = _BENT.get(type(m))
    if curve is None or not _plain(m):
        raise Unsupported(
            f"Bounds does not know the layer {type(m).__name__} ('{name}'); it knows Linear, Conv, "
            "BatchNorm, LayerNorm, pooling, ReLU, LeakyReLU, Sigmoid, Tanh, GELU, SiLU, ELU, "
            "Softplus, softmax heads and sums. An attack alone, or Enumerate, needs no layers"
        )
    slope = m.negative_slope if isinstance(m, nn.LeakyReLU) else 0.0
    return [bent(name, inputs, curve, m, slope)]


def _soft(
    name: str, inputs: tuple[str, ...], call: Callable[..., Any], dim: int, ndim: int, log: bool
) -> Step:
    """Shares along an axis that is not the rows'; over two axes they keep the classes' order."""
    at = dim % ndim
    if at == 0:
        raise Unsupported(f"Bounds: the softmax '{name}' goes over the rows of a batch")
    found = log_softmax_bounds if log else softmax_bounds
    head = "softmax head" if ndim == 2 else ""
    return Step(name, "interval", inputs, call, lambda s: found(s, at), head)


def _plain(m: nn.Module) -> bool:
    """With the settings that the rules here are about."""
    usual = {"padding_mode": "zeros", "approximate": "none", "alpha": 1.0, "beta": 1.0}
    return all(getattr(m, name, value) == value for name, value in usual.items())


_SMOOTH: dict[Any, str] = {
    functional.leaky_relu: "leaky", functional.gelu: "gelu", functional.silu: "silu",
    functional.elu: "elu", functional.softplus: "softplus", functional.relu: "relu",
    torch.relu: "relu", "relu": "relu", torch.sigmoid: "sigmoid", functional.sigmoid: "sigmoid",
    "sigmoid": "sigmoid", torch.tanh: "tanh", functional.tanh: "tanh", "tanh": "tanh",
    torch.square: "square", "square": "square", torch.exp: "exp", "exp": "exp",
}  # fmt: skip
_RESHAPE = {
    torch.flatten, torch.cat, torch.squeeze, torch.unsqueeze, torch.permute, torch.mean, torch.sum,
    torch.reshape, torch.stack, torch.transpose, operator.getitem, functional.avg_pool2d,
    functional.adaptive_avg_pool2d,
    "flatten", "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze", "mean", "sum",
    "contiguous",
}  # fmt: skip
_MAXIMA = {
    functional.max_pool1d, functional.max_pool2d, functional.adaptive_max_pool1d,
    functional.adaptive_max_pool2d, torch.max_pool1d, torch.max_pool2d, torch.amax, "amax",
}  # fmt: skip
_CASTS = {"float", "double", "to", "detach", "clone"}
_SPLITS = {torch.split, torch.chunk, torch.unbind, "split", "chunk", "unbind"}
_POINTWISE = {operator.mul, torch.mul, "mul"}
_SHAPED = {"view", "reshape", "expand", torch.reshape}
_PRODUCTS = {operator.mul, torch.mul, "mul", operator.matmul, torch.matmul, torch.bmm, "matmul"}


def _function(
    node: fx.Node, variables: tuple[str, ...], constants: dict[fx.Node, Any], traced: int
) -> list[Step]:
    """The steps of a function or method."""
    target, name = node.target, node.name
    call = _call(node, constants, traced)
    if target in _SMOOTH:
        slope = 0.0
        if target is functional.leaky_relu:
            slope = float(node.kwargs.get("negative_slope", (*node.args, 0.01)[1]))  # type: ignore[arg-type]
        return [bent(name, variables, _SMOOTH[target], call, slope)]
    if target in (operator.pow, torch.pow, "pow") and (*node.args, None)[1] == 2:
        return [bent(name, variables, "square", call)]
    if target in _RESHAPE or target in (operator.add, operator.iadd, torch.add):
        return [Step(name, "affine", variables, call, monotone(call))]
    if target in _MAXIMA and isinstance(node.meta["value"], Tensor):  # not its places, too
        return [Step(name, "pooled", variables, call, monotone(call))]
    if target in (operator.sub, torch.sub) and len(variables) == 2:
        return [Step(name, "affine", variables, call,
                     lambda a, b: (call(a[0], b[1]), call(a[1], b[0])))]  # fmt: skip
    occurs: list[fx.Node] = []  # x * x names its one variable twice
    fx.map_arg((node.args, node.kwargs), lambda a: occurs.append(a) if a not in constants else None)
    if target in _PRODUCTS and len(occurs) == 2 and len(variables) == 2:
        return [bilinear(name, (variables[0], variables[1]), call, target in _POINTWISE)]
    linear = (operator.sub, torch.sub, operator.mul, torch.mul, operator.truediv, operator.neg)
    divides = target is operator.truediv and node.args[0] not in occurs
    if target in linear and len(occurs) == 1 and not divides:
        return [Step(name, "affine", variables, call, either(call))]
    if target in (functional.softmax, torch.softmax, "softmax"):
        dim: Any = node.kwargs.get("dim", (*node.args, None)[1])
        if isinstance(dim, int):
            return [_soft(name, variables, call, dim, node.meta["value"].ndim, False)]
    attends = target is functional.scaled_dot_product_attention and len(variables) == 3
    if attends and plain_attention(node.args, node.kwargs):
        width = node.args[0].meta["value"].shape[-1]  # type: ignore[union-attr]
        return attention(name, variables, node.kwargs.get("scale"), width)  # type: ignore[arg-type]
    said = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    raise Unsupported(
        f"Bounds does not know the operation '{said}' of two or more varying parts, or at all; "
        "write it with layers that Bounds knows, or use an attack alone"
    )
