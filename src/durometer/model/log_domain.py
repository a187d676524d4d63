"""Probabilities in the log domain: what a torch module gave to its last softmax or sigmoid.

log(softmax(z)) loses every class whose probability rounds to 0, and a search sees a plain where the
module has a slope. If the tensor that the module gives *is* the output of a softmax over classes
(or of a sigmoid), its logarithm is computed from what went in, without that loss.

What a reader would get wrong: only the very tensor counts. Probabilities that were averaged,
clipped or sliced afterwards are others, and are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SOFTMAX = (torch.softmax, Tensor.softmax, functional.softmax, torch.special.softmax)
_SIGMOID = (torch.sigmoid, Tensor.sigmoid, functional.sigmoid, torch.special.expit)


class _Last(TorchFunctionMode):
    """Notes the last softmax or sigmoid, and what went in."""

    out: Tensor | None = None
    log: Callable[[], Tensor] | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in _SOFTMAX:
            given = args[0] if args else kwargs["input"]
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            if dim in (1, -1) and given.ndim == 2:
                self.out, self.log = out, lambda: torch.log_softmax(given, 1)
        elif func in _SIGMOID:
            given = args[0] if args else kwargs["input"]
            if given.ndim == 1 or (given.ndim == 2 and given.shape[1] == 1):
                z = given.reshape(-1)
                self.out = out
                self.log = lambda: torch.stack(
                    [functional.logsigmoid(-z), functional.logsigmoid(z)], 1
                )
        return out


def watched(call: Callable[[], Any]) -> tuple[Any, _Last]:
    """What the call gives, and the last softmax or sigmoid on the way to it."""
    last = _Last()
    with last:
        return call(), last


def logarithms(out: Any, last: _Last) -> Tensor | None:
    """(n, C): the logarithms of these probabilities, if they are what the last softmax gave."""
    return last.log() if last.log is not None and out is last.out else None
