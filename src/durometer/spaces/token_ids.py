"""Words as numbers: a sentence is a row (n, L) of word ids, and the string comes back exactly.

The id of a word is a hash of its letters, 48 bits, so it depends on the word alone: not on a
vocabulary, the data at hand or the order in which words were met. What an id means is looked up in
a table of the words this process has met; whoever carries ids to another process carries their
words (`spelled`) along.

A sentence is cut at single blanks and joined by them, so any string survives the way there and
back. What a reader would get wrong: a comma belongs to its word ("good,"); `core` takes it off.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError

PAD = 0.0  # after the last word
_CORE = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
_IDS: dict[str, float] = {}
_WORDS: dict[float, str] = {}


def token_id(word: str) -> float:
    """The id of a word; from here on this process can spell it.

    >>> word_of(token_id("Tree")) == "Tree"
    True
    """
    known = _IDS.get(word)
    if known is None:
        try:
            digest = hashlib.blake2b(word.encode(), digest_size=6).digest()
        except UnicodeEncodeError as error:
            raise DurometerError(f"the word {word!r} is no Unicode text: {error}") from None
        known = float(int.from_bytes(digest, "little") + 1)
        if _WORDS.setdefault(known, word) != word:
            raise DurometerError(f"the words {word!r} and {_WORDS[known]!r} have the same id")
        _IDS[word] = known
    return known


def word_of(number: float) -> str:
    """The word of an id."""
    try:
        return _WORDS[number]
    except KeyError:
        raise DurometerError(
            f"{number!r} is the id of no word met so far; inputs of a text model are sentences: "
            'du.Dataset(list of strings, y), e.g. du.Dataset(frame["text"], frame["label"])'
        ) from None


def encode(texts: Sequence[str]) -> Tensor:
    """(n, L) ids of the words of each text, padded at the end.

    >>> sentences(encode(["a good film", "dull"]))
    ['a good film', 'dull']
    """
    rows = [[token_id(word) for word in text.split(" ")] for text in texts]
    x = torch.full((len(rows), max(map(len, rows), default=1)), PAD, dtype=torch.float64)
    for row, ids in zip(x, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.float64)
    return x


def tokens(x: Tensor) -> list[list[str]]:
    """The words of each row."""
    array = x.detach().cpu().numpy()
    used, place = np.unique(array, return_inverse=True)
    words = np.array(["" if i == PAD else word_of(float(i)) for i in used], dtype=object)
    lengths = (array != PAD).sum(1)
    table = words[place.reshape(array.shape)]
    return [row[:length].tolist() for row, length in zip(table, lengths, strict=True)]


def sentences(x: Tensor) -> list[str]:
    """The text of each row."""
    return [" ".join(row) for row in tokens(x)]


def words_of(x: Iterable[float] | Tensor) -> dict[float, str]:
    """The words of these ids, for whoever carries them elsewhere; `learn` takes them in there."""
    ids: Any = np.unique(np.asarray(x))
    return {float(i): word_of(float(i)) for i in ids if i != PAD and not np.isnan(i)}


def register_words(words: Iterable[str]) -> None:
    """Words whose ids may come."""
    for word in words:
        token_id(str(word))


def is_token_ids(x: Any) -> bool:
    """Are these rows (n, L) of words? Each number is the id of a word met, or padding.

    >>> is_token_ids(encode(["a good film"])), is_token_ids(np.array([[1.0, 2.0]]))
    (True, False)
    """
    if x is None or x.ndim != 2 or str(x.dtype).rpartition(".")[2] != "float64":
        return False
    ids = np.unique(np.asarray(x))
    return bool((ids != PAD).any()) and all(i in _WORDS or i == PAD for i in ids.tolist())


def words_in(*arrays: Any) -> list[str]:
    """The words of those arrays that hold words: what must go along to another process or file."""
    found: dict[str, None] = {}
    for x in arrays:
        if is_token_ids(x):
            found |= dict.fromkeys(words_of(x).values())
    return list(found)


@cache
def strip_punctuation(word: str) -> tuple[str, str, str]:
    """What stands before, the word itself, what stands behind.

    >>> strip_punctuation('("good,')
    ('("', 'good', ',')
    """
    match = _CORE.fullmatch(word)
    assert match is not None
    return match.group(1), match.group(2), match.group(3)


def as_texts(x: Any) -> list[str] | None:
    """The sentences of a list, an array or a column; None of what holds no text.

    >>> as_texts(("a good film", "dull")), as_texts([[1.0, 2.0]])
    (['a good film', 'dull'], None)
    """
    if isinstance(x, str):
        raise DurometerError(
            f"x is one string, {x[:40]!r}; expected a list of them, one per example"
        )
    if not isinstance(x, list | tuple):
        if len(getattr(x, "shape", ())) != 1:  # an array, or a column of pandas or polars
            return None
        x = x.tolist() if hasattr(x, "tolist") else list(x)
    if not any(isinstance(v, str) for v in x):
        return None
    for row, value in enumerate(x):
        if not isinstance(value, str):
            raise DurometerError(
                f"x holds text, but row {row} is {value!r}; expected a string in every row: drop "
                'or fill what is missing, e.g. frame.dropna(subset=["text"])'
            )
    return [str(v) for v in x]
