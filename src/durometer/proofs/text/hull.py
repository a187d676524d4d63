"""Hull: sentences as choices of word vectors, and the bounds of what a network can say to them.

A network on word vectors begins with a map that is linear in each word: a convolution, the gates
of an LSTM. `start` (n, L, G) are the images of the words of a sentence under that map, `parts`
(n, P, K, G) those of all options of the P places that have some, made once. A `Hull` is a set of
sentences: places that are `free` may hold any of their options, the others hold `slots`, and at
most `most` of the free ones change. A module whose answers can be
bounded over such a set says so by two methods:

    parts(vectors)         the linear first map
    highest(hull, spec)    for each row of `spec` (b, m, C) an upper bound of spec . logits over the
                           set, and which places matter (`Found`)

Both speak of the `forward` of the same class; a subclass does not inherit them
(`refuse_inherited`).

Cutting a place into its options gives sets whose bounds are tighter, down to single sentences,
where they are exact: so a search over sets (`search.py`) ends with an answer.

What a reader would get wrong: the options of a place are points, not a box. Whatever is linear in
the words is bounded by the best option of the `most` best places, exactly, not by a hull of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.model.exact_types import changed_inside


@dataclass(frozen=True, eq=False)
class Hull:
    """Sets of sentences, one per row."""

    there: Tensor  # (b, L) bool: where a word stands
    start: Tensor  # (b, L, G): the parts of the original words
    places: Tensor  # (b, P): which places have options; 0, without any, where there are fewer
    parts: Tensor  # (b, P, K, G): slot 0 is the original
    options: Tensor  # (b, P, K) bool: which slots hold an option
    slots: Tensor  # (b, P): what stands there now
    free: Tensor  # (b, P) bool: what may change
    most: Tensor  # (b,): how many of them

    @cached_property
    def now(self) -> Tensor:
        """(b, L, G): the parts of the words that stand there."""
        moved = (self._chosen - self.parts[:, :, 0]) * self.options[..., :1]
        return self.start + self.placed(moved)

    @cached_property
    def differences(self) -> Tensor:
        """(b, P, K, G): what each option would add to the part that stands there."""
        return self.parts - self._chosen[:, :, None]

    @property
    def _chosen(self) -> Tensor:
        at = self.slots[..., None, None].expand(-1, -1, 1, self.parts.shape[3])
        return self.parts.gather(2, at)[:, :, 0]

    @cached_property
    def spread(self) -> tuple[Tensor, Tensor]:
        """(b, L, G) twice: the least and most that changing a place adds to its part."""
        some = self.movable[..., None]
        still = self.differences.masked_fill(~some, 0.0)  # staying is always among the choices
        return self.placed(still.amin(2).clamp_max(0)), self.placed(still.amax(2).clamp_min(0))

    @property
    def movable(self) -> Tensor:
        """(b, P, K): the options that may be chosen."""
        spare = self.free & (self.most > 0)[:, None]
        return self.options & spare[..., None]

    def placed(self, values: Tensor) -> Tensor:
        """(b, P, ...) as (b, L, ...), 0 at places without options."""
        b, length = self.there.shape
        at = self.places.reshape(b, -1, *[1] * (values.ndim - 2)).expand_as(values)
        return values.new_zeros(b, length, *values.shape[2:]).scatter_add(1, at, values)


@dataclass(frozen=True, eq=False)
class Found:
    """What a module says about sets of sentences."""

    lead: Tensor  # (b, m): upper bounds
    score: Tensor  # (b, P): how much it hangs on a place
    slots: Tensor | None = None  # (b, P): the sentence that looks worst


@runtime_checkable
class Bounded(Protocol):
    """A network on words whose answers can be bounded over sets of sentences."""

    def parts(self, vectors: Tensor) -> Tensor:
        """(..., d) -> (..., G)"""
        ...

    def highest(self, hull: Hull, spec: Tensor) -> Found:
        """Bounds of spec (b, m, C) times the logits."""
        ...


def refuse_inherited(module: Any) -> None:
    """Raises Unsupported where `highest` may be about another function than `forward`.

    The class itself must define all three of `forward`, `parts` and `highest`: a subclass that
    overrides one inherits bounds of what it no longer computes. Hooks, replaced methods and layers
    of other kinds (parametrisations) change the function, too, wherever they are.
    """
    name, own = type(module).__name__, vars(type(module))
    missing = [m for m in ("forward", "parts", "highest") if m not in own]
    why = f"{name} inherits `{missing[0]}`" if missing else changed_inside(module)
    if why:
        raise Unsupported(
            f"Bounds: {why}, so the bounds may be of another function than its answers; TextCNN "
            "and TextLSTM themselves have such bounds, without hooks; a module of your own defines "
            "`forward`, `parts` and `highest` in one class; use Enumerate"
        )


def largest(values: Tensor, most: Tensor) -> Tensor:
    """(b, ...): the sum of the `most` (b,) largest of the last dimension, none below 0."""
    ranked = values.clamp_min(0).sort(dim=-1, descending=True).values
    size = (len(most), *[1] * (values.ndim - 1))
    among = torch.arange(values.shape[-1], device=values.device) < most.reshape(size)
    return (ranked * among).sum(-1)
