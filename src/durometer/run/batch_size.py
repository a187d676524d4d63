"""How many rows are played at once: a batch runs empty as its rows are solved, so wide is faster.

Rows do not meet in a static game and their random numbers are their own, so chunks (the unit of
storage) may be played together: 10,000 rows of a tiny network take 12 us each in one batch and 113
in batches of 256. The bound is memory: what autograd keeps of a row, measured on the model itself,
and what an attack holds of its input. What is played at once is also kept at once, so that a kill
loses it: it is at most an eighth of a job's rows, and no more than `MOST`.

What a reader would get wrong: no clock is asked, nor how many workers there are. Last digits of a
network's answers can depend on the width of a batch, so a job is cut in the same way each time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.model.classifier import Classifier

MEMORY = 2**26  # bytes: beyond, wider batches only leave the processor's caches
MOST = 4096
TURNS = 8  # of a job at least, where it has as many chunks: work for several, and little to lose
_HELD = 16  # tensors of the input's size that an attack holds of a row


def rows_at_once(model: Classifier | None, x: Tensor) -> int:
    """As many rows as fit; 1 for a model that is no torch module: its calls are large as it is."""
    if model is None or model.module is None or model.together or model.bound or not len(x):
        return 1
    few = x[:2]
    kept = kept_by_autograd(model, few) / len(few)
    held = _HELD * few[0].numel() * few.element_size()
    return int(min(MOST, MEMORY // max(1.0, kept + held)))


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
