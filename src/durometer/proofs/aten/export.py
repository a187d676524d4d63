"""torch.export: a module as a flat list of ATen calls. The only file that knows this API.

The exported graph is functional: a write in place has become a new value, hooks, autocast and
arguments are all visible, and a branch on values does not export. What the graph cannot show as a
pure function of its one input is refused here: training mode, writing into buffers or the input,
several inputs, several outputs.

What a reader would get wrong: the number of rows is written into the graph wherever the network
reads it. One graph is the program of that many rows, nothing more (`rows.py` compares several).
"""

# ruff: noqa: SLF001 (torch gives a schema under no other name)
from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from durometer.core.errors import Unsupported

# Written with simpler operations before reading; everything else is read as it is called.
_DECOMPOSED = ("einsum", "matmul", "glu", "bilinear", "std", "var", "square", "rsub")


@dataclass(frozen=True, eq=False)
class Call:
    """One ATen operation: every argument by the name its schema gives it, defaults filled in."""

    name: str  # without its overload: "add", "conv2d"
    overload: str
    arguments: dict[str, Any]  # tensors as `Ref`
    shape: tuple[int, ...]  # of the (first) result
    dtype: torch.dtype
    place: str  # where it was written
    target: Any  # the operator itself
    random: bool  # it draws random numbers, with some arguments at least

    def on(self, arguments: dict[str, Any]) -> Any:
        """What the operator itself gives for these arguments: constants, or places."""
        taken = self.target._schema.arguments
        with torch.no_grad():
            return self.target(
                *(arguments[a.name] for a in taken if not a.kwarg_only),
                **{a.name: arguments[a.name] for a in taken if a.kwarg_only},
            )


@dataclass(frozen=True)
class Ref:
    """A tensor of the graph: what call number `at` gives, or one of several results of it."""

    at: int
    part: int | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    """Calls in order; the first `Ref`s are the constants, then the input, then the calls."""

    constants: dict[int, Tensor]
    input: int
    shape: tuple[int, ...]  # of the input, with its rows
    dtype: torch.dtype
    calls: dict[int, Call]
    output: Ref


def exported(module: nn.Module, x: Tensor, known: frozenset[str]) -> Graph:
    """The graph of a module in eval mode for inputs of the shape and type of `x`.

    `known` are operations that the reader takes as they are.
    """
    for name, m in module.named_modules():
        if m.training:
            where = f"'{name}' ({type(m).__name__})" if name else type(m).__name__
            raise Unsupported(f"Bounds: {where} is in training mode; call .eval() on it")
    with _tracing(module):
        held = torch.export.export(module, (x,), strict=False)
        if not _readable(held, known):
            held = held.run_decompositions(_decompositions())
    return _graph(held)


def same_for_any_rows(module: nn.Module, x: Tensor) -> bool:
    """Does torch trace the module for any number of rows? Not where it asks how many there are,
    nor where some of torch's own operations do. Refuse a module that computes with that number."""
    rows = torch.export.Dim("rows", min=2)
    try:
        with _tracing(module):
            held = torch.export.export(module, (x,), dynamic_shapes=({0: rows},), strict=False)
    except Unsupported:
        return False
    _only_sizes(held)
    return True


def _only_sizes(held: Any) -> None:
    """Refuse a graph for any number of rows in which that number is more than a size.

    It may be a size of a view, of an expanded or of a filled tensor, or the end of a slice; a
    product of it and a number may, too. Whatever else is computed from it (`n // 2000`) may only
    size a view, which keeps all numbers. Constants of that size may not be summed or counted.
    """
    source = set(held.graph_signature.user_inputs)
    varies: set[fx.Node] = set()
    plain: set[fx.Node] = set()
    for node in held.graph.nodes:
        before = node.all_input_nodes
        if node.name in source or any(n in varies for n in before):
            varies.add(node)
        value = node.meta.get("val")
        sizes = [n for n in before if isinstance(n.meta.get("val"), _SYMBOLS)]
        if isinstance(value, _SYMBOLS):
            varies.discard(node)
            if not sizes or (node.target is operator.mul and all(n in plain for n in sizes)):
                plain.add(node)
            continue
        if not isinstance(value, Tensor) or not isinstance(node.target, torch._ops.OpOverload):
            continue
        name = _name(node.target)
        allowed = _SIZED if all(n in plain for n in sizes) else _VIEWS
        if sizes and (name not in allowed or not all(_as_size(node, n) for n in sizes)):
            raise _counts_rows(node)
        grown = any(isinstance(s, torch.SymInt) for s in value.shape)
        if node not in varies and (name not in _FILLED if grown else _grown(before)):
            raise _counts_rows(node)


