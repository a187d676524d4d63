"""A torch module as a list of steps that bounds can walk (`steps.py` says which kinds there are).

The module is traced with an example (`tracing.py`); what does not depend on the input is folded
into constants; layer norm and attention become several steps (`bilinear.py`).

What a reader would get wrong: an unknown step is refused by name. Guessing that it is harmless
would be a wrong proof. So is a step that moves the rows of a batch away from the first axis.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from durometer.core.errors import Unsupported
from durometer.proofs.bounds.bilinear import attention, bilinear, layer_norm, plain_attention
from durometer.proofs.bounds.crown import CONVEX, SMOOTH
from durometer.proofs.bounds.steps import (
    Bound,
    Step,
    bent,
    either,
    log_softmax_bounds,
    monotone,
    softmax_bounds,
)
from durometer.proofs.bounds.tracing import graph_of, is_table_input


def trace(
    module: nn.Module, example: Tensor, unit: float = 2.0**-24
) -> tuple[list[Step], nn.Module | None]:
    """The steps of a module in order, and its table input where it has one.

    `example` (1, ...) is an input as the module takes it; `unit` is what its arithmetic rounds by.
    """
    module = nn.Sequential(module)  # a layer by itself is a layer, too
    graph, rows = graph_of(module, example)
    reading = _Reading(module, rows)
    for node in graph.nodes:
        reading.add(node)
    steps = reading.steps
    while steps[-1].curve == "softmax head":
        steps.pop()  # keeps the order of the classes
    return [replace(step, unit=unit) for step in steps], reading.first


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
        if getattr(m, "inplace", False) and type(m) not in _SAME:  # dropout writes nothing here
            self._overwrites(node)
            m = copy.copy(m)
            vars(m)["inplace"] = False  # or bounds that are kept would be overwritten
        self.steps += _module(node.name, self._variables(node), m, node.meta["value"].ndim)

    def _operation(self, node: fx.Node) -> None:
        if node.target in _CASTS:
            if node.args[0] in self._constants:  # of the input's type
                self._constants[node] = node.meta["value"]
                return
            _keeps_value(node, self._constants)
            self._alias[node] = self._named(node.args[0])  # type: ignore[arg-type]
            return
        if node.target is functional.dropout:
            given = _arguments(node, ("p", "training", "inplace"))
            if given.get("training", True) is not False or given.get("inplace"):
                raise Unsupported(
                    f"Bounds: the dropout '{node.name}' draws in evaluation, too; give it "
                    "training=self.training, or use an attack alone"
                )
            self._alias[node] = self._variables(node)[0]
            return
        if node.target is operator.iadd or _arguments(node, _NAMES.get(node.target, ())).get(
            "inplace"
        ):
            self._overwrites(node)
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
                Step(node.name, "affine", self._variables(source), part, monotone(part), terms=0)
            )
            return
        self.steps += _function(node, self._variables(node), self._constants, self._rows)

    def _overwrites(self, node: fx.Node) -> None:
        """A step that writes into what it takes: nobody else may look at that."""
        held: Any = node.args[0]
        made = isinstance(held, fx.Node) and (
            type(self._modules.get(str(held.target))) in _NEW
            if held.op == "call_module"
            else held.op == "call_function" and held.target in _NEW
        )
        if not made or set(held.users) != {node}:
            raise Unsupported(
                f"Bounds: '{node.name}' changes in place what '{held}' gave, which is or may be "
                "used elsewhere; write it without inplace=True or +=, or use an attack alone"
            )

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


def _arguments(node: fx.Node, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments behind the first, by name."""
    return dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)


def _keeps_value(node: fx.Node, constants: dict[fx.Node, Any]) -> None:
    """Refuse a cast to anything but single or double precision."""
    for value in (*node.args[1:], *node.kwargs.values()):
        held = value.meta["value"] if isinstance(value, fx.Node) else value
        dtype = held.dtype if isinstance(held, Tensor) else held
        if isinstance(dtype, torch.dtype) and dtype not in (torch.float32, torch.float64):
            raise Unsupported(
                f"Bounds: '{node.name}' casts to {dtype}, which changes values; use an attack alone"
            )


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
        target: Any = operator.add if node.target is operator.iadd else node.target
        return target(*args, **kwargs)

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

_MOVES = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Flatten,
    nn.Unflatten,
    nn.ZeroPad2d,
)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_LARGEST = (nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)


def _module(name: str, inputs: tuple[str, ...], m: nn.Module, ndim: int) -> list[Step]:
    if type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d) and _plain(m):
        weight: Any = m.weight
        return [Step(name, "affine", inputs, m, _weighted(m), terms=weight[0].numel() + 2)]
    if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) and type(m) in _NORMS:
        if m.running_mean is None or m.running_var is None:
            raise Unsupported(
                f"Bounds: {type(m).__name__} ('{name}') has no running statistics and takes those "
                "of the rows it is asked with; use an attack alone"
            )
        return [Step(name, "affine", inputs, m, either(m), terms=10, size=partial(_normed, m))]
    if type(m) in _SAME:
        terms = 0 if type(m) in _MOVES else None
        return [Step(name, "affine", inputs, m, monotone(m), terms=terms)]
    if isinstance(m, _LARGEST) and type(m) in _LARGEST and not m.return_indices:
        return [Step(name, "pooled", inputs, m, monotone(m))]
    if isinstance(m, nn.LayerNorm) and type(m) is nn.LayerNorm:
        return layer_norm(name, inputs, m)
    if type(m) in (nn.Softmax, nn.LogSoftmax) and isinstance(m.dim, int):
        return [_soft(name, inputs, m, m.dim, ndim, isinstance(m, nn.LogSoftmax))]
    curve = _BENT.get(type(m))
    if curve is None or not _plain(m):
        raise Unsupported(
            f"Bounds does not know the layer {type(m).__name__} ('{name}'); it knows Linear, Conv, "
            "BatchNorm, LayerNorm, pooling, ReLU, LeakyReLU, Sigmoid, Tanh, GELU, SiLU, ELU, "
            "Softplus, softmax heads and sums. An attack alone, or Enumerate, needs no layers"
        )
    slope = m.negative_slope if isinstance(m, nn.LeakyReLU) else 0.0
    return [_curved(name, inputs, curve, slope)]


