"""Confirmation: what a copy of the model holds for a success is asked of the model itself.

Asked are candidates that reach the goal on the copy, or come as near as the two may differ, if
they could be kept: all of a step at once. The model's answer is judged and recorded; a row for
which it confirms no candidate stays open.

What a reader would get wrong: this is no query. It is the same question about the same input, so
budgets and counts are as they would be without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from durometer.goals.goal import gap, reached
from durometer.model.inference_copy import AGREE
from durometer.problem.answers import Answers

if TYPE_CHECKING:
    from durometer.problem.referee import Referee

Ask = Callable[[Tensor], Tensor]  # inputs -> the model's own logits


def in_doubt(referee: Referee, rows: Tensor, logits: Tensor, read: Answers) -> Answers:
    """A copy's answers, with a hit wherever the model may see one."""
    size = _size(referee, rows, logits)
    doubt = logits.abs().amax(1) * referee.slack - 2 * AGREE * size
    hit = (read.margin > doubt).logical_and_(read.finite)
    return read._replace(hit=hit, matters=read.matters | hit)


@torch.no_grad()
def confirm_candidates(
    referee: Referee, rows: Tensor, at: Tensor, x: Tensor, logits: Tensor, margin: Tensor,
    hit: Tensor, valid: Tensor,
) -> Tensor:  # fmt: skip
    """The logits (n, C) of all inputs x, the model's own where one of `at` could be kept; their
    margins and hits, which are of `at` alone, are put in place."""
    assert referee.confirm is not None
    news = ~referee.solved[rows] | (margin > referee.margin[rows])
    ask = (hit & valid & news).nonzero()[:, 0]
    if not len(ask):
        return logits
    rows, at = rows[ask], at[ask]
    own = referee.confirm(x[at]).to(logits.dtype)
    targets = referee.targets[rows]
    its = gap(own, targets).nan_to_num(-torch.inf)
    apart = ~((its - margin[ask]).abs() <= 2 * AGREE * _size(referee, rows, own))
    referee.counters[:, 3].index_add_(0, rows, apart.long())
    margin[ask], hit[ask] = its, reached(own, targets, referee.slack, its)
    return logits.index_copy(0, at, own)


def _size(referee: Referee, rows: Tensor, logits: Tensor) -> Tensor:
    """(n,): what rounding is a share of. Where two classes meet both logits may be 0, so not less
    than the size of the clean ones."""
    assert referee.scale is not None
    return logits.abs().amax(1).maximum(referee.scale.index_select(0, rows).to(logits.dtype))
