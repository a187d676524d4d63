"""From ATen calls to a program: a closed list of operations, every argument read or refused.

One function for each family. What depends on constants alone is computed by the operator itself,
from a list of its own; whatever is on neither list is refused by name and place.

What a reader would get wrong: nothing here may look at an argument's usual value. A call has all
its arguments by name (`export.py` fills in defaults); one that a family does not know is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional

from durometer.core.errors import Unsupported
from durometer.proofs.aten.affine import (
    Add,
    Centre,
    Convolution,
    Linear,
    MatrixProduct,
    Scale,
    SpatialMap,
    Sum,
)
from durometer.proofs.aten.curves import Convex, Hinge, Smooth, Whole, smooth
from durometer.proofs.aten.export import Call, Graph, Ref
from durometer.proofs.aten.maxima import Maximum
from durometer.proofs.aten.moves import Cast, Concatenate, Constant, Gather, Reshape
from durometer.proofs.aten.products import Matmul, Multiply
from durometer.proofs.aten.program import UNIT, Input, Operation, Program
from durometer.proofs.aten.shares import Softmax

_WIDE = 4096  # numbers of a channel: larger ones have no matrix
_LIMITS = {
    torch.uint8: (0.0, 255.0), torch.int8: (-128.0, 127.0), torch.int16: (-(2.0**15), 2.0**15 - 1),
    torch.int32: (-(2.0**31), 2.0**31 - 1), torch.int64: (-(2.0**62), 2.0**62),
}  # fmt: skip
# Types that hold every number of a type, by their units; half precision holds none of bfloat16's
# small and large ones, though it has more digits.
_HOLDS = {
    UNIT[kind]: {UNIT[kind], *(UNIT[k] for k in wider)}
    for kind, wider in (
        (torch.float16, (torch.float32, torch.float64)),
        (torch.bfloat16, (torch.float32, torch.float64)),
        (torch.float32, (torch.float64,)),
        (torch.float64, ()),
    )
}
_MOVES = frozenset({
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze",
    "expand", "select", "slice", "flip", "index_select", "index", "roll", "unbind", "split",
    "split_with_sizes", "chunk", "repeat", "flatten", "unflatten", "movedim", "narrow", "pad",
    "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
    "replication_pad2d", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "upsample_nearest1d", "upsample_nearest2d", "tile", "swapaxes", "expand_as", "view_as",
    "diagonal", "unfold",
})  # fmt: skip
_SAME = frozenset(
    {"clone", "alias", "detach", "contiguous", "lift_fresh_copy", "detach_", "positive"}
)
# Of constants only: run as they are. No random numbers, no memory that nobody wrote.
_FOLDED = _MOVES | _SAME | frozenset({
    "add", "sub", "mul", "div", "neg", "mm", "addmm", "bmm", "mv", "vdot", "dot", "linear", "cat",
    "stack", "mean", "sum", "_to_copy", "_weight_norm", "linalg_vector_norm", "norm", "sqrt",
    "rsqrt", "pow", "exp", "log", "sin", "cos", "tanh", "sigmoid", "relu", "softplus", "softmax",
    "abs", "clamp", "clamp_min", "clamp_max", "arange", "full", "zeros", "ones", "scalar_tensor",
    "full_like", "zeros_like", "ones_like", "eye", "linspace", "new_zeros", "new_ones", "new_full",
    "eq", "ne", "lt", "gt", "le", "ge", "where", "logical_not", "logical_and", "logical_or",
    "bitwise_not", "bitwise_and", "bitwise_or", "masked_fill", "tril", "triu", "amax", "amin",
    "maximum", "minimum", "reciprocal", "embedding", "conv2d", "floor", "round", "cumsum",
    "var", "remainder", "floor_divide", "outer", "erf", "gelu", "rsub", "sign", "prod", "matmul",
})  # fmt: skip
_SMOOTH = frozenset({
    "sigmoid", "tanh", "erf", "silu", "mish", "gelu", "sin", "cos", "elu", "softplus", "clamp",
    "hardswish", "hardsigmoid",
})  # fmt: skip
_CONVEX = {"exp": 8, "expm1": 8, "log": 8, "log1p": 8, "sqrt": 2, "rsqrt": 4, "reciprocal": 2,
           "log_sigmoid": 16}  # fmt: skip

_MAY_VARY = frozenset({
    "self", "other", "input", "tensors", "query", "key", "value", "mat1", "mat2", "batch1",
    "batch2", "x",
})  # fmt: skip

Value = int | Tensor  # the number of an operation, or a constant


def read(graph: Graph, encoder: Any = None) -> Program:
    """The program of an exported graph; `encoder` is what a call of `encode` stands for."""
    reading = _Reading(graph, encoder)
    for at, call in graph.calls.items():
        if at in reading.needed:
            reading.add(at, call)
    out = reading.value(graph.output)
    if isinstance(out, Tensor):
        raise Unsupported("Bounds: the network's answer does not depend on its input")
    return Program(tuple(reading.operations[: out + 1]), reading.encoder)


class _Reading:
    """The operations so far, and what every tensor of the graph is."""

    def __init__(self, graph: Graph, encoder: Any) -> None:
        self.graph, self.given = graph, encoder
        self.encoder: Any = None
        self.operations: list[Operation] = []
        self.values: dict[int, Value | list[Value | None]] = dict(graph.constants)
        self.needed = _needed(graph)
        self.types: dict[int, torch.dtype] = {}
        unit = UNIT.get(graph.dtype)
        if unit is None:
            raise Unsupported(f"Bounds: the network takes {graph.dtype}, not floating numbers")
        self.operations.append(Input((), graph.shape, unit, "the input"))
        self.values[graph.input] = 0
        self.call: Call

    def value(self, ref: Any) -> Any:
        """What a reference stands for; anything else is itself."""
        if isinstance(ref, list | tuple):
            return type(ref)(self.value(r) for r in ref)
        if not isinstance(ref, Ref):
            return ref
        if ref.at not in self.values:
            raise Unsupported("Bounds: something beside the table input looks at the raw input")
        held = self.values[ref.at]
        if ref.part is None:
            return held
        if not isinstance(held, list) or held[ref.part] is None:
            self.refuse(f"result {ref.part} of several")
        return held[ref.part]

    def refuse(self, what: str = "") -> NoReturn:
        call = self.call
        if call.random:
            raise Unsupported(
                f"Bounds: the network draws random numbers ('{call.name}', {call.place}), or may; "
                "use an attack alone"
            )
        raise Unsupported(
            f"Bounds does not know the operation '{call.name}'{f' with {what}' if what else ''} "
            f"({call.place}); write it with operations that Bounds knows, or use an attack alone"
        )

    def put(self, kind: Callable[..., Operation], inputs: tuple[int, ...], shape: Any, *rest: Any,
            unit: float | None = None) -> int:  # fmt: skip
        """One more operation; its number."""
        own = UNIT.get(self.call.dtype, 0.0) if unit is None else unit
        self.operations.append(kind(inputs, tuple(shape), own, self.call.place, *rest))
        return len(self.operations) - 1

    def shape(self, value: Value) -> tuple[int, ...]:
        return tuple(value.shape) if isinstance(value, Tensor) else self.operations[value].shape

    def add(self, at: int, call: Call) -> None:
        """One more call."""
        self.call = call
        arguments = {k: self.value(v) for k, v in call.arguments.items()}
        varying = {
            name for name, held in call.arguments.items()
            if any(not isinstance(self.value(r), Tensor) for r in _refs(held))
        }  # fmt: skip
        for name in varying - _MAY_VARY:
            self.refuse(f"an argument '{name}' that depends on the input")
        if not varying:
            self.values[at] = self._folded(arguments)
            return
        if call.dtype not in UNIT and call.name not in ("_to_copy", *_MOVES, *_SAME):
            self.refuse(f"a result of type {call.dtype}")
        try:
            self.values[at] = self._read(call.name, arguments)
        except Unsupported:
            raise
        except Exception as error:  # an overload whose arguments have other names or types
            self.refuse(f"these arguments ({type(error).__name__}: {str(error)[:80]})")

    def _folded(self, arguments: dict[str, Any]) -> Any:
        """Constants, computed by the operator itself."""
        if self.call.name not in _FOLDED:
            self.refuse("constants")
        out = self.call.on(arguments)
        return list(out) if isinstance(out, tuple | list) else out

    def _read(self, name: str, a: dict[str, Any]) -> Any:
        if name in _SAME:
            return a["self"]
        if name in _MOVES:
            return self._move(a)
        own = _FAMILIES.get(name)
        if own is not None:
            return own(self, a)
        if name in _SMOOTH:
            return self.smooth(name, a)
        if name in _CONVEX:
            self.only(a, "self")
            return self.put(
                Convex, (self.varying(a["self"]),), self.call.shape, name, _CONVEX[name]
            )
        self.refuse()

    def only(self, arguments: dict[str, Any], *names: str) -> None:
        """No other argument may be given."""
        for name, value in arguments.items():
            if name not in names and value is not None and value is not False:
                self.refuse(f"{name}={value}")

    def varying(self, value: Value) -> int:
        """The number of an operation; a constant becomes one."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if not isinstance(value, Tensor):
            self.refuse(f"the argument {value!r}")
        if value.is_floating_point() and self.call.dtype in UNIT:
            value = value.to(self.call.dtype)  # a number beside a coarser tensor is rounded to it
        held = value.detach().cpu().double()
        return self.put(Constant, (), held.shape, held, unit=UNIT.get(value.dtype, 0.0))

    def constant(self, value: Any) -> Tensor:
        """A tensor or number that does not depend on the input, in double precision."""
        if isinstance(value, Tensor):
            return value.detach().cpu().double()
        self.refuse("an argument that depends on the input")

    # moves

    def _move(self, a: dict[str, Any]) -> Any:
        first = next(iter(a))
        source = a[first]
        if "dtype" in a:
            self.refuse(f"dtype={a['dtype']}")
        others = [r for k, v in self.call.arguments.items() if k != first for r in _refs(v)]
        if not isinstance(source, int) or any(isinstance(self.value(r), int) for r in others):
            self.refuse("a place that depends on the input")
        shape = self.shape(source)
        size = math.prod(shape)
        fill = 0.0
        given = dict(a)
        if self.call.name in ("pad", "constant_pad_nd"):
            fill = float(torch.tensor(given.get("value") or 0.0, dtype=self.call.dtype))
            if given.get("mode", "constant") == "constant":
                given["value"] = 0.0
        kind = torch.float64
        if "upsample" in self.call.name:  # which pixel is nearest is computed in the model's type
            kind = self.call.dtype
            if kind not in UNIT or size * UNIT[kind] > 0.5:
                self.refuse(f"{size} numbers of type {kind}")
        given[first] = torch.arange(1, size + 1, dtype=kind).reshape(shape)
        found = self.call.on(given)
        several = isinstance(found, tuple | list)
        made: list[Value | None] = [
            self.gather(source, t, fill) for t in (found if several else [found])
        ]
        return made if several else made[0]

    def gather(self, source: int, places: Tensor, fill: float) -> int:
        shape = self.shape(source)
        index = places.double().round().long().flatten() - 1
        unit = self.operations[source].unit
        if len(index) == math.prod(shape) and bool((index == torch.arange(len(index))).all()):
            if tuple(places.shape) == shape:
                return source
            return self.put(Reshape, (source,), places.shape, shape, unit=unit)
        return self.put(Gather, (source,), places.shape, shape, index, fill, unit=unit)

    def expanded(self, value: int, shape: tuple[int, ...]) -> int:
        """Broadcast to a shape."""
        own = self.shape(value)
        if own == tuple(shape):
            return value
        places = torch.arange(1, math.prod(own) + 1, dtype=torch.float64).reshape(own)
        return self.gather(value, places.expand(shape), 0.0)

    def reshaped(self, value: int, shape: tuple[int, ...]) -> int:
        own = self.shape(value)
        if own == tuple(shape):
            return value
        return self.put(Reshape, (value,), shape, own, unit=self.operations[value].unit)

    def transposed(self, value: int) -> int:
        """The last two axes exchanged."""
        own = self.shape(value)
        places = torch.arange(1, math.prod(own) + 1, dtype=torch.float64).reshape(own)
        return self.gather(value, places.transpose(-1, -2), 0.0)

    # curves

    def smooth(self, name: str, a: dict[str, Any]) -> int:
        arguments: tuple[Any, ...] = ()
        if name == "gelu":
            self.only(a, "self", "approximate")
            arguments = (a["approximate"],)
            if arguments[0] not in ("none", "tanh"):
                self.refuse(f"approximate={arguments[0]}")
        elif name == "elu":
            self.only(a, "self", "alpha", "scale", "input_scale")
            arguments = (a["alpha"], a["scale"], a["input_scale"])
        elif name == "softplus":
            self.only(a, "self", "beta", "threshold")
            arguments = (a["beta"], a["threshold"])
            if a["beta"] <= 0:
                self.refuse(f"beta={a['beta']}")
        elif name == "clamp":
            self.only(a, "self", "min", "max")
            low, high = a.get("min"), a.get("max")
            if isinstance(low, Tensor) or isinstance(high, Tensor):
                self.refuse("bounds that are tensors")
            arguments = (-math.inf if low is None else low, math.inf if high is None else high)
            if arguments[0] > arguments[1]:
                self.refuse(f"min={low} above max={high}")
        else:
            self.only(a, "self")
        return self.curve(self.varying(a["self"]), name, tuple(
            v if isinstance(v, str) else float(v) for v in arguments))  # fmt: skip

    def curve(self, source: int, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "clamp" and arguments == (0.0, math.inf):
            return self.hinge(source, torch.zeros((), dtype=torch.float64))
        pieces, units, limits = smooth(name, arguments)
        return self.put(
            Smooth, (source,), self.shape(source), name, arguments, pieces, units, limits
        )

    def hinge(self, source: int, slope: Tensor) -> int:
        return self.put(Hinge, (source,), self.shape(source), slope)

    # sums and products

    def scaled(self, source: int, factor: Tensor, shift: Tensor | None, count: int = 3) -> int:
        shape = self.call.shape
        return self.put(Scale, (self.expanded(source, shape),), shape, factor, shift, None, count)

    def added(self, first: Any, second: Any, a: float, b: float) -> int:
        """a * first + b * second; at least one of them varies."""
        shape = self.call.shape
        if isinstance(first, int) and isinstance(second, int):
            sides = (self.expanded(first, shape), self.expanded(second, shape))
            if sides[0] == sides[1]:
                return self.scaled(sides[0], _number(a + b), None)
            return self.put(Add, sides, shape, float(a), float(b))
        if isinstance(first, int):
            return self.scaled(first, _number(a), b * self.constant(second))
        return self.scaled(second, _number(b), a * self.constant(first))

    def product(self, first: Any, second: Any) -> int:
        shape = self.call.shape
        if isinstance(first, int) and isinstance(second, int):
            sides = (self.expanded(first, shape), self.expanded(second, shape))
            if sides[0] == sides[1]:
                return self.put(Convex, (sides[0],), shape, "square", 2)
            return self.put(Multiply, sides, shape, math.inf, 0)
        varies, fixed = (first, second) if isinstance(first, int) else (second, first)
        return self.scaled(varies, self.constant(fixed), None)  # both are rounded, and the product


def _number(value: float) -> Tensor:
    return torch.tensor(float(value), dtype=torch.float64)


def _needed(graph: Graph) -> set[int]:
    """The calls that the output depends on."""
    found: set[int] = set()
    left = [graph.output.at]
    while left:
        at = left.pop()
        if at in found:
            continue
        found.add(at)
        if at in graph.calls:
            left += [r.at for r in _refs(graph.calls[at].arguments)]
    return found


def _refs(held: Any) -> list[Ref]:
    if isinstance(held, Ref):
        return [held]
    if isinstance(held, dict):
        held = list(held.values())
    return [r for h in held for r in _refs(h)] if isinstance(held, list | tuple) else []


def _scalars(reading: _Reading, a: dict[str, Any], *names: str) -> None:
    """Numbers written in the code become tensors, where a call takes both."""
    for name in names:
        held = a[name]
        ref = reading.call.arguments[name]
        if not isinstance(ref, Ref) and isinstance(held, int | float):  # True is 1
            a[name] = torch.tensor(float(held), dtype=torch.float64)


def _add(reading: _Reading, a: dict[str, Any]) -> int:
    _scalars(reading, a, "self", "other")
    reading.only(a, "self", "other", "alpha")
    return reading.added(a["self"], a["other"], 1.0, float(a.get("alpha", 1)))


def _sub(reading: _Reading, a: dict[str, Any]) -> int:
    _scalars(reading, a, "self", "other")
    reading.only(a, "self", "other", "alpha")
    return reading.added(a["self"], a["other"], 1.0, -float(a.get("alpha", 1)))


def _rsub(reading: _Reading, a: dict[str, Any]) -> int:
    _scalars(reading, a, "self", "other")
    reading.only(a, "self", "other", "alpha")
    return reading.added(a["self"], a["other"], -float(a.get("alpha", 1)), 1.0)


def _mul(reading: _Reading, a: dict[str, Any]) -> int:
    _scalars(reading, a, "self", "other")
    reading.only(a, "self", "other")
    return reading.product(a["self"], a["other"])


def _div(reading: _Reading, a: dict[str, Any]) -> int:
    _scalars(reading, a, "self", "other")
    reading.only(a, "self", "other")
    over = a["other"]
    if isinstance(over, Tensor):
        divisor = over.detach().cpu().double()
        if bool((divisor == 0).any()):
            reading.refuse("a divisor of 0")
        return reading.scaled(a["self"], 1 / divisor, None, 3)
    one = reading.put(Convex, (over,), reading.shape(over), "reciprocal", 2)
    return reading.product(a["self"], one)


def _neg(reading: _Reading, a: dict[str, Any]) -> int:
    return reading.put(Scale, (a["self"],), reading.call.shape, _number(-1.0), None, None, 0)


def _linear(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "input", "weight", "bias")
    weight, bias = reading.constant(a["weight"]), a.get("bias")
    held = None if bias is None else reading.constant(bias)
    if not isinstance(a["input"], int):
        reading.refuse("a constant input")
    return reading.put(Linear, (a["input"],), reading.call.shape, weight, held)


def _mm(reading: _Reading, a: dict[str, Any]) -> int:
    left, right = a["self"], a["mat2"]
    shape = reading.call.shape
    if isinstance(left, int) and isinstance(right, int):
        return reading.put(Matmul, (left, right), shape, 0)
    if isinstance(left, int):
        return reading.put(MatrixProduct, (left,), shape, reading.constant(right), False)
    return reading.put(MatrixProduct, (right,), shape, reading.constant(left), True)


def _addmm(reading: _Reading, a: dict[str, Any]) -> int:
    if float(a.get("beta", 1)) != 1 or float(a.get("alpha", 1)) != 1:
        reading.refuse(f"beta={a['beta']}, alpha={a['alpha']}")
    left, right = (a["mat1"], a["mat2"]) if "mat1" in a else (a["batch1"], a["batch2"])
    plain = isinstance(left, int) and isinstance(right, Tensor) and right.ndim == 2
    if plain and isinstance(a["self"], Tensor):
        weight, bias = reading.constant(right).T, reading.constant(a["self"])
        return reading.put(Linear, (left,), reading.call.shape, weight, bias)
    made = _mm(reading, {"self": left, "mat2": right})
    return reading.added(made, a["self"], 1.0, 1.0)


def _convolution(reading: _Reading, a: dict[str, Any]) -> int:
    name = reading.call.name
    dims = int(name[-2]) if name[-1] == "d" else len(a["stride"])
    turned = "transpose" in name or bool(a.get("transposed", False))
    source, weight = a["input"], reading.constant(a["weight"])
    bias = None if a.get("bias") is None else reading.constant(a["bias"])

    def each(value: Any) -> tuple[int, ...]:
        held = tuple(int(v) for v in value) if isinstance(value, list | tuple) else (int(value),)
        return held * dims if len(held) == 1 else held

    stride, dilation = each(a["stride"]), each(a["dilation"])
    extra = each(a.get("output_padding", 0))
    if not isinstance(source, int) or len(reading.shape(source)) != dims + 2:
        reading.refuse("an input without a batch axis")
    if any(o >= s for o, s in zip(extra, stride, strict=True)):
        reading.refuse(f"output_padding={extra} not below the stride")
    padding = a["padding"]
    if isinstance(padding, str):
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
            sides = [n for t in reversed(total) for n in (t // 2, t - t // 2)]
            own = reading.shape(source)
            places = torch.arange(1, math.prod(own) + 1, dtype=torch.float64).reshape(own)
            source = reading.gather(source, functional.pad(places, sides), 0.0)
        elif padding != "valid":
            reading.refuse(f"padding={padding!r}")
        padding = 0
    return reading.put(
        Convolution, (source,), reading.call.shape, reading.shape(source), weight, bias, stride,
        each(padding), dilation, int(a["groups"]), turned, extra,
    )  # fmt: skip


def _batch_norm(reading: _Reading, a: dict[str, Any]) -> Any:
    if a.get("training", False):
        reading.refuse("the statistics of the batch")
    mean, var = a.get("running_mean"), a.get("running_var")
    if not isinstance(mean, Tensor) or not isinstance(var, Tensor):
        reading.refuse("the statistics of the batch")
    source = a["input"]
    shape = reading.shape(source)
    wide = (1, -1, *[1] * (len(shape) - 2))
    factor = (var.cpu().double() + a["eps"]).rsqrt()
    factor = factor if a.get("weight") is None else factor * reading.constant(a["weight"])
    shift = -mean.cpu().double() * factor
    extra = shift.abs()
    if a.get("bias") is not None:
        bias = reading.constant(a["bias"])
        shift, extra = shift + bias, extra + bias.abs()
    made = reading.put(
        Scale, (source,), shape, factor.reshape(wide), shift.reshape(wide), extra.reshape(wide), 10
    )
    return [made, None, None] if reading.call.name != "batch_norm" else made


def _spatial(reading: _Reading, a: dict[str, Any]) -> int:
    """Means over windows and bilinear upsampling, as one matrix for each channel."""
    first = next(iter(a))
    source = a[first]
    if not isinstance(source, int):
        reading.refuse("an input that is constant")
    shape, out = reading.shape(source), reading.call.shape
    axes = 1 if "1d" in reading.call.name else 2
    size = math.prod(shape[-axes:])
    if size > _WIDE or len(shape) != axes + 2:
        reading.refuse(f"{size} numbers in a channel")
    given = dict(a)
    basis = torch.eye(size, dtype=torch.float64).reshape(size, 1, *shape[-axes:])
    given[first] = basis
    matrix = reading.call.on(given).reshape(size, -1)
    # where a pixel is looked up is computed in the model's own type: the more pixels, the coarser
    places = 8 * max(*shape[-axes:], *out[-axes:]) if "upsample" in reading.call.name else 0
    return reading.put(SpatialMap, (source,), out, shape, matrix, axes, places)


def _axes(value: Any, rank: int) -> tuple[int, ...]:
    held = [value] if isinstance(value, int) else list(value or [])
    held = held or list(range(rank))
    return tuple(sorted(d % rank - rank for d in held))


def _sum(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "self", "dim", "keepdim")
    source = a["self"]
    shape = reading.shape(source)
    axes = _axes(a.get("dim"), len(shape))
    count = math.prod(shape[d] for d in axes)
    factor = 1 / count if reading.call.name == "mean" else 1.0
    return reading.put(Sum, (source,), reading.call.shape, shape, axes, factor)


def _maximum(reading: _Reading, a: dict[str, Any]) -> Any:
    """Along axes: `amax`, and `max` with the places nobody asks for."""
    reading.only(a, "self", "dim", "keepdim")
    source = a["self"]
    shape = reading.shape(source)
    axes = _axes(a.get("dim"), len(shape))
    places = torch.arange(math.prod(shape)).reshape(shape)
    kept = [d for d in range(len(shape)) if d - len(shape) not in axes]
    order = [*kept, *(d + len(shape) for d in axes)]
    count = math.prod(shape[d] for d in axes)
    table = places.permute(order).reshape(-1, count)
    made = reading.put(Maximum, (source,), reading.call.shape, shape, table)
    return [made, None] if reading.call.overload == "dim" else made


def _minimum(reading: _Reading, a: dict[str, Any]) -> Any:
    source = a["self"]
    down = reading.put(Scale, (source,), reading.shape(source), _number(-1.0), None, None, 0)
    found = _maximum(reading, a | {"self": down})
    several = isinstance(found, list)
    top = found[0] if several else found
    made = reading.put(Scale, (top,), reading.shape(top), _number(-1.0), None, None, 0)
    return [made, None] if several else made


def _larger(reading: _Reading, a: dict[str, Any]) -> int:
    """The larger (or smaller) of two values."""
    reading.only(a, "self", "other")
    shape, size = reading.call.shape, math.prod(reading.call.shape)
    sign = 1.0 if reading.call.name == "maximum" else -1.0
    sides = [reading.expanded(reading.varying(a[name]), shape) for name in ("self", "other")]
    if sign < 0:
        sides = [reading.put(Scale, (s,), shape, _number(-1.0), None, None, 0) for s in sides]
    both = reading.put(
        Concatenate, tuple(reading.reshaped(s, (1, *shape)) for s in sides), (2, *shape), 0, (1, 1)
    )
    table = torch.arange(2 * size).reshape(2, size).T
    made = reading.put(Maximum, (both,), shape, (2, *shape), table)
    if sign < 0:
        made = reading.put(Scale, (made,), shape, _number(-1.0), None, None, 0)
    return made


def _windows(size: int, out: int, window: int, stride: int, padding: int, dilation: int) -> Tensor:
    """(out, window): the places along an axis that each result looks at; -1: outside."""
    start = torch.arange(out)[:, None] * stride - padding
    at = start + torch.arange(window) * dilation
    return torch.where((at >= 0) & (at < size), at, -1)


def _adaptive(size: int, out: int) -> Tensor:
    """The same for windows that share an axis out as evenly as they can."""
    start = torch.arange(out) * size // out
    end = -(-(torch.arange(1, out + 1) * size) // out)
    at = start[:, None] + torch.arange(int((end - start).max()))
    return torch.where(at < end[:, None], at, -1)


def _max_pool(reading: _Reading, a: dict[str, Any]) -> Any:
    source = a["self"]
    shape, out = reading.shape(source), reading.call.shape
    axes = 1 if "1d" in reading.call.name else 2
    if len(shape) != axes + 2:
        reading.refuse("an input without a batch axis")

    def each(value: Any) -> list[int]:
        held = list(value) if isinstance(value, list | tuple) else [value]
        return [int(v) for v in (held * axes if len(held) == 1 else held)]

    if "adaptive" in reading.call.name:
        along = [_adaptive(n, o) for n, o in zip(shape[2:], out[2:], strict=True)]
    else:
        given = (each(a["kernel_size"]), each(a["stride"] or a["kernel_size"]), each(a["padding"]),
                 each(a["dilation"]))  # fmt: skip
        along = [_windows(*v) for v in zip(shape[2:], out[2:], *given, strict=True)]
    places = along[0]
    if axes == 2:
        down, right = along[0][:, None, :, None], along[1][None, :, None, :]
        places = torch.where((down < 0) | (right < 0), -1, down * shape[3] + right)
        places = places.reshape(out[2] * out[3], -1)
    channel = torch.arange(shape[0] * shape[1])[:, None, None] * math.prod(shape[2:])
    table = torch.where(places < 0, -1, channel + places).reshape(math.prod(out), -1)
    made = reading.put(Maximum, (source,), out, shape, table)
    return made if reading.call.name in ("max_pool1d", "max_pool2d") else [made, None]


def _dropout(reading: _Reading, a: dict[str, Any]) -> int:
    if a["train"] is not False:
        reading.refuse("train=True")
    return int(a["input"])


def _softmax(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "self", "dim")
    source = a["self"]
    axis = a["dim"] % len(reading.call.shape) - len(reading.call.shape)
    log = "log" in reading.call.name
    return reading.put(Softmax, (source,), reading.call.shape, axis, log)


def _normalised(reading: _Reading, source: int, eps: float) -> int:
    """(x - mean) / sqrt(variance + eps) along the last axis."""
    shape = reading.shape(source)
    count = shape[-1]
    flat = (*shape[:-1], 1)
    off = reading.put(Centre, (source,), shape)
    # The kernel's mean for the variance and its mean for the numerator may round apart.
    same = reading.put(Centre, (source,), shape)
    square = reading.put(Convex, (same,), shape, "square", 2)
    mean = reading.put(Sum, (square,), flat, shape, (-1,), 1 / count)
    held = reading.put(Scale, (mean,), flat, _number(1.0), _number(eps), None, 4)
    root = reading.put(Convex, (held,), flat, "rsqrt", 6)
    wide = reading.expanded(root, shape)
    limit = math.sqrt(max(count - 1, 0))
    return reading.put(Multiply, (off, wide, source), shape, limit, count + 16)


def _affine(reading: _Reading, source: int, weight: Any, bias: Any, wide: tuple[int, ...]) -> int:
    if weight is None and bias is None:
        return source
    factor = _number(1.0) if weight is None else reading.constant(weight).reshape(wide)
    shift = None if bias is None else reading.constant(bias).reshape(wide)
    return reading.put(Scale, (source,), reading.shape(source), factor, shift, None, 4)


def _layer_norm(reading: _Reading, a: dict[str, Any]) -> Any:
    source, size = a["input"], tuple(a["normalized_shape"])
    shape = reading.shape(source)
    flat = reading.reshaped(source, (*shape[: len(shape) - len(size)], math.prod(size)))
    made = reading.reshaped(_normalised(reading, flat, float(a["eps"])), shape)
    made = _affine(reading, made, a.get("weight"), a.get("bias"), size)
    return made if reading.call.name == "layer_norm" else [made, None, None]


def _group_norm(reading: _Reading, a: dict[str, Any]) -> Any:
    source = a["input"]
    shape = reading.shape(source)
    groups = int(a.get("num_groups", a.get("group", 0)))
    flat = reading.reshaped(source, (shape[0], groups, math.prod(shape[1:]) // groups))
    made = reading.reshaped(_normalised(reading, flat, float(a["eps"])), shape)
    wide = (1, -1, *[1] * (len(shape) - 2))
    made = _affine(reading, made, a.get("weight"), a.get("bias"), wide)
    return made if reading.call.name == "group_norm" else [made, None, None]


def _instance_norm(reading: _Reading, a: dict[str, Any]) -> int:
    if not a.get("use_input_stats", True):
        made = _batch_norm(reading, a | {"training": False})
        return int(made[0])
    source = a["input"]
    shape = reading.shape(source)
    flat = reading.reshaped(source, (*shape[:2], math.prod(shape[2:])))
    made = reading.reshaped(_normalised(reading, flat, float(a["eps"])), shape)
    wide = (1, -1, *[1] * (len(shape) - 2))
    return _affine(reading, made, a.get("weight"), a.get("bias"), wide)


def _attention(reading: _Reading, a: dict[str, Any]) -> int:
    """softmax(q k' scale + mask) v."""
    if float(a.get("dropout_p", 0.0)) or a.get("is_causal") or a.get("enable_gqa"):
        reading.refuse("dropout, a causal mask or grouped heads")
    query, key, value = (reading.varying(a[n]) for n in ("query", "key", "value"))
    shape = reading.shape(query)
    scale = shape[-1] ** -0.5 if a.get("scale") is None else float(a["scale"])
    mask = a.get("attn_mask")
    shift = None
    if mask is not None:
        shift = reading.constant(mask)
        if mask.dtype == torch.bool or not bool(shift.isfinite().all()):
            reading.refuse("a mask of minus infinity")
    wide = (*shape[:-1], reading.shape(key)[-2])
    scores = reading.put(Matmul, (query, reading.transposed(key)), wide, 8)
    scores = reading.put(Scale, (scores,), wide, _number(scale), shift, None, 4)
    shares = reading.put(Softmax, (scores,), wide, -1, False)
    return reading.put(Matmul, (shares, value), reading.call.shape, 16)


def _cast(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "self", "dtype", "layout", "device", "pin_memory", "non_blocking",
                 "memory_format")  # fmt: skip
    source = a["self"]
    was, kind = reading.operations[source].unit, reading.call.dtype
    shape = reading.shape(source)
    if kind in _LIMITS:  # from a whole type, too: what a narrower one does not hold wraps around
        return reading.put(Whole, (source,), shape, "trunc", _LIMITS[kind], unit=0.0)
    if kind not in UNIT:
        reading.refuse(f"dtype={kind}")
    return reading.put(Cast, (source,), shape, UNIT[kind] not in _HOLDS.get(was, ()))


def _whole(reading: _Reading, a: dict[str, Any]) -> int:
    name = reading.call.name
    if a.get("decimals", 0):
        reading.refuse(f"decimals={a['decimals']}")
    how = {"fix": "trunc"}.get(name, name)
    return reading.put(Whole, (a["self"],), reading.call.shape, how, (-math.inf, math.inf))


def _power(reading: _Reading, a: dict[str, Any]) -> int:
    if isinstance(reading.call.arguments["exponent"], Ref) or not isinstance(a["self"], int):
        reading.refuse("an exponent that is no number")
    power, source, shape = float(a["exponent"]), a["self"], reading.call.shape
    known = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if power == 1.0:
        return int(source)
    if power in known:
        return reading.put(Convex, (source,), shape, known[power], 8)
    if power == 3.0:
        return reading.curve(source, "cube", ())
    reading.refuse(f"exponent={power:g}")


def _norm(reading: _Reading, a: dict[str, Any]) -> int:
    order = a.get("ord", a.get("p", 2))
    if order is not None and float(order) != 2.0:
        reading.refuse(f"ord={order}")
    if a.get("dtype") is not None:
        reading.refuse(f"dtype={a['dtype']}")
    source = a["self"]
    shape = reading.shape(source)
    axes = _axes(a.get("dim"), len(shape))
    square = reading.put(Convex, (source,), shape, "square", 2)
    total = reading.put(Sum, (square,), reading.call.shape, shape, axes, 1.0)
    return reading.put(Convex, (total,), reading.call.shape, "sqrt", 4)


def _relu(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "self")
    return reading.hinge(a["self"], _number(0.0))


def _leaky(reading: _Reading, a: dict[str, Any]) -> int:
    reading.only(a, "self", "negative_slope")
    return reading.hinge(a["self"], _number(a["negative_slope"]))


def _prelu(reading: _Reading, a: dict[str, Any]) -> int:
    slope = reading.constant(a["weight"])
    rank = len(reading.call.shape)
    if slope.numel() > 1:
        slope = slope.reshape(1, -1, *[1] * (rank - 2)) if rank > 1 else slope
    else:
        slope = slope.reshape(())
    return reading.hinge(a["self"], slope)


def _selu(reading: _Reading, a: dict[str, Any]) -> int:
    arguments = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)
    return reading.curve(a["self"], "elu", arguments)


def _celu(reading: _Reading, a: dict[str, Any]) -> int:
    alpha = float(a["alpha"])
    if alpha <= 0:
        reading.refuse(f"alpha={alpha}")
    return reading.curve(a["self"], "elu", (alpha, 1.0, 1 / alpha))


def _clamp_one(reading: _Reading, a: dict[str, Any]) -> int:
    low, high = a.get("min", a.get("min_val")), a.get("max", a.get("max_val"))
    return reading.smooth("clamp", {"self": a["self"], "min": low, "max": high})


def _concatenate(reading: _Reading, a: dict[str, Any]) -> int:
    shape = reading.call.shape
    axis = int(a.get("dim", 0)) % len(shape)
    parts = [reading.varying(v) for v in a["tensors"]]
    if reading.call.name == "stack":
        one = (*shape[:axis], 1, *shape[axis + 1 :])
        parts = [reading.reshaped(p, one) for p in parts]
    parts = [p for p in parts if math.prod(reading.shape(p))]
    sizes = tuple(reading.shape(p)[axis] for p in parts)
    return reading.put(Concatenate, tuple(parts), shape, axis, sizes)


def _encode(reading: _Reading, a: dict[str, Any]) -> int:
    """A table's own first layer: the program begins behind it."""
    source, before = a["x"], reading.operations[1:]
    if reading.given is None or not all(isinstance(op, Cast) for op in before):
        raise Unsupported("Bounds: a table input behind other layers")
    if reading.encoder is not None:
        raise Unsupported("Bounds: a table input that is used twice")
    if any(op.unit > UNIT[torch.float32] for op in reading.operations):
        raise Unsupported("Bounds: a table input behind a type coarser than single precision")
    reading.encoder = reading.given
    first = Input((), reading.call.shape, UNIT[reading.call.dtype], "the table input")
    reading.operations = [first]
    # whatever else looks at the raw input would be counted from the wrong place
    reading.values = {k: v for k, v in reading.values.items() if isinstance(v, Tensor)}
    return 0 if isinstance(source, int) else reading.refuse("a constant")


def _variance(reading: _Reading, a: dict[str, Any]) -> int:
    source = a["self"]
    shape = reading.shape(source)
    axes = _axes(a.get("dim"), len(shape))
    if axes != (-1,):
        reading.refuse("axes other than the last")
    given = a.get("correction", 1)
    correction = 1.0 if given is None else float(given)
    if correction >= shape[-1]:
        reading.refuse(f"correction={correction:g} of {shape[-1]} numbers")
    centre = reading.put(Centre, (source,), shape)
    square = reading.put(Convex, (centre,), shape, "square", 2)
    factor = 1 / (shape[-1] - correction)
    return reading.put(Sum, (square,), reading.call.shape, shape, (-1,), factor)


def _rms_norm(reading: _Reading, a: dict[str, Any]) -> int:
    """x / sqrt(mean x^2 + eps), then its weights."""
    source, size = a["input"], tuple(a["normalized_shape"])
    shape, count = reading.shape(source), math.prod(size)
    eps = torch.finfo(reading.call.dtype).eps if a.get("eps") is None else float(a["eps"])
    flat = (*shape[: len(shape) - len(size)], count)
    one = (*flat[:-1], 1)
    held = reading.reshaped(source, flat)
    square = reading.put(Convex, (held,), flat, "square", 2)
    mean = reading.put(Sum, (square,), one, flat, (-1,), 1 / count)
    mean = reading.put(Scale, (mean,), one, _number(1.0), _number(eps), None, 8)
    root = reading.expanded(reading.put(Convex, (mean,), one, "rsqrt", 8), flat)
    made = reading.put(Multiply, (held, root), flat, math.sqrt(count), count + 20)
    return _affine(reading, reading.reshaped(made, shape), a.get("weight"), None, size)


_FAMILIES: dict[str, Callable[[_Reading, dict[str, Any]], Any]] = {
    "add": _add, "sub": _sub, "rsub": _rsub, "mul": _mul, "div": _div, "neg": _neg,
    "linear": _linear, "mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _addmm,
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution"),
        _convolution,
    ),
    **dict.fromkeys(
        ("_native_batch_norm_legit_no_training", "native_batch_norm", "batch_norm"), _batch_norm
    ),
    **dict.fromkeys(
        ("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
         "_adaptive_avg_pool2d", "upsample_bilinear2d"), _spatial,
    ),
    "sum": _sum, "mean": _sum, "amax": _maximum, "max": _maximum, "amin": _minimum,
    "min": _minimum, "maximum": _larger, "minimum": _larger,
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool2d_with_indices", "adaptive_max_pool1d",
         "adaptive_max_pool2d"), _max_pool,
    ),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax"), _softmax),
    "layer_norm": _layer_norm, "native_layer_norm": _layer_norm, "group_norm": _group_norm,
    "native_group_norm": _group_norm, "instance_norm": _instance_norm, "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention, "_to_copy": _cast,
    "floor": _whole, "ceil": _whole, "round": _whole, "trunc": _whole, "fix": _whole,
    "pow": _power, "linalg_vector_norm": _norm, "relu": _relu, "leaky_relu": _leaky,
    "prelu": _prelu, "_prelu_kernel": _prelu, "selu": _selu, "celu": _celu, "abs": lambda r, a:
    r.hinge(a["self"], _number(-1.0)), "hardtanh": _clamp_one, "relu6": lambda r, a:
    r.curve(a["self"], "clamp", (0.0, 6.0)), "clamp_min": _clamp_one, "clamp_max": _clamp_one,
    "cat": _concatenate, "stack": _concatenate, "encode": _encode, "var": _variance,
    "dropout": _dropout, "feature_dropout": _dropout, "alpha_dropout": _dropout,
    "square": lambda r, a: r.put(Convex, (a["self"],), r.call.shape, "square", 2),
}  # fmt: skip
KNOWN = frozenset({*_FAMILIES, *_MOVES, *_SAME, *_SMOOTH, *_CONVEX, "_assert_tensor_metadata"})
