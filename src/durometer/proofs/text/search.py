"""A search over sets of sentences: bound a set, cut the place that matters most, bound the parts.

It ends for a row when every set is closed (proven), when a sentence on the way breaks it (each set
that stays is asked for the sentence that looks worst in it), or after `splits` sets (open). A set
of one sentence that is neither is within rounding of a tie: open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from durometer.problem.problem import Problem
from durometer.proofs.text.hull import Bounded, Hull, refuse_inherited
from durometer.spaces.discrete import SubstitutionRegion

_MEMORY = 6 * 10**6  # numbers of parts at a time
Sure = Callable[[Tensor, Tensor], Tensor]  # (leads of sets, whose they are) -> which are closed


@dataclass(frozen=True, eq=False)
class Sentences:
    """All that is the same for all sets of a row."""

    region: SubstitutionRegion
    there: Tensor
    start: Tensor
    places: Tensor
    parts: Tensor
    options: Tensor
    known: Tensor  # (n,): whether words stay words

    def hull(self, of: Tensor, slots: Tensor, free: Tensor, most: Tensor) -> Hull:
        """The sets of these rows."""
        return Hull(
            self.there[of], self.start[of], self.places[of], self.parts[of], self.options[of],
            slots, free, most,
        )  # fmt: skip

    def whole(self, grown: float = 1.0) -> Hull:
        """All sentences of each row; the options `grown` of the way from the original."""
        parts = self.parts[:, :, :1] + grown * (self.parts - self.parts[:, :, :1])
        free = self.options[..., 1:].any(2)
        most = torch.minimum(self.region.most, free.sum(1))
        slots = torch.zeros_like(free, dtype=torch.int64)
        return Hull(self.there, self.start, self.places, parts, self.options, slots, free, most)

    def written(self, of: Tensor, slots: Tensor) -> Tensor:
        """(m, L): the sentences of these slots."""
        all_slots = torch.zeros(len(of), self.region.x0.shape[1], dtype=torch.int64)
        all_slots.scatter_add_(1, self.places[of], slots)
        return self.region.take(of).written(all_slots)


def read(module: Any, region: SubstitutionRegion) -> Sentences:
    """The parts of all options of these sentences."""
    length = max(1, int((region.x0 != 0).sum(1).max()))
    held = region.there[:, :length]
    moves = held[..., 1:].any(2)  # (n, L)
    count = max(1, int(moves.sum(1).max()))
    places = moves.long().argsort(dim=1, descending=True, stable=True)[:, :count]
    moves = moves.gather(1, places)
    places = places * moves
    deep = places[..., None].expand(-1, -1, held.shape[2])
    held = held.gather(1, deep) & moves[..., None]
    number = module.words.places(region.options[:, :length].gather(1, deep))  # (n, P, K)
    words = module.words.places(region.x0[:, :length])
    there = words != 0
    known = ((number != 0) == there.gather(1, places)[..., None]).logical_or(~held).all((1, 2))
    there[:, 0] = True  # as the network has it
    embed = module.words.embedding
    start, parts = module.parts(embed(words)), module.parts(embed(number))
    return Sentences(region, there, start, places, parts, held, known)


def decide(
    problem: Problem, rows: Tensor, module: Bounded, spec: Tensor, sure: Sure, splits: int
) -> None:
    """Close what can be closed of these rows; `spec` (n, m, C) are their leads."""
    refuse_inherited(module)
    region = problem.region(rows)
    assert isinstance(region, SubstitutionRegion)
    with torch.no_grad():
        held = read(module, region)
    size = held.parts[0].numel() + held.start[0].numel()
    of = held.known.nonzero()[:, 0]
    whole = held.whole()
    slots, free, most = whole.slots[of], whole.free[of], whole.most[of]
    spent = torch.ones(len(rows), dtype=torch.int64)
    lost = ~held.known  # given up
    while len(of):
        now = slice(max(0, len(of) - max(1, _MEMORY // size)), len(of))
        mine = (of[now], slots[now], free[now], most[now])
        of, slots, free, most = of[: now.start], slots[: now.start], free[: now.start], \
            most[: now.start]  # fmt: skip
        with torch.no_grad():
            found = module.highest(held.hull(*mine), spec[mine[0]])
        left = ~sure(found.lead, mine[0])
        tried = mine[1] if found.slots is None else found.slots
        ask = left & problem.alive(rows[mine[0]])
        if bool(ask.any()):
            problem.query(rows[mine[0][ask]], held.written(mine[0][ask], tried[ask]))
        single = left & ~(mine[2].any(1) & (mine[3] > 0))
        lost[mine[0][single]] = True
        lost |= problem.solved[rows]
        made = _cut(held, mine, found.score, left & ~lost[mine[0]])
        spent.index_add_(0, made[0], torch.ones_like(made[0]))
        lost |= spent > 1 + splits
        of, slots, free, most = (
            torch.cat([old, new]) for old, new in zip((of, slots, free, most), made, strict=True)
        )
        keep = ~lost[of]
        of, slots, free, most = of[keep], slots[keep], free[keep], most[keep]
    problem.prove(rows[~lost], region.fixed[~lost])


def _cut(
    held: Sentences, sets: tuple[Tensor, ...], score: Tensor, which: Tensor
) -> tuple[Tensor, ...]:
    """The sets into which these fall: one for each option of the place that matters most."""
    of, slots, free, most = (t[which] for t in sets)
    place = score[which].masked_fill(~free, -torch.inf).argmax(1)
    row, slot = held.options[of, place].nonzero(as_tuple=True)
    slots, free = slots[row], free[row]
    each = torch.arange(len(row))
    slots[each, place[row]] = slot
    free[each, place[row]] = False
    return of[row], slots, free, most[row] - (slot > 0).long()
