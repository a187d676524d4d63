"""Choices: sequences of symbols, each position with a list of what may stand there instead.

Words of a sentence, letters of a strand of DNA, bytes of a file. x holds one number per position
(n, L); z holds one weight per position and option, flat (n, L * K), the original first. A decoded
point is a hard choice: at most `most` positions change, those whose best other option leads the
original by most. The gradient is straight through, and for that a plain number per position is too
little: `decode` gives a `RelaxedTokens`, the numbers together with what they were chosen from and
the weights, so that a model with an embedding can mix the options' vectors. Any operation on it
gives a plain tensor again. Where most of a long sequence cannot move (the head of a file), `places`
names the positions that can, and weights and options are of these alone.

What a reader would get wrong: weights of several positions may be anywhere on their simplices while
the decoded sentence has changed in two words. The relaxation steers, the choice is what is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from durometer.core.streams import Stream
from durometer.spaces.genes import Genes


class RelaxedTokens(torch.Tensor):
    """Symbols (n, L) that remember the options they were chosen from, and the weights of these.

    A model with an embedding can mix the vectors of the options by the weights, so that gradients
    reach them. Any operation on it gives a plain tensor.
    """

    options: Tensor
    weights: Tensor
    places: Tensor

    @classmethod
    def of(
        cls, symbols: Tensor, options: Tensor, weights: Tensor, places: Tensor | None = None
    ) -> RelaxedTokens:
        """Makes one from plain tensors.

        Args:
            symbols: The chosen symbols (n, L).
            options: The options of each position (n, m, K).
            weights: Their weights (n, m, K).
            places: The positions that the options belong to (m,). None: all L.
        """
        made = symbols.as_subclass(cls)
        made.options, made.weights = options, weights
        made.places = torch.arange(symbols.shape[1]) if places is None else places
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
            return func(*args, **(kwargs or {}))


@dataclass(frozen=True, eq=False)
class SubstitutionRegion:
    """The region of sequences in which positions may be replaced by options.

    Args:
        x0: The original sequences (n, L).
        options: The options of each position (n, m, K): the original first, NaN where there are
            fewer.
        most: Number of positions that may change (n,).
        also: A further condition on (original, candidate) rows, which gives (n,) bool. None: none.
        places: The positions that the options belong to (m,). None: all L.
        eps: Size of the region in search coordinates: from one option to another.
        p: The norm of steps in search coordinates.
        constrained: Always False: there is no penalty.
    """

    x0: Tensor  # (n, L)
    options: Tensor  # (n, m, K)
    most: Tensor  # (n,)
    also: Callable[[Tensor, Tensor], Tensor] | None = None  # (clean, candidate) -> (n,) bool
    places: Tensor | None = None  # (m,)
    eps: float = 2.0  # across a simplex: from one option to another
    p: float = float("inf")
    constrained: bool = False

    @property
    def there(self) -> Tensor:
        """Which slots hold an option (n, m, K)."""
        return ~self.options.isnan()

    @property
    def fixed(self) -> Tensor:
        """(n,) bool: rows without any other option; whatever is proven of these is vacuous."""
        return ~self.there[..., 1:].any(2).any(1)

    @property
    def origin(self) -> Tensor:
        z = torch.zeros(self.options.shape, dtype=torch.get_default_dtype())
        z[..., 0] = 1.0
        return z.flatten(1)

    def _weights(self, z: Tensor) -> Tensor:
        return z.reshape(len(z), *self.options.shape[1:])

    def slots(self, z: Tensor) -> Tensor:
        """The slot chosen at each position (n, m); 0 is the original.

        Args:
            z: Weights of the options, flat (n, m K).
        """
        weights = self._weights(z.detach()).masked_fill(~self.there, -torch.inf)
        if weights.shape[2] == 1:
            return torch.zeros(weights.shape[:2], dtype=torch.int64)
        lead, slot = (weights[..., 1:] - weights[..., :1]).max(2)
        rank = lead.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        return torch.where((lead > 0) & (rank < self.most[:, None]), slot + 1, 0)

    def written(self, slots: Tensor) -> Tensor:
        """The sequences (n, L) with given slots.

        Args:
            slots: The slots (n, m).
        """
        return self._put(self.options.gather(2, slots[..., None])[..., 0])

    def _put(self, symbols: Tensor) -> Tensor:
        if self.places is None:
            return symbols
        x = self.x0.clone()
        x[:, self.places] = symbols.to(x.dtype)
        return x

    def _movable(self, x: Tensor) -> Tensor:
        return x if self.places is None else x[:, self.places]

    def decode(self, z: Tensor) -> Tensor:
        x = self.written(self.slots(z))
        if not z.requires_grad:
            return x
        return RelaxedTokens.of(x, self.options, self._weights(z), self.places)

    def encode(self, x: Tensor) -> Tensor:
        z = (self.options == self._movable(x)[..., None]).to(self.origin.dtype)
        z[..., 0] *= (z.sum(2) < 2).to(z.dtype)  # an option equal to the original is the original
        z[..., 0] = torch.where(z.sum(2) == 0, 1.0, z[..., 0])
        return z.flatten(1)

    def project(self, z: Tensor) -> Tensor:
        """Each position's weights onto the simplex of the options it has."""
        w = self._weights(z).masked_fill(~self.there, -1e9)
        ranked = w.sort(dim=2, descending=True).values
        excess = ranked.cumsum(2) - 1
        count = torch.arange(1, w.shape[2] + 1, device=w.device)
        size = (ranked * count > excess).sum(2, keepdim=True)
        level = excess.gather(2, size - 1) / size
        return (w - level).clamp_min(0.0).flatten(1)

    def ascend(self, z: Tensor, grad: Tensor, step: Tensor) -> Tensor:
        """Along the simplices, the row's largest gain `step` long."""
        there = self.there
        g = self._weights(grad) * there
        g = ((g - g.sum(2, keepdim=True) / there.sum(2, keepdim=True)) * there).flatten(1)
        return z + step[:, None] * g / g.abs().amax(1, keepdim=True).clamp_min(1e-30)

    def random(self, stream: Stream, rows: Tensor) -> Tensor:
        """Some positions at random, at most `most`, each with a random other option."""
        n, length, k = self.options.shape
        others = self.there[..., 1:].sum(2)  # (n, m)
        draw = stream.uniform(rows, 2 * length).reshape(n, 2, length)
        rank = torch.where(others > 0, draw[:, 0], 2.0).argsort(1).argsort(1)
        chosen = (rank < self.most[:, None]) & (others > 0)
        slot = torch.where(chosen, 1 + (draw[:, 1] * others).long().minimum(others - 1), 0)
        z = torch.nn.functional.one_hot(slot.clamp_min(0), k)
        return z.to(self.origin.dtype).flatten(1)

    def penalty(self, z: Tensor) -> Tensor:
        return z.new_zeros(len(z))

    def violation(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))

    def box(self) -> tuple[Tensor, Tensor]:
        """Of the symbols' numbers, whose order means nothing: it tells only what cannot move."""
        low = self.options.nan_to_num(torch.inf).amin(2)
        return self._put(low), self._put(self.options.nan_to_num(-torch.inf).amax(2))

    def contains(self, x: Tensor) -> Tensor:
        among = (self.options == self._movable(x)[..., None]).any(2).all(1)
        if self.places is not None:
            among &= (self._put(self._movable(x)) == x).all(1)
        inside = among & (self.distance(x) <= self.most)
        if self.also is None or not bool(inside.any()):
            return inside
        at = inside.nonzero()[:, 0]
        inside[at] &= self.also(self.x0[at], x[at])
        return inside

    def distance(self, x: Tensor) -> Tensor:
        return (x != self.x0).sum(1).double()

    def take(self, rows: Tensor) -> SubstitutionRegion:
        return replace(self, x0=self.x0[rows], options=self.options[rows], most=self.most[rows])

    def genes(self) -> Genes:
        """The coordinates for genetic searches: one per position, the slot of its option."""
        start = torch.zeros(self.options.shape[:2], dtype=torch.float64)
        high = self.there.sum(2).double() - 1
        places = torch.arange(start.shape[1]) if self.places is None else self.places
        return Genes(
            (0, 0, start.shape[1]), start, high, start, self.x0, places,
            options=self.options, most=self.most,
        )  # fmt: skip

    def sizes(self) -> Tensor:
        """The number of allowed sequences of each row (n,)."""
        others = self.there[..., 1:].sum(2).double()  # (n, m)
        most = int(self.most.max()) if len(self.most) else 0
        ways = torch.zeros(len(others), most + 1, dtype=torch.float64)
        ways[:, 0] = 1.0
        for count in others.T:  # sequences that change exactly j of the positions so far
            ways[:, 1:] = ways[:, 1:] + ways[:, :-1] * count[:, None]
        allowed = torch.arange(most + 1) <= self.most[:, None]
        return (ways * allowed).sum(1)

    def points(self, row: int) -> Tensor:
        """All allowed sequences of one row (m, L), the original first.

        Args:
            row: Position of the row.
        """
        options, most = self.options[row], int(self.most[row])
        made, used = self.x0[row : row + 1], torch.zeros(1, dtype=torch.int64)
        for i in self.there[row, :, 1:].any(1).nonzero()[:, 0].tolist():
            free = used < most
            found = options[i, 1:]
            found = found[~found.isnan()]
            new = made[free].repeat_interleave(len(found), dim=0)
            new[:, i if self.places is None else self.places[i]] = found.repeat(int(free.sum()))
            made = torch.cat([made, new])
            used = torch.cat([used, (used[free] + 1).repeat_interleave(len(found))])
        return made