_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_VIEWS = frozenset({"view", "_unsafe_view", "reshape", "unflatten"})
_SIZED = _VIEWS | {"expand", "full", "zeros", "ones", "new_full", "new_zeros", "new_ones", "slice"}
_FILLED = _SIZED | {"_to_copy", "clone", "alias", "detach", "unsqueeze", "squeeze", "transpose",
                    "permute", "cat", "stack", "add", "sub", "mul", "lift_fresh_copy",
                    "full_like", "zeros_like", "ones_like", "tanh", "sigmoid", "relu", "linear",
                    "select"}  # fmt: skip


def _grown(nodes: list[fx.Node]) -> bool:
    """Is one of these a constant with as many numbers as there are rows?"""
    values = [n.meta.get("val") for n in nodes]
    return any(
        isinstance(s, torch.SymInt) for v in values if isinstance(v, Tensor) for s in v.shape
    )


def _as_size(node: fx.Node, size: fx.Node) -> bool:
    """Is it given where the operation takes a size, and not a value?"""
    target: Any = node.target
    taken = target._schema.arguments
    given = {a.name: v for a, v in zip(taken, node.args, strict=False)} | dict(node.kwargs)
    kinds = {a.name: str(a.type) for a in taken}
    places = [name for name, v in given.items() if size in _nodes_of(v)]
    return all("int" in kinds[name] for name in places)  # a value is a "number"


def _nodes_of(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    keep: Any = found.append
    fx.map_arg(value, keep)
    return found


def _counts_rows(node: fx.Node) -> Unsupported:
    return Unsupported(
        f"Bounds: the network computes with the number of rows ({_place(node)}); write it so that "
        "an answer depends on its own row only, or use an attack alone"
    )


@contextlib.contextmanager
def _tracing(module: nn.Module) -> Iterator[None]:
    """Whatever user code does when it is traced becomes a refusal."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fused kernel is not on the list
    try:
        with torch.no_grad(), _quiet():
            yield
    except Exception as error:
        first = str(error).strip().splitlines()[:1] or [""]
        raise Unsupported(
            f"Bounds: torch.export cannot read {type(module).__name__} "
            f"({type(error).__name__}: {first[0][:160]}); write its forward without branches on "
            "values, or use an attack alone"
        ) from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _readable(held: Any, known: frozenset[str]) -> bool:
    """Is the graph functional and of known operations as it is? Making it so costs far more."""
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return False  # its casts show only after that
    for node in held.graph.nodes:
        if (
            node.op in ("placeholder", "output")
            or getattr(node.target, "__name__", "") == "getitem"
        ):
            continue
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return False
        schema = node.target._schema
        plain = node.target.namespace == "durometer" or node.target.namespace == "aten"
        if schema.is_mutable or not plain or _name(node.target) not in known:
            return False
    return True


def _name(target: Any) -> str:
    return str(target.overloadpacket.__name__)


@functools.cache
def _decompositions() -> dict[Any, Any]:
    known: Any = torch.export.default_decompositions()
    return {op: how for op, how in known.items() if _packet(op) in _DECOMPOSED}


def _packet(op: Any) -> str:
    return str(op).removeprefix("aten.").split(".")[0] if str(op).startswith("aten.") else ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the graphs that torch prints where it gives up."""
    names = (
        "torch.fx.experimental.symbolic_shapes",
        "torch._export",
        "torch.export",
        "torch._dynamo",
    )
    logs = [(logging.getLogger(n), logging.getLogger(n).level) for n in names]
    for log, _ in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        for log, level in logs:
            log.setLevel(level)


def _graph(held: Any) -> Graph:
    signature = held.graph_signature
    kinds = {str(spec.kind).rsplit(".", 1)[-1] for spec in signature.output_specs}
    if "BUFFER_MUTATION" in kinds:
        raise Unsupported(
            "Bounds: the network writes into a buffer when it is asked, so its answers depend on "
            "what it was asked before; use an attack alone"
        )
    if kinds != {"USER_OUTPUT"}:
        raise Unsupported(
            f"Bounds: the network does more than answer ({', '.join(sorted(kinds))}): it may "
            "change its input in place; write it without, or use an attack alone"
        )
    refs: dict[fx.Node, Ref] = {}
    constants: dict[int, Tensor] = {}
    calls: dict[int, Call] = {}
    source: int | None = None
    given: Any = None
    specs = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}
    for at, node in enumerate(held.graph.nodes):
        if node.op == "placeholder":
            spec = specs[node.name]
            refs[node] = Ref(at)
            if spec.target is not None:
                found = held.state_dict.get(spec.target, held.constants.get(spec.target))
                constants[at] = found.detach()
            elif source is None:
                source, given = at, node.meta["val"]
            else:
                raise Unsupported("Bounds: the network takes more than one input")
        elif node.op == "output":
            outputs = node.args[0]
            if len(outputs) != 1 or not isinstance(outputs[0], fx.Node):
                raise Unsupported("Bounds: the network gives more than one output, or none")
            if source is None:
                raise Unsupported("Bounds: the network has no input")
            return Graph(
                constants, source, tuple(given.shape), given.dtype, calls, refs[outputs[0]]
            )
        elif getattr(node.target, "__name__", "") == "getitem":
            refs[node] = Ref(refs[node.args[0]].at, int(node.args[1]))
        else:
            refs[node] = Ref(at)
            call = _call(node, refs)
            if call is not None:
                calls[at] = call
    raise Unsupported("Bounds: the network has no output")


