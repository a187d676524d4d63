"""What a network keeps from one question to the next, beside its parameters and buffers.

A forward that counts its calls in plain Python answers by what it was asked before, and a traced
graph shows one of its ways. So a copy is asked twice: whatever it holds (attributes, what its hooks
and functions close over, the globals they name, generators of random numbers) must be the same
before and after, and so must its answer with another question in between.

What a reader would get wrong: this is no proof. What stands further outside (a file, the clock, the
globals of what it calls) is not seen; the auditor may notice it, nothing else does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import itertools
import random
import types
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported

_DEEP = 6  # how far into what it holds
_OWN = frozenset(vars(nn.Module())) - {"_forward_hooks", "_forward_pre_hooks"}


def check_keeps_nothing(module: nn.Module, x: Tensor) -> None:
    """Refuse a module that changes what it holds when it is asked; `module` may be a copy."""
    with torch.no_grad():
        module(x.clone())  # what is set up once
        before = held_state(module)
        first = module(x.clone())
        after = held_state(module)
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                raise Unsupported(
                    f"Bounds: the network changes '{name}' when it is asked, so its answers may "
                    "depend on what it was asked before; use an attack alone"
                )
        with contextlib.suppress(RuntimeError, IndexError, ValueError):  # not every input is one
            module(x.flip(-1) + 1)
        again = module(x.clone())
    if isinstance(first, Tensor) and not torch.equal(first.nan_to_num(), again.nan_to_num()):
        raise Unsupported(
            "Bounds: the network answers differently after another question; use an attack alone"
        )


def held_state(module: nn.Module) -> dict[str, Any]:
    """What a module holds beside parameters and buffers, as values that can be compared."""
    frozen = _Frozen()
    return {
        f"{path}.{name}".strip("."): frozen.of(value, _DEEP)
        for path, part in module.named_modules()
        for name, value in (*vars(part).items(), *_forward(part))
        if name not in _OWN
    }


def tensor_bytes(value: Tensor) -> bytes:
    """A digest of its numbers, bit by bit."""
    held = value.detach().cpu().contiguous().flatten()
    numbers: Any = held.view(torch.uint8).numpy() if len(held) else b""
    return hashlib.blake2b(numbers).digest()


def _forward(part: nn.Module) -> list[tuple[str, Any]]:
    """What the class computes with, where it is not torch's own."""
    own = type(part).__module__.startswith("torch.nn.")
    return [] if own else [("forward", inspect.getattr_static(type(part), "forward"))]


class _Frozen:
    """Values to compare: equal where nothing that counts has changed. Each object is looked at
    once, so that cycles end."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}  # kept, or an id may come again

    def of(self, value: Any, deep: int) -> Any:
        kind = type(value)
        if kind in (bool, int, float, complex, str, bytes, type(None)):
            return kind, repr(value)
        if deep == 0 or id(value) in self.seen or isinstance(value, nn.Module):
            return kind
        self.seen[id(value)] = value
        return kind, self._inside(value, deep - 1)

    def _inside(self, value: Any, deep: int) -> Any:
        if isinstance(value, Tensor):
            return tuple(value.shape), repr(value.dtype), tensor_bytes(value)
        if isinstance(value, np.ndarray):
            return value.shape, value.tobytes()
        if isinstance(value, np.random.Generator):
            return repr(value.bit_generator.state)
        if isinstance(value, np.random.RandomState):
            return repr(value.get_state())
        if isinstance(value, random.Random):
            return value.getstate()
        if isinstance(value, torch.Generator):
            return tensor_bytes(value.get_state())
        if isinstance(value, itertools.count | itertools.cycle | types.BuiltinFunctionType):
            return repr(value)
        if isinstance(value, functools.partial):
            return self.of((value.func, value.args, value.keywords), deep)
        if isinstance(value, types.FunctionType | types.MethodType):
            return self._of_function(value, deep)
        if isinstance(value, Mapping):
            return [(repr(k), self.of(v, deep)) for k, v in value.items()]
        if isinstance(value, Set):
            return sorted(map(repr, value))
        if isinstance(value, Sequence):
            return [self.of(v, deep) for v in value]
        return self.of(vars(value), deep) if hasattr(value, "__dict__") else None

    def _of_function(self, value: types.FunctionType | types.MethodType, deep: int) -> Any:
        """Its code, what it closes over, its defaults and the data that it names."""
        function: Any = value.__func__ if isinstance(value, types.MethodType) else value
        cells = [c.cell_contents for c in function.__closure__ or () if _is_set(c)]
        names = sorted(set(function.__code__.co_names) & function.__globals__.keys())
        outside = [function.__globals__[name] for name in names]
        data = [
            v for v in outside if not isinstance(v, types.ModuleType | type) and not callable(v)
        ]
        held = [*cells, *(function.__defaults__ or ()), vars(function), *data]
        return [id(function.__code__), *(self.of(v, deep) for v in held)]


def _is_set(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (asking is all there is)
    except ValueError:
        return False
    return True
