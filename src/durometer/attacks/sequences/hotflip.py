"""HotFlip: exchange the symbols that the gradient says (Ebrahimi et al. 2018, eq. 4 to 10).

To first order, exchanging the symbol at a position changes the loss by the difference of two
entries of the gradient with respect to the one-hot code. So one backward pass ranks every exchange.
The paper makes them one by one, with a beam; here each step asks for the loss of the 1, 2, 4, ...
best exchanges made together (and as many of a random half of them, where the best ones together
lead nowhere), and keeps the best: long sequences need hundreds of exchanges.

What a reader would get wrong: where `most` positions are used up, a new one can only be exchanged
by giving back another. The best set to first order says which; a step goes part of the way to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.attacks.base import Start
from durometer.attacks.base import start as start_at
from durometer.attacks.sequences.substitute import choices_of
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.discrete import SubstitutionRegion


@noun
class HotFlip:
    """Exchanges the symbols that the gradient ranks highest, in texts and byte sequences (Ebrahimi
    et al., 2018).

    The paper makes exchanges one by one with a beam; here each step tries 1, 2, 4, ... of the best
    exchanges together, since long sequences need hundreds.

    Args:
        steps: Gradients per start, each followed by about 2 log2(number of positions that may
            change) queries.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.
        start: "clean", "random" or "best" (the best point found so far).
        restarts: Number of runs; each further one attacks the rows that are still open.

    >>> import torch
    >>> import durometer as du
    >>> class Net(torch.nn.Module):
    ...     reads_symbols = True
    ...     def forward(self, x):
    ...         code = torch.nn.functional.one_hot(x.long(), 4).float()
    ...         if isinstance(x, du.extend.RelaxedTokens):
    ...             options = torch.nn.functional.one_hot(x.options.nan_to_num(0).long(), 4)
    ...             mixed = (x.weights[..., None] * options).sum(2)
    ...             code = code + mixed - mixed.detach()
    ...         return torch.stack([code[..., 0].sum(1), 2 * code[..., 3].sum(1)], 1)
    >>> data = du.Dataset([[0.0, 0, 1, 2], [0, 0, 0, 0]], [0, 0])
    >>> space = du.Symbols(most=1, alphabet=4)
    >>> du.evaluate(Net(), data, space=space, attack=du.HotFlip(3)).metric('robust').value
    0.5
    """

    steps: int = 30
    loss: Loss | LossName | None = None
    start: Start = "clean"
    restarts: int = 1

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        if self.steps < 1:
            raise DurometerError(f"HotFlip(steps={self.steps}): expected at least 1")
        for _ in range(self.restarts):
            if len(problem.open):
                self._run(problem)

    def _run(self, problem: Problem) -> None:
        rows = problem.open
        region = choices_of(problem, rows, self)
        if region.options.shape[2] == 1:  # nothing can change
            return
        slots = region.slots(start_at(problem, rows, self.start))
        for _ in range(self.steps):
            code = torch.nn.functional.one_hot(slots, region.options.shape[2])
            z = code.to(region.origin.dtype).flatten(1)
            value, grad = problem.value_and_grad(rows, z)
            alive = problem.alive(rows)
            if not bool(alive.all()):
                rows, slots, value, grad = rows[alive], slots[alive], value[alive], grad[alive]
                region = choices_of(problem, rows, self)
            if not len(rows):
                return
            target, gain = _ahead(region, slots, grad.reshape(len(rows), *region.options.shape[1:]))
            slots = _step(problem, rows, region, slots, target, gain, value)


def _ahead(region: SubstitutionRegion, slots: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """(n, m) slots that are best to first order, and what going there gains at each position."""
    grad = grad.masked_fill(~region.there, -torch.inf)
    best, slot = grad[..., 1:].max(2)
    lead = best - grad[..., 0]
    rank = lead.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    target = torch.where((lead > 0) & (rank < region.most[:, None]), slot + 1, 0)
    gain = grad.gather(2, torch.stack([target, slots], dim=2))
    return target, torch.where(target != slots, gain[..., 0] - gain[..., 1], -torch.inf)


def _step(
    problem: Problem,
    rows: Tensor,
    region: SubstitutionRegion,
    slots: Tensor,
    target: Tensor,
    gain: Tensor,
    value: Tensor,
) -> Tensor:
    """The best of 1, 2, 4, ... exchanges at once, of all or of a random half; or none."""
    n, m = slots.shape
    counts = [2**k for k in range(m.bit_length()) if 2**k <= 2 * int(region.most.max())]
    half = problem.random.uniform(rows, m).to(gain.dtype) < 0.5
    best, kept = value.clone(), slots.clone()
    for ranked in (gain, gain.masked_fill(half, -torch.inf)):
        tried = torch.stack(
            [_exchanged(region, slots, target, ranked, count) for count in counts], dim=1
        )
        at = torch.arange(n).repeat_interleave(len(counts))
        x = torch.cat([region.written(part) for part in tried.unbind(1)])
        x = x.reshape(len(counts), n, -1).transpose(0, 1).flatten(0, 1)
        logits = problem.query(rows[at], x)
        found = problem.loss(logits, problem.targets[rows[at]]).reshape(n, -1)
        top, which = found.nan_to_num(-torch.inf).max(1)
        better = top > best
        best = torch.where(better, top, best)
        kept[better] = tried[better, which[better]]
    return kept


def _exchanged(
    region: SubstitutionRegion, slots: Tensor, target: Tensor, gain: Tensor, count: int
) -> Tensor:
    """(n, m) slots after the `count` best exchanges, and as much given back as they need."""
    back = (slots > 0) & (target == 0)

    def first(gains: Tensor, among: Tensor, number: Tensor | int) -> Tensor:
        gains = gains.masked_fill(~among, -torch.inf)
        rank = gains.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        limit = number[:, None] if isinstance(number, Tensor) else number
        return (rank < limit) & among

    moved = first(gain, gain.isfinite() & ~back, count)
    changed = (torch.where(moved, target, slots) > 0).sum(1)
    undone = first(gain, back, changed - region.most)
    return torch.where(moved | undone, target, slots)
