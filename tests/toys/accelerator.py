"""An accelerator without hardware: tensors that live elsewhere, and a count of what that costs.

Inside `with Accelerator() as device:` the device `device.place` keeps its tensors apart (each wraps
one of the CPU's, which does its arithmetic). It does what a GPU's driver does:

    refuses    tensors of two places in one operation; float64, as Apple's GPUs do
    counts     transfers up and down, and synchronisations: whatever needs a number on the host
               (`item`, `bool`, `nonzero`, masks as indices, `tolist`, `.cpu()`)

It goes by the name of torch's "meta" device, the one place that torch knows, autograd included, and
that has no arithmetic of its own. What a reader would get wrong: a download synchronises too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
PLACE = torch.device("meta")
_WAITS = {  # shapes that depend on values
    aten.nonzero.default, aten.masked_select.default, aten._unique2.default,
    aten.unique_dim.default, aten.unique_consecutive.default,
    aten.repeat_interleave.Tensor, aten._local_scalar_dense.default, aten.equal.default,
}  # fmt: skip


class MixedPlaces(RuntimeError):
    """Tensors of two places in one operation."""


class Remote(Tensor):
    """A tensor of the accelerator."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Remote:
        made: Remote = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=PLACE,
        )  # fmt: skip
        made.inner = inner
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Remote({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on the accelerator after it was switched off")


def _made_there(make: Callable[..., Any]) -> Callable[..., Any]:
    """torch.tensor and the like know that "meta" holds no values, and would leave them out."""

    def made(values: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != PLACE.type:
            return make(values, *args, device=device, **kwargs)
        return make(values, *args, **kwargs).to(PLACE)

    return made


def _listed(tolist: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """`tolist` is refused for subclasses."""
    return lambda t: tolist(t.cpu() if isinstance(t, Remote) else t)


class Accelerator(TorchDispatchMode):
    """The place, and what was spent on going there and back."""

    place = PLACE

    def __init__(self, doubles: bool = False) -> None:
        super().__init__()
        self.doubles = doubles
        self.up = self.down = self.syncs = self.operations = 0
        self.where: list[str] | None = None  # a list: the lines that wait, for whoever looks

    def reset(self) -> None:
        self.up = self.down = self.syncs = self.operations = 0

    def __enter__(self) -> Self:
        self._patched = pytest.MonkeyPatch()
        for name in ("tensor", "as_tensor"):
            self._patched.setattr(torch, name, _made_there(getattr(torch, name)))
        self._patched.setattr(Tensor, "tolist", _listed(Tensor.tolist))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patched.undo()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = list(_tensors((args, tuple(kwargs.values()))))
        remote = [t for t in tensors if isinstance(t, Remote)]
        wanted = kwargs.get("device")
        goes = PLACE if remote else None
        if wanted is not None:
            goes = PLACE if torch.device(wanted).type == PLACE.type else None
        if not remote and goes is None:
            return func(*args, **kwargs)
        self.operations += 1
        self._count(func, args, remote, tensors, goes)
        given = {name: _inner(value) for name, value in kwargs.items()}
        if wanted is not None:
            given["device"] = torch.device("cpu")
        out = func(*_inner(args), **given)
        return self._handed_back(func, args, kwargs, out, goes)

    def _count(
        self, func: Any, args: Any, remote: list[Tensor], tensors: list[Tensor], goes: Any
    ) -> None:
        local = [t for t in tensors if not isinstance(t, Remote) and t.ndim]
        if func is aten._to_copy.default:
            self.up += bool(goes and not remote)
            if remote and goes is None:
                self.down += 1
                self._wait(func)
        elif func is aten.copy_.default and local and remote:
            self.up += isinstance(args[0], Remote)
            if not isinstance(args[0], Remote):
                self.down += 1
                self._wait(func)
        elif local:
            shapes = [tuple(t.shape) for t in local]
            raise MixedPlaces(f"{func} takes tensors of the host {shapes} and of the accelerator")
        elif func in _WAITS or self._by_mask(func, args):
            self._wait(func)

    @staticmethod
    def _by_mask(func: Any, args: Any) -> bool:
        if func not in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
            return False
        masks = any(t is not None and t.dtype == torch.bool for t in args[1])
        filled = func is not aten.index.Tensor and args[2].numel() == 1  # it is a masked_fill
        return masks and not filled

    def _wait(self, func: Any) -> None:
        self.syncs += 1
        if self.where is not None:
            import traceback

            own = [f for f in traceback.extract_stack() if "/durometer/" in f.filename]
            line = f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno}" if own else "?"
            self.where.append(f"{line} {func}")

    def _handed_back(self, func: Any, args: Any, kwargs: Any, out: Any, goes: Any) -> Any:
        schema = func._schema
        changed = [
            args[i] if i < len(args) else kwargs.get(a.name)
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]
        if (changed and schema.name.rpartition("::")[2].endswith("_")) or "out" in kwargs:
            return changed[0] if len(changed) == 1 else tuple(changed)
        if goes is None:
            return out

        def remote(t: Any) -> Any:
            if not isinstance(t, Tensor):
                return t
            if t.dtype == torch.float64 and not self.doubles:
                raise TypeError(f"{func}: the accelerator has no float64")
            return Remote(t)

        return remote(out) if isinstance(out, Tensor) else tree_map(remote, out)


@cache
def _written(func: Any) -> list[tuple[int, str]]:
    """The arguments that an operation in place, or one with out=, changes and gives back."""
    places = enumerate(func._schema.arguments)
    return [(i, a.name) for i, a in places if a.alias_info and a.alias_info.is_write]


def _tensors(values: tuple[Any, ...] | list[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _inner(value: Any) -> Any:
    if isinstance(value, Remote):
        return value.inner
    if isinstance(value, tuple | list):
        return type(value)(map(_inner, value))
    return value


def placed(module: nn.Module) -> nn.Module:
    """The module with its weights on the accelerator."""
    return module.to(PLACE)
