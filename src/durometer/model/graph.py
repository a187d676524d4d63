"""An ONNX graph as a function of torch, so that gradients can be taken through it.

The nodes are run one after the other. Where symbols (bytes, words) come in
as integers there is no gradient; a `RelaxedTokens` input (`spaces/discrete.py`) knows what each
symbol was chosen from, and where the graph turns symbols into vectors (a row of a table, a one-hot
code) the mean over the options is added straight through: the value stays, the gradient is the
mixture's.

What a reader would get wrong: the symbols are followed by name through reshapes and integer casts
only. A graph that first computes with them (adds one, looks up twice) is refused, not guessed at.

One small function per operator, called with its attributes and inputs (None where one is left out).
Those whose axes moved from the attributes to the inputs (opset 13) take both.

What a reader would get wrong: this is no runtime. It serves gradients only; answers come from
onnxruntime, and `wrap` compares the two before it trusts a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from durometer.core.errors import DurometerError, Unsupported
from durometer.spaces.discrete import RelaxedTokens

_SHAPES = frozenset({"Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Flatten"})


@dataclass(frozen=True)
class Node:
    """One operator of a graph: what it takes, what it gives, how."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the order they run, and the weights by name."""

    nodes: tuple[Node, ...] = field(repr=False)
    weights: dict[str, Tensor] = field(repr=False)
    input: str
    output: str
    dtype: torch.dtype  # what the input is declared to be

    def __call__(self, x: Tensor) -> Tensor:
        """The output for a batch of inputs."""
        values = dict(self.weights)
        held = x.detach().as_subclass(Tensor) if isinstance(x, RelaxedTokens) else x
        values[self.input] = held.to(self.dtype)
        symbols = {self.input} if isinstance(x, RelaxedTokens) else set()
        codes: dict[str, Tensor] = {}  # of results of "is it this symbol?": the symbols asked for
        for node in self.nodes:
            inputs = [values[name] if name else None for name in node.inputs]
            out = OPERATIONS[node.kind](node.attributes, *inputs)
            if isinstance(x, RelaxedTokens) and (symbols | codes.keys()) & set(node.inputs):
                out = _follow(node, x, inputs, out, symbols, codes)
            outputs = out if isinstance(out, tuple) else (out,)
            values.update(zip(node.outputs, outputs, strict=False))
        return values[self.output]


class GraphModule(nn.Module):
    """A graph as a module, for whoever reads modules.

    Args:
        held: The graph.
    """

    def __init__(self, held: Graph) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        """The output for a batch of inputs."""
        return self.held(x)


def _follow(
    node: Node,
    x: RelaxedTokens,
    inputs: list[Any],
    out: Any,
    symbols: set[str],
    codes: dict[str, Tensor],
) -> Any:
    """What a node gives, with the gradient of the mixture where symbols become vectors."""
    name, first = node.outputs[0], node.inputs[0]
    if node.kind == "Shape":
        return out
    if first in symbols and (
        node.kind in _SHAPES or (node.kind == "Cast" and not out.is_floating_point())
    ):
        symbols.add(name)
        return out
    if node.kind == "Equal" and len(symbols & set(node.inputs)) == 1:
        asked = inputs[1] if first in symbols else inputs[0]
        codes[name] = asked.reshape(-1)
        return out
    if node.kind == "Cast" and first in codes and out.is_floating_point():
        return _through(x, out, _code(x, codes[first]))
    if node.kind == "Cast" and first in symbols:  # symbols as plain numbers
        return _through(x, out, (x.weights * x.options.nan_to_num(0.0)).sum(2, keepdim=True))
    if node.kind == "OneHot" and first in symbols:
        low, high = inputs[2]
        return _through(x, out, low + _code(x, torch.arange(int(inputs[1]))) * (high - low))
    if node.kind == "Gather" and node.inputs[1] in symbols and node.attributes.get("axis", 0) == 0:
        table = inputs[0].flatten(1)
        return _through(x, out, _code(x, torch.arange(len(table))).to(table.dtype) @ table)
    raise Unsupported(f"no gradient through {node.kind} of symbols; use a search (Greedy, Graft)")


def _code(x: RelaxedTokens, asked: Tensor) -> Tensor:
    """(n, m, C): the weight of each symbol asked for; a hard choice has a one-hot code."""
    known, order = asked.to(x.options.dtype).sort()
    options = x.options.nan_to_num(torch.inf)
    place = torch.searchsorted(known, options).clamp_max(len(known) - 1)
    weights = x.weights * (known[place] == options)
    code = weights.new_zeros(*weights.shape[:2], len(known))
    return code.scatter_add(2, order[place], weights)


