"""A torch module as a graph, traced (torch.fx) with an example beside every node.

With the values of an example a network may ask for shapes, unpack a split and iterate, which fx
alone refuses. What stays refused is a branch on values: a bound for all inputs cannot follow one.

What a reader would get wrong: the example's batch size is written into the graph wherever the
network reads it (`x.view(n, 4, -1)`). It is a number that nothing else is likely to be, and is put
right when a step is called (`layers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from durometer.core.errors import Unsupported

_ROWS = (97, 101, 103, 107, 109)  # of the example: the first that is no other size in the network


def is_table_input(module: nn.Module) -> bool:
    """The first layer of networks for tables: its output is where bounds begin."""
    return all(hasattr(module, name) for name in ("numbers", "one_hot_groups", "codes", "width"))


def graph_of(module: nn.Module, example: Tensor) -> tuple[fx.Graph, int]:
    """The graph, and how many rows it was traced with.

    `node.meta["value"]` is what each node gives on so many copies of the example (1, ...).
    """
    said = type(module[0] if isinstance(module, nn.Sequential) else module).__name__
    for rows in _ROWS:
        try:
            with torch.no_grad():
                graph = _Tracer(example.expand(rows, *example.shape[1:])).trace(module)
        except Exception as error:  # whatever fx stumbles over: a loop, a branch on values
            raise Unsupported(
                f"Bounds cannot trace {said} (torch.fx: {error}); write its forward "
                "without branches on values, or use an attack alone"
            ) from None
        if not any(rows in _sizes(node) for node in graph.nodes):
            return graph, rows
    raise Unsupported(f"Bounds: {said} has layers of all of the sizes {_ROWS}")


def _sizes(node: fx.Node) -> tuple[int, ...]:
    """All sizes of what a node gives but the rows'; all of them where it is a constant."""
    value = node.meta.get("value")
    if not isinstance(value, Tensor):
        return ()
    return tuple(value.shape) if node.op == "get_attr" else tuple(value.shape[1:])


class _Valued(fx.Proxy):
    """A proxy that knows what it is on the example, as far as shapes and lengths go."""

    @property
    def _value(self) -> Any:
        return self.node.meta["value"]

    @property
    def shape(self) -> torch.Size:
        found: torch.Size = self._value.shape
        return found

    @property
    def ndim(self) -> int:
        return len(self._value.shape)

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = self._value.dtype
        return found

    def size(self, dim: int | None = None) -> Any:
        return self._value.shape if dim is None else self._value.shape[dim]

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        every: Any = self
        return (every[i] for i in range(len(self._value)))


class _Tracer(fx.Tracer):
    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self._example = example
        self._evaluating = False  # while it is, modules are themselves again

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_table_input(m) or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Valued(node, self)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        made = super().create_node(*args, **kwargs)
        self._evaluating = True
        made.meta["value"] = _double(self._on_example(made))
        self._evaluating = False
        return made

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self._evaluating:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if self._evaluating:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def _on_example(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._example
        if node.op == "output":
            return None
        if node.op == "get_attr":
            found: Any = self.root
            for name in str(node.target).split("."):
                found = getattr(found, name)
            return found.detach()
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["value"])
        if node.op == "call_module":
            return self.root.get_submodule(str(node.target))(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _double(value: Any) -> Any:
    """As the bounds compute, whatever the network casts to."""
    if isinstance(value, tuple | list):
        return type(value)(map(_double, value))
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
