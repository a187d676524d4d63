"""A torch module as a list of steps that bounds can walk: affine, bent, or known by intervals only.

The module is traced (torch.fx) and each step is one of

    affine      any fixed map L u + b: linear, convolution, batch norm (eval), average pooling,
                reshaping, adding, joining. Walking back needs no formula of its own: autograd of an
                affine map *is* its transpose
    bent        one number at a time: ReLU and its kin exactly, smooth ones between two parallels
    pooled      the largest of several: at least the one that is surely large
    interval    layer norm, softmax: bounds of the outputs, from bounds of the inputs

What a reader would get wrong: an unknown step is refused by name. Guessing that it is harmless
would be a wrong proof.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from assay.errors import Unsupported

Bound = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Step:
    """One node: what it computes, from which nodes, and how bounds pass it."""

    name: str
    kind: str  # "input", "affine", "bent", "pooled", "interval"
    inputs: tuple[str, ...]
    call: Callable[..., Any]  # of the inputs' values
    interval: Callable[..., Bound]  # of the inputs' bounds
    curve: str = ""  # of a bent step
    slope: float = 0.0  # of a leaky ReLU


def is_table_input(module: nn.Module) -> bool:
    """The first layer of networks for tables: its output is where bounds begin."""
    return all(hasattr(module, name) for name in ("numbers", "one_hot_groups", "codes", "width"))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, name: str) -> bool:
        return is_table_input(m) or super().is_leaf_module(m, name)


def trace(module: nn.Module) -> tuple[list[Step], nn.Module | None]:
    """The steps of a module in order, and its table input where it has one."""
    said = type(module).__name__
    module = nn.Sequential(module)  # a layer by itself is a layer, too
    try:
        graph = _Tracer().trace(module)
    except Exception as error:  # whatever fx stumbles over: a loop, a branch on values
        raise Unsupported(
            f"Bounds cannot trace {said} (torch.fx: {error}); write its forward "
            "without branches on values, or use an attack alone"
        ) from None
    modules = dict(module.named_modules())
    steps: list[Step] = []
    alias: dict[str, str] = {}
    first: nn.Module | None = None
    constants: dict[fx.Node, Tensor] = {}

    def named(node: fx.Node) -> str:
        return alias.get(node.name, node.name)

    for node in graph.nodes:
        variables = tuple(named(a) for a in node.all_input_nodes if a not in constants)
        if node.op == "placeholder":
            steps.append(Step(node.name, "input", (), _same, _monotone(_same)))
        elif node.op == "get_attr":
            constants[node] = operator.attrgetter(str(node.target))(module).detach()
        elif node.op == "call_module" and is_table_input(modules[str(node.target)]):
            if steps[-1].kind != "input":
                raise Unsupported("Bounds: a table input behind other layers")
            first = modules[str(node.target)]
            alias[node.name] = steps[-1].name
        elif node.op == "call_module":
            steps.append(_module(node.name, variables, modules[str(node.target)]))
        elif node.op in ("call_function", "call_method"):
            step = _function(node, variables, constants)
            if step is None:
                alias[node.name] = variables[0]
            else:
                steps.append(step)
        elif node.op == "output":
            held = node.args[0][0] if isinstance(node.args[0], tuple) else node.args[0]
            last = named(held)
            at = next(k for k, s in enumerate(steps) if s.name == last)
            steps = steps[: at + 1]
    while steps[-1].curve == "softmax" or steps[-1].call is _log_softmax:
        steps.pop()  # keeps the order of the classes
    return steps, first


def _same(x: Tensor) -> Tensor:
    return x


def _log_softmax(x: Tensor) -> Tensor:
    return functional.log_softmax(x, 1)


def _monotone(call: Callable[..., Tensor]) -> Callable[..., Bound]:
    return lambda *sides: (call(*(s[0] for s in sides)), call(*(s[1] for s in sides)))


def _either(call: Callable[..., Tensor]) -> Callable[..., Bound]:
    """Of a map that rises or falls in its one variable, number by number."""

    def interval(side: Bound) -> Bound:
        a, b = call(side[0]), call(side[1])
        return a.minimum(b), a.maximum(b)

    return interval


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


def _module(name: str, inputs: tuple[str, ...], m: nn.Module) -> Step:
    if type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d) and _plain(m):
        return Step(name, "affine", inputs, m, _weighted(m))
    if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) and m.track_running_stats:
        return Step(name, "affine", inputs, m, _either(m))
    if isinstance(m, _SAME):
        return Step(name, "affine", inputs, m, _monotone(m))
    if isinstance(m, nn.MaxPool2d) and m.dilation == 1 and not m.ceil_mode:
        return Step(name, "pooled", inputs, m, _monotone(m))
    if isinstance(m, nn.LayerNorm) and len(m.normalized_shape) == 1:
        return Step(name, "interval", inputs, m, lambda s: _layer_norm(m, s))
    if isinstance(m, nn.Softmax):
        return Step(name, "interval", inputs, m, lambda s: _softmax(s, m.dim), "softmax")
    if isinstance(m, nn.LogSoftmax):
        return Step(name, "interval", inputs, _log_softmax, _monotone(_log_softmax))
    curve = _BENT.get(type(m))
    if curve is None or not _plain(m):
        raise Unsupported(
            f"Bounds does not know the layer {type(m).__name__} ('{name}'); it knows Linear, Conv, "
            "BatchNorm, LayerNorm, pooling, ReLU, LeakyReLU, Sigmoid, Tanh, GELU, SiLU, ELU, "
            "Softplus, softmax heads and sums. An attack alone, or Enumerate, needs no layers"
        )
    slope = m.negative_slope if isinstance(m, nn.LeakyReLU) else 0.0
    return _bend(name, inputs, curve, m, slope)


def _plain(m: nn.Module) -> bool:
    """With the settings that the rules here are about."""
    usual = {"padding_mode": "zeros", "approximate": "none", "alpha": 1.0, "beta": 1.0}
    return all(getattr(m, name, value) == value for name, value in usual.items())


def _bend(
    name: str, inputs: tuple[str, ...], curve: str, call: Callable[..., Any], slope: float = 0.0
) -> Step:
    def interval(side: Bound) -> Bound:
        low, high = call(side[0]), call(side[1])
        if curve in ("gelu", "silu"):  # they dip below 0 before they rise
            dips = (side[0] < 0) & (side[1] > -3)
            low = torch.where(dips, low.minimum(high).clamp_max(-0.28), low.minimum(high))
            high = low.maximum(call(side[0])).maximum(call(side[1]))
        return low, high

    return Step(name, "bent", inputs, call, interval, curve, slope)


_SMOOTH: dict[Any, str] = {
    functional.leaky_relu: "leaky", functional.gelu: "gelu", functional.silu: "silu",
    functional.elu: "elu", functional.softplus: "softplus", functional.relu: "relu",
    torch.relu: "relu", "relu": "relu", torch.sigmoid: "sigmoid", functional.sigmoid: "sigmoid",
    "sigmoid": "sigmoid", torch.tanh: "tanh", functional.tanh: "tanh", "tanh": "tanh",
}  # fmt: skip
_RESHAPE = {
    torch.flatten, torch.cat, torch.squeeze, torch.unsqueeze, torch.permute, torch.mean, torch.sum,
    torch.reshape, operator.getitem, functional.avg_pool2d, functional.adaptive_avg_pool2d,
    "flatten", "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze", "mean", "sum",
    "contiguous",
}  # fmt: skip
_CASTS = {"float", "double", "to", "detach", "clone"}


def _function(
    node: fx.Node, variables: tuple[str, ...], constants: dict[fx.Node, Tensor]
) -> Step | None:
    """A step of a function or method; None where it changes nothing."""
    target, name = node.target, node.name
    if target in _CASTS or target is functional.dropout:
        return None

    def call(*values: Any) -> Any:
        held: dict[fx.Node, Any] = dict(constants)
        held |= zip((a for a in node.all_input_nodes if a not in constants), values, strict=True)
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: held[n])
        return getattr(args[0], str(target))(*args[1:], **kwargs) if node.op == "call_method" else (
            target(*args, **kwargs))  # type: ignore[operator]  # fmt: skip

    if target in _SMOOTH:
        slope = 0.01
        if target is functional.leaky_relu:
            slope = float(node.kwargs.get("negative_slope", (*node.args, 0.01)[1]))  # type: ignore[arg-type]
        return _bend(
            name, variables, _SMOOTH[target], call, slope if target is functional.leaky_relu else 0
        )
    if target in _RESHAPE or target in (operator.add, operator.iadd, torch.add):
        return Step(name, "affine", variables, call, _monotone(call))
    if target in (operator.sub, torch.sub) and len(variables) == 2:
        return Step(name, "affine", variables, call,
                    lambda a, b: (call(a[0], b[1]), call(a[1], b[0])))  # fmt: skip
    linear = (operator.sub, torch.sub, operator.mul, torch.mul, operator.truediv, operator.neg)
    occurs: list[fx.Node] = []  # x * x names its one variable twice
    fx.map_arg((node.args, node.kwargs), lambda a: occurs.append(a) if a not in constants else None)
    divides = target is operator.truediv and node.args[0] not in occurs
    if target in linear and len(occurs) == 1 and not divides:
        return Step(name, "affine", variables, call, _either(call))
    if target in (functional.softmax, torch.softmax, "softmax"):
        return Step(name, "interval", variables, call, lambda s: _softmax(s, 1), "softmax")
    said = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    raise Unsupported(
        f"Bounds does not know the operation '{said}' of two or more varying parts, or at all; "
        "write it with layers that Bounds knows, or use an attack alone"
    )


def _layer_norm(m: nn.LayerNorm, side: Bound) -> Bound:
    low, high = side
    count = low.shape[-1]
    most = (low - high.mean(-1, keepdim=True) + (high - low) / count,
            high - low.mean(-1, keepdim=True) - (high - low) / count)  # fmt: skip
    far = torch.maximum(most[0].abs(), most[1].abs())
    near = torch.where((most[0] <= 0) & (most[1] >= 0), 0.0, most[0].abs().minimum(most[1].abs()))
    small, large = ((t.square().mean(-1, keepdim=True) + m.eps).sqrt() for t in (near, far))
    limit = (count - 1) ** 0.5
    bottom = torch.where(most[0] < 0, most[0] / small, most[0] / large).clamp(-limit, limit)
    top = torch.where(most[1] > 0, most[1] / small, most[1] / large).clamp(-limit, limit)
    if not m.elementwise_affine:
        return bottom, top
    a, b = bottom * m.weight, top * m.weight
    shift: Any = 0.0 if m.bias is None else m.bias
    return a.minimum(b) + shift, a.maximum(b) + shift


def _softmax(side: Bound, dim: int | None) -> Bound:
    at = 1 if dim is None else dim
    low, high = ((t - side[1].amax(at, keepdim=True)).exp() for t in side)
    down = low / (low + high.sum(at, keepdim=True) - high).clamp_min(1e-300)
    up = high / (high + low.sum(at, keepdim=True) - low).clamp_min(1e-300)
    return down.clamp(0, 1), up.clamp(0, 1)