def _through(x: RelaxedTokens, out: Tensor, mixed: Tensor) -> Tensor:
    """The output as it is, with the gradient of the options' mixture (n, m, C)."""
    steered = torch.zeros(len(x), x.shape[1], mixed.shape[2], dtype=out.dtype)
    steered[:, x.places] = (mixed - mixed.detach()).to(out.dtype)
    if steered.numel() != out.numel():
        raise Unsupported(
            f"symbols of shape {tuple(x.shape)} become vectors of shape {tuple(out.shape)}: the "
            "gradient is known only where each symbol has a vector of its own"
        )
    return out + steered.reshape(out.shape)


def read(path: Path, output: str) -> Graph:
    """The graph of a file up to one of its outputs, or what it holds that has no gradient."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise Unsupported(
            f"gradients through '{path}' need onnx: pip install 'durometer[onnx]'"
        ) from None
    model = onnx.load(str(path))
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)

    def tensor(proto: Any) -> Tensor:
        return torch.from_numpy(np.array(numpy_helper.to_array(proto)))

    weights = {w.name: tensor(w) for w in model.graph.initializer}
    entries = [i for i in model.graph.input if i.name not in weights]
    if len(entries) != 1:
        names = ", ".join(i.name for i in entries)
        raise Unsupported(f"gradients through a graph with {len(entries)} inputs ({names})")
    nodes = []
    for node in _needed(model.graph.node, output):
        given = {
            a.name: tensor(a.t) if a.type == a.TENSOR else onnx.helper.get_attribute_value(a)
            for a in node.attribute
        }
        if node.op_type == "Constant":
            weights[node.output[0]] = torch.as_tensor(next(iter(given.values())))
            continue
        if node.op_type not in OPERATIONS or node.domain not in ("", "ai.onnx"):
            raise Unsupported(
                f"'{path}': no gradient through the operator {node.op_type}; attack it without "
                "(gradients=False)"
            )
        given |= {"opset": opset, "outputs": len(node.output)}
        nodes.append(Node(node.op_type, tuple(node.input), tuple(node.output), given))
    kind = onnx.helper.tensor_dtype_to_np_dtype(entries[0].type.tensor_type.elem_type)
    if kind.kind == "O":
        raise Unsupported(f"'{path}' takes text: no gradient")
    dtype = torch.from_numpy(np.zeros(0, kind)).dtype
    return Graph(tuple(nodes), weights, entries[0].name, output, dtype)


def _needed(nodes: Any, output: str) -> list[Any]:
    """The nodes that the output depends on, in order."""
    wanted, found = {output}, []
    for node in reversed(list(nodes)):
        if wanted & set(node.output):
            found.append(node)
            wanted |= set(node.input)
    if not found:
        raise DurometerError(f"the graph has no output '{output}'")
    return found[::-1]


Attributes = dict[str, Any]
Operation = Callable[..., Any]

_TYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32,
    7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64,
}  # fmt: skip


def _ints(value: Any) -> list[int]:
    found: list[int] = value.tolist() if isinstance(value, Tensor) else list(value)
    return found


def _axes(a: Attributes, given: Tensor | None) -> list[int] | None:
    found = given if given is not None else a.get("axes")
    return None if found is None else _ints(found)


def _cast(a: Attributes, x: Tensor) -> Tensor:
    if a["to"] not in _TYPES:
        raise Unsupported(f"Cast to ONNX type {a['to']}")
    return x.to(_TYPES[a["to"]])


def _reshape(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    sizes = _ints(shape)
    if not a.get("allowzero"):
        sizes = [x.shape[i] if s == 0 else s for i, s in enumerate(sizes)]
    return x.reshape(sizes)


def _squeeze(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    found = _axes(a, axes)
    return x.squeeze() if found is None else x.squeeze(tuple(found))


def _unsqueeze(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    found = _axes(a, axes) or []
    rank = x.ndim + len(found)
    for axis in sorted(i % rank for i in found):
        x = x.unsqueeze(axis)
    return x


def _expand(a: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(np.broadcast_shapes(tuple(x.shape), tuple(_ints(shape))))


def _slice(
    a: Attributes,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    first = _ints(a["starts"] if starts is None else starts)
    last = _ints(a["ends"] if ends is None else ends)
    along = _axes(a, axes) or list(range(len(first)))
    strides = _ints(steps) if steps is not None else [1] * len(first)
    for low, high, axis, step in zip(first, last, along, strides, strict=True):
        where = torch.tensor(range(x.shape[axis])[slice(low, _end(high, step), step)])
        x = x.index_select(axis, where.to(torch.int64))
    return x


def _end(high: int, step: int) -> int | None:
    return None if step < 0 and high < -(2**30) else high


def _gather(a: Attributes, x: Tensor, places: Tensor) -> Tensor:
    axis = a.get("axis", 0) % x.ndim
    flat = places.long() % x.shape[axis]
    shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, flat.reshape(-1)).reshape(shape)


def _reduce(name: str) -> Operation:
    functions: dict[str, Operation] = {
        "Sum": torch.sum, "Mean": torch.mean, "Max": torch.amax, "Min": torch.amin,
        "L2": torch.linalg.vector_norm,
    }  # fmt: skip

    def reduce(a: Attributes, x: Tensor, axes: Tensor | None = None) -> Any:
        found = _axes(a, axes)
        if not found:
            if a.get("noop_with_empty_axes"):
                return x
            found = list(range(x.ndim))
        return functions[name](x, dim=tuple(found), keepdim=bool(a.get("keepdims", 1)))

    return reduce


def _gemm(a: Attributes, x: Tensor, y: Tensor, c: Tensor | None = None) -> Tensor:
    x = x.T if a.get("transA") else x
    y = y.T if a.get("transB") else y
    out = a.get("alpha", 1.0) * (x @ y)
    return torch.as_tensor(out if c is None else out + a.get("beta", 1.0) * c)


def _padded(a: Attributes, x: Tensor, value: float = 0.0) -> Tensor:
    """The input with the padding its attributes ask for, so that the operator needs none."""
    if a.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise Unsupported(f"auto_pad={a['auto_pad'].decode()}")
    pads, k = a.get("pads") or [], x.ndim - 2
    if not any(pads):
        return x
    both = [p for i in reversed(range(k)) for p in (pads[i], pads[i + k])]
    return functional.pad(x, both, value=value)


def _conv(a: Attributes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    run = (functional.conv1d, functional.conv2d, functional.conv3d)[x.ndim - 3]
    k = x.ndim - 2
    ones, pads = [1] * k, list(a.get("pads") or [0] * 2 * k)
    even = pads[:k] == pads[k:] and a.get("auto_pad", b"NOTSET") == b"NOTSET"
    out: Tensor = run(
        x if even else _padded(a, x), w, b, a.get("strides", ones), pads[:k] if even else 0,
        a.get("dilations", ones), a.get("group", 1),
    )  # fmt: skip
    return out


def _conv_transpose(a: Attributes, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    run = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
    k = x.ndim - 2
    ones, pads = [1] * k, list(a.get("pads") or [0] * 2 * k)
    if pads[:k] != pads[k:] or a.get("output_shape") or a.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Unsupported("ConvTranspose with an output_shape or uneven padding")
    out: Tensor = run[k - 1](
        x, w, b, a.get("strides", ones), pads[:k], a.get("output_padding", [0] * k),
        a.get("group", 1), a.get("dilations", ones),
    )  # fmt: skip
    return out


def _pad(
    a: Attributes, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None,
    axes: Tensor | None = None,
) -> Tensor:  # fmt: skip
    mode = a.get("mode", b"constant")
    if mode != b"constant" or axes is not None:
        raise Unsupported(f"Pad with mode={mode.decode()}{' and axes' if axes is not None else ''}")
    sizes = _ints(a["pads"] if pads is None else pads)
    fill = float(a.get("value", 0.0) if value is None else value)
    both = [p for i in reversed(range(x.ndim)) for p in (sizes[i], sizes[i + x.ndim])]
    return functional.pad(x, both, value=fill) if any(both) else x


def _pool(kind: str) -> Operation:
    def pool(a: Attributes, x: Tensor) -> Tensor:
        if a.get("ceil_mode") or any(d != 1 for d in a.get("dilations", ())):
            raise Unsupported(f"{kind}Pool with ceil_mode or dilations")
        if kind == "Average" and any(a.get("pads") or ()) and not a.get("count_include_pad"):
            raise Unsupported("AveragePool that does not count its padding")
        name = f"{'max' if kind == 'Max' else 'avg'}_pool{x.ndim - 2}d"
        ones = [1] * (x.ndim - 2)
        padded = _padded(a, x, -torch.inf if kind == "Max" else 0.0)
        out: Tensor = getattr(functional, name)(padded, a["kernel_shape"], a.get("strides", ones))
        return out

    return pool


def _batch_norm(
    a: Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    return functional.batch_norm(x, mean, var, scale, bias, eps=a.get("epsilon", 1e-5))


def _layer_norm(a: Attributes, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    axis = a.get("axis", -1) % x.ndim
    return functional.layer_norm(x, x.shape[axis:], scale, bias, a.get("epsilon", 1e-5))


def _clip(
    a: Attributes, x: Tensor, low: Tensor | None = None, high: Tensor | None = None
) -> Tensor:
    low, high = (a.get("min") if low is None else low), (a.get("max") if high is None else high)
    return x if low is None and high is None else torch.clamp(x, low, high)


def _split(a: Attributes, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = a.get("axis", 0)
    given = _ints(sizes) if sizes is not None else a.get("split")
    return torch.split(x, given or x.shape[axis] // a["outputs"], axis)


def _one_hot(a: Attributes, places: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    if a.get("axis", -1) not in (-1, places.ndim):
        raise Unsupported("OneHot along an inner axis")
    code = functional.one_hot(places.long() % int(depth), int(depth)).to(values.dtype)
    return values[0] + code * (values[1] - values[0])


def _flatten(a: Attributes, x: Tensor) -> Tensor:
    axis = a.get("axis", 1)
    return x.reshape(int(torch.tensor(x.shape[:axis]).prod()), -1)


def _softmax(a: Attributes, x: Tensor) -> Tensor:
    if a["opset"] < 13 and a.get("axis", 1) % x.ndim != x.ndim - 1:
        raise Unsupported("Softmax over several axes (opset below 13)")
    return x.softmax(a.get("axis", -1))


def _gelu(a: Attributes, x: Tensor) -> Tensor:
    return functional.gelu(x, approximate=a.get("approximate", b"none").decode())


def _plain(function: Operation) -> Operation:
    """An operator without attributes."""
    return lambda a, *inputs: function(*inputs)


def _folded(function: Operation) -> Operation:
    """One of any number of inputs."""

    def fold(a: Attributes, first: Tensor, *others: Tensor) -> Any:
        for other in others:
            first = function(first, other)
        return first

    return fold


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


_PLAIN: dict[str, Operation] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": _divide, "Pow": torch.pow,
    "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Neg": torch.neg,
    "Abs": torch.abs, "Reciprocal": torch.reciprocal, "Tanh": torch.tanh, "Erf": torch.erf,
    "Sigmoid": torch.sigmoid, "Relu": torch.relu, "Softplus": functional.softplus,
    "Equal": torch.eq, "Greater": torch.gt, "Less": torch.lt, "Not": torch.logical_not,
    "And": torch.logical_and, "Or": torch.logical_or, "Where": torch.where,
    "MatMul": torch.matmul, "Identity": lambda x: x,
    "Dropout": lambda x, *_: x, "Floor": torch.floor, "Sign": torch.sign,
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    **{name: _plain(function) for name, function in _PLAIN.items()},
    "Max": _folded(torch.maximum), "Min": _folded(torch.minimum), "Sum": _folded(torch.add),
    **{f"Reduce{name}": _reduce(name) for name in ("Sum", "Mean", "Max", "Min", "L2")},
    "LeakyRelu": lambda a, x: functional.leaky_relu(x, a.get("alpha", 0.01)),
    "Elu": lambda a, x: functional.elu(x, a.get("alpha", 1.0)),
    "Gelu": _gelu, "Clip": _clip, "Softmax": _softmax,
    "LogSoftmax": lambda a, x: _softmax(a, x).log(),
    "Cast": _cast, "Reshape": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Expand": _expand, "Slice": _slice, "Gather": _gather, "Split": _split, "OneHot": _one_hot,
    "Flatten": _flatten, "Transpose": lambda a, x: x.permute(a.get("perm") or tuple(
        reversed(range(x.ndim)))),
    "Concat": lambda a, *inputs: torch.cat(inputs, a["axis"]),
    "Shape": lambda a, x: torch.tensor(x.shape[a.get("start", 0) : a.get("end")]),
    "ConstantOfShape": lambda a, shape: torch.full(
        _ints(shape), a["value"].item(), dtype=a["value"].dtype),
    "Gemm": _gemm, "Conv": _conv, "ConvTranspose": _conv_transpose, "Pad": _pad,
    "MaxPool": _pool("Max"), "AveragePool": _pool("Average"),
    "GlobalMaxPool": lambda a, x: x.amax(tuple(range(2, x.ndim)), keepdim=True),
    "GlobalAveragePool": lambda a, x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
}  # fmt: skip
