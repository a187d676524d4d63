"""What an answer of the model says about the goal: its margin, and whether that matters.

Every query of every attack is read here, so on the host it is one compiled pass; the same in torch
stands beside it, for accelerators and half precision.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from durometer.goals.goal import gap, reached
from durometer.kernels.native import Kernel
from durometer.spaces.compiled import NAMES, serves


class Answers(NamedTuple):
    """Of each answer (n,): its `gap` to the goal, and three yes or no."""

    margin: Tensor
    hit: Tensor  # it reaches the goal by more than rounding
    finite: Tensor  # all its numbers are
    matters: Tensor  # a hit, or nearer than what was known, and finite


def read(logits: Tensor, targets: Tensor, rows: Tensor, slack: float, nearest: Tensor) -> Answers:
    """Answers (n, C) for `rows` of a batch: its `targets` (N, C), and the margins known (N,)."""
    if serves(logits) and nearest.dtype == torch.float64:
        return _compiled(logits, targets, rows, slack, nearest)
    wanted = targets.index_select(0, rows)
    margin, size = gap(logits, wanted), logits.abs().amax(1)
    finite = size < torch.inf  # not so where there is a NaN
    hit = margin > size * slack if slack else reached(logits, wanted)
    nearer = margin > nearest.index_select(0, rows)
    return Answers(margin, hit, finite, nearer.logical_or_(hit).logical_and_(finite))


@cache
def _kernel(kind: str) -> Kernel:
    sizes = dict.fromkeys(("n", "classes", "batch"), "size")
    return Kernel(f"judge_{kind}", **sizes, slack="float64", logits=f"{kind}[n, classes]",
                  targets="bool[batch, classes]", rows="int64[n]", nearest="float64[batch]",
                  margin=f"out {kind}[n]", seen="out bool[3, n]")  # fmt: skip


def _compiled(
    logits: Tensor, targets: Tensor, rows: Tensor, slack: float, nearest: Tensor
) -> Answers:
    margin = torch.empty(len(rows), dtype=logits.dtype)
    seen = torch.empty(3, len(rows), dtype=torch.bool)
    read = [t.contiguous() for t in (logits, targets, rows, nearest)]
    _kernel(NAMES[logits.dtype])(slack, *read, margin, seen)
    return Answers(margin, *seen.unbind())
