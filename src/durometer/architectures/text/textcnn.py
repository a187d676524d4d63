"""TextCNN (Kim 2014): filters over windows of words, their largest and mean answers, one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from durometer.architectures.text.words import OTHER, WordInput, plain, plain_input
from durometer.core.errors import Unsupported
from durometer.proofs.text.cnn import Filters, highest
from durometer.proofs.text.hull import Found, Hull
from durometer.spaces.lexicon import Vectors


class TextCNN(nn.Module):
    """Convolutions over windows of words; largest and mean answers, one linear layer (Kim, 2014).

    Args:
        classes: Number of classes.
        filters: Filters of each window width.
        widths: Widths of the windows, in words.
        dropout: Dropout probability before the linear layer.
        vectors: The word vectors. None: GloVe's, for the words of the bundled lexicon.
        train_vectors: Whether the word vectors are trained too.

    >>> from durometer.spaces.token_ids import encode
    >>> net = TextCNN(classes=5)
    >>> net(encode(["a good film"])).shape
    torch.Size([1, 5])
    """

    reads_symbols = True
    masks_padding = True  # a padded sentence is answered like the sentence

    def __init__(
        self,
        classes: int = 2,
        filters: int = 40,
        widths: tuple[int, ...] = (2, 3),
        dropout: float = 0.5,
        vectors: Vectors | None = None,
        train_vectors: bool = False,
    ) -> None:
        super().__init__()
        self.words = WordInput(vectors, train_vectors)
        self.convs = nn.ModuleList(
            nn.Conv1d(self.words.size, filters, width, padding=width // 2) for width in widths
        )
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(2 * filters * len(widths), classes)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Its words: padding first, then the unknown word."""
        return self.words.vocabulary

    def forward(self, x: Tensor) -> Tensor:
        vectors, there = self.words(x)
        mask = there[:, None].to(vectors.dtype)
        found = []
        for conv in self.convs:
            y = torch.relu(conv(vectors.transpose(1, 2)))[..., : there.shape[1]] * mask
            found += [y.amax(2), y.sum(2) / mask.sum(2)]
        logits: Tensor = self.last(self.dropout(torch.cat(found, dim=1)))
        return logits

    def parts(self, vectors: Tensor) -> Tensor:
        """The contribution of each word to the first layer; used by `Bounds`.

        Args:
            vectors: Word vectors (..., d).
        """
        return torch.cat(
            [torch.einsum("...d,fdo->...of", vectors, conv.weight).flatten(-2)
             for conv in self.convs], dim=-1,
        )  # fmt: skip

    def highest(self, hull: Hull, spec: Tensor) -> Found:
        """Upper bounds of linear functions of the logits over sets of sentences; used by `Bounds`.

        Args:
            hull: The sets of sentences.
            spec: Coefficients of the functions (n, functions, classes).
        """
        plain_input(self.words)
        plain(self.last, nn.Linear)
        plain(self.dropout, nn.Dropout)
        layers, begin = [], 0
        for conv in self.convs:
            plain(conv, nn.Conv1d)
            assert isinstance(conv, nn.Conv1d)
            count, _, width = conv.weight.shape
            usual: tuple[Any, ...] = ((1,), (1,), 1, (width // 2,), "zeros")
            found = (conv.stride, conv.dilation, conv.groups, conv.padding, conv.padding_mode)
            if found != usual or conv.bias is None:
                raise Unsupported(f"{OTHER} a convolution with other settings than usual")
            layers.append(Filters(begin, width, count, conv.bias))
            begin += width * count
        return highest(layers, self.last.weight, self.last.bias, hull, spec)
