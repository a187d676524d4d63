"""How many rows are played at once: a batch runs empty as its rows are solved, so wide is faster.

Rows do not meet in a static game and their random numbers are their own, so chunks (the unit of
storage) may be played together: 10,000 rows of a tiny network take 12 us each in one batch and 113
in batches of 256. The bound is memory: what autograd keeps of a row, measured on the model itself,
and what an attack holds of its input. What is played at once is also kept at once, so that a kill
loses it: it is at most an eighth of a job's rows, no more than `MOST`, and what the network
computes for it in one pass is at most `WORK`. That holds for a chunk, too, where nobody chose its
size: 256 rows of a convolutional network take minutes, and narrower batches of one cost no more.

What a reader would get wrong: no clock is asked, nor how many workers there are. Last digits of a
network's answers can depend on the width of a batch, so a job is cut in the same way each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from durometer.model.classifier import Classifier

MEMORY = 2**26  # bytes: beyond, wider batches only leave the processor's caches
MOST = 4096
WORK = 8e7  # multiplications of one forward pass: the standard attack with its proofs takes seconds
LEAST = 16  # rows: narrower batches cost more than what a kill loses
TURNS = 8  # of a job at least, where it has as many chunks: work for several, and little to lose
_HELD = 16  # tensors of the input's size that an attack holds of a row


def rows_at_once(model: Classifier | None, x: Tensor) -> int:
    """As many rows as fit; 1 for a model that is no torch module: its calls are large as it is."""
    if model is None or model.module is None or model.together or model.bound or not len(x):
        return 1
    few = x[:2]
    kept = kept_by_autograd(model, few) / len(few)
    held = _HELD * few[0].numel() * few.element_size()
    fit = MEMORY // max(1.0, kept + held)
    return int(max(1, min(MOST, fit, max(LEAST, WORK // multiplications(model, few)))))


def rows_per_chunk(width: int, usual: int) -> int:
    """Rows that are kept together where nobody says: a power of two, and at most the usual number.

    Args:
        width: What `rows_at_once` says.
        usual: Rows of a chunk of a model that costs little.
    """
    return usual if width >= usual or width == 1 else max(LEAST, 2 ** (width.bit_length() - 1))


class _Counted(TorchFunctionMode):
    """Multiplications of the convolutions and matrix products that are computed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, function: Callable[..., Any], _: Any, args: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        out = function(*args, **(named or {}))
        name = getattr(function, "__name__", "")
        if len(args) > 1 and isinstance(out, Tensor):
            a, b = args[:2]
            if name.startswith("conv_transpose"):  # every input meets every weight of its channel
                self.count += a.numel() * b[0].numel()
            elif name in ("conv1d", "conv2d", "conv3d"):
                self.count += out.numel() * b[0].numel()
            elif name in ("linear", "matmul", "__matmul__", "mm", "bmm"):
                self.count += out.numel() * a.shape[-1]
            elif name == "scaled_dot_product_attention":
                self.count += 2 * a.numel() * b.shape[-2]
        return out


def multiplications(model: Classifier, x: Tensor) -> float:
    """Multiplications of a forward pass for each of these rows; 1 where none can be seen."""
    with model.ready(), torch.no_grad(), _Counted() as counted:
        model.logits(x)
    return max(1.0, float(counted.count) / len(x))


def kept_by_autograd(model: Classifier, x: Tensor) -> int:
    """Bytes that a gradient of these rows needs until its backward pass; weights not counted."""
    if not (model.differentiable and x.is_floating_point()):
        return 0
    weights = {p.untyped_storage().data_ptr() for p in model.module.parameters()}
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return t

    with (
        model.ready(),
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
    ):
        model.logits(x.detach().clone().requires_grad_()).sum()
    return sum(kept.values())
