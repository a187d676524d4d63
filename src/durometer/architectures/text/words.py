"""What every text network here begins with: word ids in, their vectors out, and where words stand.

As `TableInput` takes records in raw units, this takes rows of a text data set as they are, so the
training loop, the attacks and the game need to know nothing of vocabularies.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported
from durometer.model.vocabulary import Places, straight_through
from durometer.spaces.discrete import RelaxedTokens
from durometer.spaces.lexicon import Vectors, vectors

PADDING, UNKNOWN = "<pad>", "<unk>"
OTHER = "TextCNN and TextLSTM themselves have bounds; this network holds"


class WordInput(nn.Module):
    """(n, L) word ids -> vectors (n, L, d) and which places hold a word (n, L).

    The vectors are GloVe's unless given, and stay as they are unless `train`. A word with signs
    around it ("good,") has the vector of the bare word if it has none of its own; unknown words
    have the vector 0.
    """

    def __init__(self, given: Vectors | None = None, train: bool = False) -> None:
        super().__init__()
        given = given or vectors()
        self.vocabulary = (PADDING, UNKNOWN, *given.words)
        self.places = Places(self.vocabulary, lower=True, bare=True)
        extra = np.zeros((2, given.table.shape[1]), dtype=np.float32)
        table = torch.from_numpy(np.concatenate([extra, given.table.astype(np.float32)]))
        count, size = table.shape
        self.embedding = nn.Embedding(count, size, padding_idx=0, _weight=table)
        self.embedding.weight.requires_grad_(train)

    @property
    def size(self) -> int:
        """The length of a vector."""
        return int(self.embedding.embedding_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        device = self.embedding.weight.device
        ids = self.places(x).to(device)
        embedded = self.embedding(ids)
        if isinstance(x, RelaxedTokens):
            options = self.places(x.options).to(device)
            embedded = straight_through(embedded, self.embedding.weight, options, x.weights)
        there = ids != 0
        there[:, 0] = True  # a sentence without words is still one
        return embedded, there


def plain(layer: nn.Module, kind: type[nn.Module]) -> None:
    """Raises Unsupported where a layer is not of exactly this kind: it may compute anything."""
    if type(layer) is not kind:
        raise Unsupported(
            f"{OTHER} a {type(layer).__name__} where a {kind.__name__} is expected; use Enumerate"
        )


def plain_input(words: nn.Module) -> None:
    """Raises Unsupported where words are read otherwise than `WordInput` does."""
    plain(words, WordInput)
    assert isinstance(words, WordInput)
    plain(words.embedding, nn.Embedding)
    if type(words.places) is not Places or words.embedding.max_norm is not None:
        raise Unsupported(f"{OTHER} word vectors that are looked up in another way; use Enumerate")
    if bool((words.embedding.weight[0] != 0).any()):
        raise Unsupported(f"{OTHER} a vector other than 0 for padding; use Enumerate")
