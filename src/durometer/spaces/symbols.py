"""Symbols: sequences of small whole numbers (bytes, DNA, tokens), some of which may be exchanged.

A space of choices (`discrete.py`): at most `most` of the positions may change, each to any of the
`alphabet`; the order of the numbers means nothing. Where only a part of the sequence is in the
attacker's hands, `first` and `last` count its positions from either end, `where` names them.

What a reader would get wrong: a symbol outside the alphabet (the padding of short files) may stand
in the data. It stays, or is replaced where its position may change; nothing turns into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.spaces.discrete import SubstitutionRegion


@noun
class Symbols:
    """Sequences of symbols (bytes, DNA bases, tokens) of which a few positions may be replaced.

    Symbols are whole numbers whose order means nothing. Give at most one of `first`, `last` and
    `where`; without any, all positions may change.

    Args:
        most: Number of positions that may change, at least 1.
        alphabet: Number of symbols, 0 up to it (256 for bytes), or a list of them.
        first: Only the first so many positions may change.
        last: Only the last so many positions may change.
        where: Only these positions may change; negative ones count from the end.
        without: Symbols of the alphabet that nothing may turn into.

    Raises:
        DurometerError: A number is too small, or several of `first`, `last` and `where` are given.

    >>> space = Symbols(most=1, alphabet=256, last=2)
    >>> region = space.around(torch.tensor([[127.0, 69.0, 76.0]]))
    >>> tried = torch.tensor([[[127.0, 69.0, 0.0]], [[0.0, 69.0, 76.0]]])
    >>> [region.contains(x).item() for x in tried]
    [True, False]
    """

    most: int
    alphabet: int | Sequence[int] = 256
    first: int | None = None
    last: int | None = None
    where: Sequence[int] | None = None
    without: Sequence[int] = ()
    cpu_only: ClassVar[bool] = True  # symbols are looked up there

    def __post_init__(self) -> None:
        for name in ("alphabet", "where", "without"):
            if isinstance(given := getattr(self, name), Sequence):
                object.__setattr__(self, name, tuple(sorted(set(given))))
        if len(self.symbols) < 2:
            raise DurometerError(
                f"Symbols(alphabet={self.alphabet!r}): expected at least two symbols"
            )
        given = [k for k in ("first", "last", "where") if getattr(self, k) is not None]
        if len(given) > 1:
            raise DurometerError(f"Symbols(): give one of first, last and where; got {given}")

    @property
    def symbols(self) -> tuple[int, ...]:
        """The symbols that may be written."""
        listed = range(self.alphabet) if isinstance(self.alphabet, int) else self.alphabet
        return tuple(s for s in listed if s not in self.without)

    @property
    def norm(self) -> None:
        return None

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        among = ""
        if self.where is not None:
            among = f" among {len(self.where)} of them"
        elif (count := self.first or self.last) is not None:
            among = f" among the {'first' if self.first else 'last'} {count}"
        up_to = "1 position" if self.most == 1 else f"{self.most} positions"
        return (
            f"The attacker may change up to {up_to}{among}, each to any of {len(self.symbols)} "
            "symbols."
        )

    def check(self, x: Tensor) -> None:
        if x.ndim != 2 or not bool((x == x.round()).all()):
            raise DurometerError(
                f"inputs of shape {tuple(x.shape)} and {x.dtype}: Symbols takes rows of whole "
                "numbers, one per position"
            )
        self._places(x.shape[1])

    def _places(self, length: int) -> Tensor:
        """(m,): the positions that may change."""
        count = self.first or self.last or 0
        far = max((abs(i) + (i >= 0) for i in self.where or ()), default=count)
        if far > length:
            raise DurometerError(f"{self!r}: the sequences have only {length} positions")
        if self.where is not None:
            return torch.tensor(sorted({i % length for i in self.where}), dtype=torch.int64)
        start = length - self.last if self.last else 0
        return torch.arange(start, self.first or length)

    def around(self, x: Tensor) -> SubstitutionRegion:
        x = x.double()
        places = self._places(x.shape[1])
        symbols = torch.tensor(self.symbols, dtype=x.dtype)
        here = x[:, places, None]
        place = torch.where((symbols == here).any(2, keepdim=True),
                            (symbols < here).sum(2, keepdim=True), len(symbols))  # fmt: skip
        slot = torch.arange(len(symbols))
        others = torch.cat([symbols, symbols.new_tensor([torch.nan])])[slot + (slot >= place)]
        options = torch.cat([here, others], dim=2)  # without itself, which is slot 0
        most = torch.full((len(x),), min(self.most, len(places)))
        return SubstitutionRegion(x, options, most, places=places)
