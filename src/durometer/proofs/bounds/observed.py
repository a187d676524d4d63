"""What a network does when it is asked, seen operation by operation: what a trace does not show.

Reduced precision (a cast, an autocast, weights in 16 bits), random numbers, hooks, a `forward` put
on one module: bounds would be those of another network, so these are refused by name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from durometer.core.errors import Unsupported
from durometer.model.classifier import Classifier

_INSTEAD = "use an attack alone, or Enumerate"
# What `h += x` and its kin do: torch.fx reads `h + x`, but other names of h change, too.
_AUGMENTED = frozenset({"add_", "sub_", "mul_", "div_", "pow_", "remainder_", "floor_divide_"})
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def observed(model: Classifier, x: Tensor) -> float:
    """The unit of rounding of the model's arithmetic; `x` (1, ...) is an input."""
    for name, m in model.module.named_modules():
        where = f"'{name}' ({type(m).__name__})" if name else type(m).__name__
        if any(getattr(m, hooks, None) for hooks in _HOOKS):
            raise Unsupported(f"Bounds: {where} has a forward hook; remove it, or {_INSTEAD}")
        if "forward" in vars(m):
            raise Unsupported(f"Bounds: {where} has a forward of its own put on it; {_INSTEAD}")
        if m.training:
            raise Unsupported(f"Bounds: {where} stays in training mode; {_INSTEAD}")
    if torch.get_float32_matmul_precision() != "highest":
        raise Unsupported(
            "Bounds: torch.set_float32_matmul_precision is not 'highest', so products are rounded "
            "more than single precision does; set it, or " + _INSTEAD
        )
    seen = _Seen()
    with torch.no_grad():
        first = model.logits(x)
        with seen:
            again = model.logits(x)
    if seen.random:
        raise Unsupported(f"Bounds: the network draws random numbers ({seen.random}); {_INSTEAD}")
    if seen.overwrites:
        raise Unsupported(
            f"Bounds: the network changes a tensor in place ({seen.overwrites}); write h = h + x "
            f"for h += x, or {_INSTEAD}"
        )
    if not torch.allclose(first, again, rtol=1e-5, atol=1e-7):
        raise Unsupported(f"Bounds: the network answers differently twice; {_INSTEAD}")
    low = seen.types - {torch.float32, torch.float64}
    if low:
        names = ", ".join(sorted(str(t).removeprefix("torch.") for t in low))
        raise Unsupported(f"Bounds: the network computes in {names}; give it in float32 or float64")
    return 2.0**-51 if seen.types == {torch.float64} else 2.0**-24


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Floating types, random operations, and writing in place."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: set[torch.dtype] = set()
        self.random = self.overwrites = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.random = str(func)
        if func.overloadpacket.__name__ in _AUGMENTED:
            self.overwrites = str(func)
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else (out,):
            if isinstance(value, Tensor) and value.is_floating_point():
                self.types.add(value.dtype)
        return out