def _call(node: fx.Node, refs: dict[fx.Node, Ref]) -> Call | None:
    target: Any = node.target
    if not hasattr(target, "_schema"):
        raise Unsupported(f"Bounds does not know the operation '{target}' ({_place(node)})")
    name = _name(target)
    if name == "_assert_tensor_metadata":
        return None  # torch's own note about types; computes nothing
    if target._schema.is_mutable:
        raise Unsupported(f"Bounds: '{name}' writes in place ({_place(node)})")
    taken = [a.name for a in target._schema.arguments]
    given = dict(zip(taken, node.args, strict=False)) | dict(node.kwargs)
    usual = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
    arguments = {name: given.get(name, usual.get(name)) for name in taken}
    found: Any = refs
    held: Any = fx.map_arg(arguments, lambda n: found[n])
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) else value
    if not isinstance(first, Tensor):
        raise Unsupported(f"Bounds does not know the operation '{name}' ({_place(node)})")
    own = target.namespace == "durometer"
    full = name if target.namespace == "aten" or own else f"{target.namespace}::{name}"
    shape, dtype = tuple(int(s) for s in first.shape), first.dtype
    return Call(
        full,
        target._overloadname,
        dict(held),
        shape,
        dtype,
        _place(node),
        target,
        torch.Tag.nondeterministic_seeded in target.tags,
    )


def _place(node: fx.Node) -> str:
    """The module and the line that a call comes from, as far as torch kept them."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    inside = str(stack[-1][0]).removeprefix("L['self'].") if stack else ""
    trace = (node.stack_trace or "").strip().splitlines()
    line = trace[-1].strip() if trace else ""
    return (
        " ".join(filter(None, (f"in '{inside}'" if inside else "", f"at `{line}`" if line else "")))
        or node.name
    )


def prepared(module: nn.Module) -> nn.Module:
    """A copy that may be traced: what is compiled is the module below."""
    frame = sys.modules.get("torch._dynamo.eval_frame")  # there once anything was compiled
    below: Any = module
    if frame is not None and type(module) is frame.OptimizedModule:
        if module._forward_hooks or module._forward_pre_hooks:
            raise Unsupported("Bounds: a hook on a compiled module; put it on the module inside")
        below = module._orig_mod
    if isinstance(below, torch.jit.ScriptModule):
        raise Unsupported("Bounds reads modules, not TorchScript; give the module it was made of")
    copied: nn.Module = copy.deepcopy(below)
    return copied
