"""A small transformer encoder over word vectors: two layers, the mean state, linear."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from durometer.architectures.text.words import WordInput
from durometer.spaces.lexicon import Vectors


class TextTransformer(nn.Module):
    """A small transformer encoder over word vectors; the mean state, one linear layer.

    Args:
        classes: Number of classes.
        hidden: Size of the states.
        heads: Attention heads per layer.
        layers: Number of layers.
        dropout: Dropout probability.
        vectors: The word vectors. None: GloVe's, for the words of the bundled lexicon.
        train_vectors: Whether the word vectors are trained too.

    >>> from durometer.spaces.token_ids import encode
    >>> TextTransformer(classes=5).eval()(encode(["a good film"])).shape
    torch.Size([1, 5])
    """

    reads_symbols = True
    masks_padding = True  # a padded sentence is answered like the sentence

    def __init__(
        self,
        classes: int = 2,
        hidden: int = 64,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.3,
        vectors: Vectors | None = None,
        train_vectors: bool = False,
    ) -> None:
        super().__init__()
        self.words = WordInput(vectors, train_vectors)
        self.first = nn.Linear(self.words.size, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, 2 * hidden, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(hidden, classes)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Its words: padding first, then the unknown word."""
        return self.words.vocabulary

    def forward(self, x: Tensor) -> Tensor:
        vectors, there = self.words(x)
        first = self.first(vectors)
        states = self.encoder(first + _positions(first), src_key_padding_mask=~there)
        here = there[..., None]
        mean = (states * here).sum(1) / here.sum(1)
        logits: Tensor = self.last(self.dropout(mean))
        return logits


def _positions(x: Tensor) -> Tensor:
    """(1, L, d) sines and cosines."""
    length, size = x.shape[1], x.shape[2]
    at = torch.arange(length, dtype=x.dtype, device=x.device)[:, None]
    rate = torch.exp(torch.arange(0, size, 2, device=x.device) * (-math.log(10_000.0) / size))
    table = x.new_zeros(length, size)
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return table[None]
