"""Hull: sentences as choices of word vectors, and the bounds of what a network can say to them.

A network on word vectors begins with a map that is linear in each word: a convolution, the gates
of an LSTM. `parts` (n, L, K, G) are the images of all options of all places under that map, made
once. A `Hull` is a set of sentences: places that are `free` may hold any of their options, the
others hold `slots`, and at most `most` of the free ones change. A module whose answers can be
bounded over such a set says so by two methods:

    parts(vectors)         the linear first map
    highest(hull, spec)    for each row of `spec` (b, m, C) an upper bound of spec . logits over the
                           set, and which places matter (`Found`)

Cutting a place into its options gives sets whose bounds are tighter, down to single sentences,
where they are exact: so a search over sets (`search.py`) ends with an answer.

What a reader would get wrong: the options of a place are points, not a box. Whatever is linear in
the words is bounded by the best option of the `most` best places, exactly, not by a hull of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Hull:
    """Sets of sentences, one per row."""

    parts: Tensor  # (b, L, K, G), anything where there is no option
    options: Tensor  # (b, L, K) bool: which slots hold an option; slot 0 always does
    there: Tensor  # (b, L) bool: where a word stands
    slots: Tensor  # (b, L): what stands there now
    free: Tensor  # (b, L) bool: what may change
    most: Tensor  # (b,): how many of them

    @property
    def now(self) -> Tensor:
        """(b, L, G): the parts of the words that stand there."""
        size = self.parts.shape[3]
        place = self.slots[..., None, None].expand(-1, -1, 1, size)
        return self.parts.gather(2, place)[:, :, 0]

    def spread(self) -> tuple[Tensor, Tensor]:
        """(b, L, G) twice: the least and most that changing a place adds to its part."""
        apart = self.parts - self.now[:, :, None]
        open_ = self.movable[..., None]
        low = apart.masked_fill(~open_, torch.inf).amin(2)
        high = apart.masked_fill(~open_, -torch.inf).amax(2)
        any_ = open_.any(2)
        return torch.where(any_, low, 0.0).clamp_max(0), torch.where(any_, high, 0.0).clamp_min(0)

    @property
    def movable(self) -> Tensor:
        """(b, L, K): the options that may be chosen."""
        spare = self.free & (self.most > 0)[:, None]
        return self.options & spare[..., None]

    def take(self, rows: Tensor) -> Hull:
        held = (self.parts, self.options, self.there, self.slots, self.free, self.most)
        return Hull(*(t[rows] for t in held))


@dataclass(frozen=True, eq=False)
class Found:
    """What a module says about sets of sentences."""

    lead: Tensor  # (b, m): upper bounds
    score: Tensor  # (b, L): how much it hangs on a place
    slots: Tensor | None = None  # (b, L): the sentence that looks worst


@runtime_checkable
class Bounded(Protocol):
    """A network on words whose answers can be bounded over sets of sentences."""

    def parts(self, vectors: Tensor) -> Tensor:
        """(..., d) -> (..., G)"""
        ...

    def highest(self, hull: Hull, spec: Tensor) -> Found:
        """Bounds of spec (b, m, C) times the logits."""
        ...


def largest(values: Tensor, most: Tensor) -> Tensor:
    """(b, ...): the sum of the `most` (b,) largest of the last dimension, none below 0."""
    ranked = values.clamp_min(0).sort(dim=-1, descending=True).values
    size = (len(most), *[1] * (values.ndim - 1))
    among = torch.arange(values.shape[-1], device=values.device) < most.reshape(size)
    return (ranked * among).sum(-1)
