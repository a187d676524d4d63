"""A lexicon that ships with the package: word vectors, synonyms and antonyms for SST-5's words.

Vectors: GloVe 6B, 50 dimensions (Pennington et al. 2014, PDDL 1.0), in one byte a number. Synonyms
and antonyms: WordNet 3.1 (Princeton University, see NOTICE), single words of any part of speech.
Words that neither SST-5 nor its synonyms need are not in it: for other texts give your own tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.core import serialization
from durometer.core.errors import DurometerError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words and their vectors (len(words), d), e.g. GloVe.

    >>> vectors().words[:2]
    ('!', '!?')
    """

    words: tuple[str, ...] = field(repr=False)
    table: Floats = field(repr=False)

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or len(self.table) != len(self.words):
            raise DurometerError(
                f"vectors of shape {self.table.shape} for {len(self.words)} words; "
                "expected one row per word"
            )

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The row of each word."""
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def unit(self) -> Floats:
        """The vectors, of length 1."""
        length = np.linalg.norm(self.table, axis=1, keepdims=True)
        unit: Floats = self.table / np.maximum(length, 1e-12)
        return unit

    def cosines(self, word: str, others: Sequence[str]) -> Floats:
        """Cosine of a word to others; -1 where one of the two has no vector."""
        here = self.places.get(word)
        near = np.full(len(others), -1.0, dtype=np.float32)
        for k, other in enumerate(others):
            place = self.places.get(other)
            if here is not None and place is not None:
                near[k] = self.unit[here] @ self.unit[place]
        return near


@cache
def _stored() -> dict[str, NDArray[Any]]:
    with as_file(files("durometer.spaces") / "lexicon.npz") as path, np.load(path) as stored:
        return {key: stored[key] for key in stored.files}


def _lines(name: str) -> list[str]:
    return _stored()[name].tobytes().decode().split("\n")


@cache
def vectors() -> Vectors:
    """GloVe's vectors."""
    stored = _stored()
    return Vectors(tuple(_lines("words")), stored["vectors"].astype(np.float32) * stored["scale"])


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Words that share a WordNet meaning.

    >>> "sound" in synonyms()["good"]
    True
    """
    pairs = (line.split("\t") for line in _lines("synonyms"))
    return {word: tuple(found.split(" ")) for word, found in pairs}


@cache
def antonyms() -> Mapping[str, frozenset[str]]:
    """What WordNet calls the opposites of each word.

    >>> "bad" in antonyms()["good"]
    True
    """
    made: dict[str, set[str]] = {}
    for line in _lines("antonyms"):
        first, second = line.split(" ")
        made.setdefault(first, set()).add(second)
        made.setdefault(second, set()).add(first)
    return {word: frozenset(found) for word, found in made.items()}
