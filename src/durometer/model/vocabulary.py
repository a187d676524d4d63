"""Words in a module with an embedding: their places in its vocabulary, and the choice's gradient.

Both are in every step of every attack on sentences, so both avoid what grows with the vocabulary or
with the options there might have been: no sorting of ids, no mean of vectors that nobody reads.

What a reader would get wrong: the gradient of a choice is straight through. The embedding's output
is what the chosen word gives, to the last bit; only what flows back is the options' mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.spaces.token_ids import PAD, strip_punctuation, word_of

UNKNOWN = 1  # the place of words a vocabulary does not have; 0 is padding


class Places:
    """Word ids -> places in a vocabulary; with `bare`, "good," that is not in it is "good".

    An id is a hash of 48 bits: the last 16 say where in a table it stands, the others stand there
    beside the place. Two words that share a line take it from each other: slower, never wrong. Id
    and place are one number, so that threads cannot read one word's id with another's place.
    """

    _LINE, _PLACE = 16, 30  # bits

    def __init__(self, vocabulary: Sequence[str], lower: bool, bare: bool = False) -> None:
        self._index = {word: i for i, word in enumerate(vocabulary)}
        self._lower, self._bare = lower, bare
        self._table = np.full(1 << self._LINE, -1, dtype=np.int64)

    def _place(self, number: float) -> int:
        if number == PAD:
            return 0
        word = word_of(number)
        word = word.lower() if self._lower else word
        if self._bare and word not in self._index:
            word = strip_punctuation(word)[1]
        return self._index.get(word, UNKNOWN)

    def __call__(self, x: Tensor) -> Tensor:
        """(…) places; NaN, where there is no option, is padding."""
        numbers = x.detach().as_subclass(Tensor).nan_to_num(PAD).cpu().numpy()
        ids = numbers.astype(np.int64)
        lines, rest = ids & ((1 << self._LINE) - 1), ids >> self._LINE
        held = self._table[lines]
        missed = held >> self._PLACE != rest
        places: np.ndarray = held & ((1 << self._PLACE) - 1)
        if missed.any():
            used, which = np.unique(numbers[missed], return_inverse=True)
            found = np.array([self._place(float(i)) for i in used], dtype=np.int64)
            places[missed] = found[which]
            self._table[lines[missed]] = rest[missed] << self._PLACE | found[which]
        return torch.from_numpy(places)


def straight_through(embedded: Tensor, table: Tensor, options: Tensor, weights: Tensor) -> Tensor:
    """What was embedded (n, m, d), with the gradient of the options' (n, m, K) weighted mean.

    The mean itself is never computed: with respect to a weight its gradient is the product with the
    option's vector. Slots without an option (place 0) get none.
    """
    found: Tensor = _StraightThrough.apply(embedded, table, options, weights)  # type: ignore[no-untyped-call]
    return found


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, embedded: Tensor, table: Tensor, options: Tensor, weights: Tensor
    ) -> Tensor:
        ctx.save_for_backward(table, options)
        ctx.dtype = weights.dtype
        return embedded.view_as(embedded)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, Tensor]:
        table, options = ctx.saved_tensors
        (grad,) = grads
        found = grad.new_zeros(options.shape, dtype=ctx.dtype)
        found[..., 0] = (table[options[..., 0]] * grad).sum(2)
        row, place = (options[..., 1:] != 0).any(2).nonzero(as_tuple=True)
        vectors = table[options[row, place]]  # (s, K, d)
        found[row, place] = (vectors @ grad[row, place, :, None])[..., 0].to(ctx.dtype)
        return grad, None, None, found
