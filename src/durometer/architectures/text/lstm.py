"""A bidirectional LSTM over word vectors; the mean and largest states, one layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from durometer.architectures.text.words import OTHER, WordInput, plain, plain_input
from durometer.core.errors import Unsupported
from durometer.proofs.text.hull import Found, Hull
from durometer.proofs.text.lstm import Direction, highest
from durometer.spaces.lexicon import Vectors


class TextLSTM(nn.Module):
    """A bidirectional LSTM over word vectors; mean and largest states, one linear layer.

    Args:
        classes: Number of classes.
        hidden: Units in each direction.
        dropout: Dropout probability before the linear layer.
        vectors: The word vectors. None: GloVe's, for the words of the bundled lexicon.
        train_vectors: Whether the word vectors are trained too.

    >>> from durometer.spaces.token_ids import encode
    >>> TextLSTM(classes=5)(encode(["a good film"])).shape
    torch.Size([1, 5])
    """

    reads_symbols = True
    masks_padding = True  # a padded sentence is answered like the sentence

    def __init__(
        self,
        classes: int = 2,
        hidden: int = 64,
        dropout: float = 0.4,
        vectors: Vectors | None = None,
        train_vectors: bool = False,
    ) -> None:
        super().__init__()
        self.words = WordInput(vectors, train_vectors)
        self.lstm = nn.LSTM(self.words.size, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(4 * hidden, classes)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Its words: padding first, then the unknown word."""
        return self.words.vocabulary

    def forward(self, x: Tensor) -> Tensor:
        vectors, there = self.words(x)
        packed = nn.utils.rnn.pack_padded_sequence(
            vectors, there.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=there.shape[1]
        )
        here = there[..., None]
        mean = (states * here).sum(1) / here.sum(1)
        largest = states.masked_fill(~here, -torch.inf).amax(1)
        logits: Tensor = self.last(self.dropout(torch.cat([mean, largest], dim=1)))
        return logits

    def parts(self, vectors: Tensor) -> Tensor:
        """The contribution of each word to the first layer; used by `Bounds`.

        Args:
            vectors: Word vectors (..., d).
        """
        of = dict(self.lstm.named_parameters())
        return vectors @ torch.cat([of["weight_ih_l0"], of["weight_ih_l0_reverse"]]).T

    def highest(self, hull: Hull, spec: Tensor) -> Found:
        """Upper bounds of linear functions of the logits over sets of sentences; used by `Bounds`.

        Args:
            hull: The sets of sentences.
            spec: Coefficients of the functions (n, functions, classes).
        """
        plain_input(self.words)
        plain(self.last, nn.Linear)
        plain(self.dropout, nn.Dropout)
        plain(self.lstm, nn.LSTM)
        one_layer = (self.lstm.num_layers, self.lstm.bidirectional, self.lstm.bias,
                     self.lstm.batch_first, self.lstm.proj_size)  # fmt: skip
        if one_layer != (1, True, True, True, 0):
            raise Unsupported(f"{OTHER} an LSTM with other settings than usual")
        of, both = dict(self.lstm.named_parameters()), []
        for k, way in enumerate(("l0", "l0_reverse")):
            bias = of[f"bias_ih_{way}"] + of[f"bias_hh_{way}"]
            both.append(
                Direction(4 * k * self.lstm.hidden_size, of[f"weight_hh_{way}"], bias, k > 0)
            )
        return highest(both, self.last.weight, self.last.bias, hull, spec)
