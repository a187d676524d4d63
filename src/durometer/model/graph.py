"""An ONNX graph as a function of torch, so that gradients can be taken through it.

The nodes are run one after the other by `graph_operations.py`. Where symbols (bytes, words) come in
as integers there is no gradient; a `RelaxedTokens` input (`spaces/discrete.py`) knows what each
symbol was chosen from, and where the graph turns symbols into vectors (a row of a table, a one-hot
code) the mean over the options is added straight through: the value stays, the gradient is the
mixture's.

What a reader would get wrong: the symbols are followed by name through reshapes and integer casts
only. A graph that first computes with them (adds one, looks up twice) is refused, not guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Unsupported
from durometer.model.graph_operations import OPERATIONS, Attributes
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