def _normed(m: Any, size: Tensor) -> Tensor:
    """|a| |x| + |mean a| + |bias|: what a batch normalisation's roundings are a share of."""
    scale = (m.running_var + m.eps).rsqrt()
    scale = scale if m.weight is None else scale * m.weight.abs()
    shift = m.running_mean.abs() * scale + (0.0 if m.bias is None else m.bias.abs())
    wide = (1, -1, *[1] * (size.ndim - 2))
    out: Tensor = size * scale.reshape(wide) + shift.reshape(wide)
    return out


def _curved(name: str, inputs: tuple[str, ...], curve: str, slope: float) -> Step:
    """A curve with the usual arguments; a leaky ReLU with a slope that its lines are about."""
    if curve == "leaky" and not 0 <= slope <= 1:
        raise Unsupported(f"Bounds: the leaky ReLU '{name}' has slope {slope:g}, not in [0, 1]")
    calls: dict[str, Callable[..., Any]] = {
        "relu": torch.relu, "leaky": partial(functional.leaky_relu, negative_slope=slope)
    }  # fmt: skip
    known: Any = SMOOTH.get(curve) or CONVEX.get(curve)
    return bent(name, inputs, curve, calls[curve] if curve in calls else known[0], slope)


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
    usual = {
        "padding_mode": "zeros", "approximate": "none", "alpha": 1.0, "beta": 1.0, "threshold": 20.0
    }  # fmt: skip
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
_REDUCES = {
    torch.mean, torch.sum, "mean", "sum", functional.avg_pool2d, functional.adaptive_avg_pool2d,
}  # fmt: skip
_CASTS = {"float", "double", "to", "detach", "clone"}
_NEW = {  # whose result lies in memory of its own
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, *_BENT,
    operator.add, torch.add, operator.iadd, operator.sub, torch.sub, operator.mul, torch.mul,
    *(f for f in _SMOOTH if not isinstance(f, str)),
}  # fmt: skip
_NAMES: dict[Any, tuple[str, ...]] = {  # of the arguments behind the first
    functional.leaky_relu: ("negative_slope", "inplace"), functional.elu: ("alpha", "inplace"),
    functional.relu: ("inplace",), functional.silu: ("inplace",),
    functional.gelu: ("approximate",), functional.softplus: ("beta", "threshold"),
}  # fmt: skip
_USUAL = {"alpha": 1.0, "approximate": "none", "beta": 1.0, "threshold": 20.0}
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
        given = _arguments(node, _NAMES.get(target, ()))
        odd = {k: v for k, v in given.items() if k in _USUAL and v != _USUAL[k]}
        known = {*_USUAL, "inplace", "negative_slope", "input"}
        if odd or not known >= given.keys() or len(node.args) > 1 + len(_NAMES.get(target, ())):
            raise Unsupported(f"Bounds: '{name}' has arguments that it has no bounds for: {given}")
        slope = float(given.get("negative_slope", 0.01)) if target is functional.leaky_relu else 0.0
        return [_curved(name, variables, _SMOOTH[target], slope)]
    if target in (operator.pow, torch.pow, "pow") and (*node.args, None)[1] == 2:
        return [_curved(name, variables, "square", 0.0)]
    odd = {k: v for k, v in node.kwargs.items() if k in ("alpha", "out", "dtype", "rounding_mode")}
    if odd or (target in (torch.add, torch.sub) and len(node.args) > 2):
        raise Unsupported(f"Bounds: '{name}' has arguments that it has no bounds for: {odd}")
    if target in _RESHAPE:
        terms = None if target in _REDUCES else 0
        return [Step(name, "affine", variables, call, monotone(call), terms=terms)]
    if target in (operator.add, operator.iadd, torch.add):
        return [Step(name, "affine", variables, call, monotone(call), terms=3)]
    if target in _MAXIMA and isinstance(node.meta["value"], Tensor):  # not its places, too
        return [Step(name, "pooled", variables, call, monotone(call))]
    if target in (operator.sub, torch.sub) and len(variables) == 2:
        return [Step(name, "affine", variables, call,
                     lambda a, b: (call(a[0], b[1]), call(a[1], b[0])), terms=3)]  # fmt: skip
    occurs: list[fx.Node] = []  # x * x names its one variable twice
    fx.map_arg((node.args, node.kwargs), lambda a: occurs.append(a) if a not in constants else None)
    if target in _PRODUCTS and len(occurs) == 2 and len(variables) == 2:
        return [bilinear(name, (variables[0], variables[1]), call, target in _POINTWISE)]
    linear = (operator.sub, torch.sub, operator.mul, torch.mul, operator.truediv, operator.neg)
    divides = target is operator.truediv and node.args[0] not in occurs
    if target in linear and len(occurs) == 1 and not divides:
        return [Step(name, "affine", variables, call, either(call), terms=4)]
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
