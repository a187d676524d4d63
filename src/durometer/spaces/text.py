"""Text: sentences in which some words may be replaced by others that say nearly the same.

A space of choices (`discrete.py`): every word has the candidates of a maker (`candidates.py`),
words in `keep` have none, at most a share `most` of a sentence's words may change (one in any
case), no word may turn into the opposite of one that stood within two places of it (the rule of
T-PGD), and `similarity`, where given, must stay at `least`.

What a reader would get wrong: candidates are of the *original* sentence and stay what they are
however much of it has changed; so the space is a product, and can be counted and enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core import serialization
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.spaces import lexicon, token_ids
from durometer.spaces.candidates import Candidates, Synonyms
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.similarity import Similarity

# Articles, pronouns, prepositions, auxiliaries and negations: what carries grammar, not meaning.
STOPWORDS = tuple(
    """a about after again all also am an and any are as at be because been before being both but by
    can could did do does doing don down during each few for from further had has have having he her
    here hers herself him himself his how i if in into is it its itself just me more most my myself
    n't no nor not now of off on once only or other our ours ourselves out over own 's same she
    should so some such t than that the their theirs them themselves then there these they this
    those through to too under until up very was we were what when where which while who whom why
    will with would you your yours yourself yourselves""".split()  # noqa: SIM905
)


_TAKES = 'Text takes sentences, du.Dataset(list of strings, y); in a file, [data] text = "column"'


@noun(eq=False)
class Text:
    """Sentences of which some words may be replaced by candidates of similar meaning.

    Candidates are those of the original sentence, so the space is finite and can be enumerated.

    Args:
        candidates: What may replace a word: `Synonyms()` (default), `Neighbours()`, `Typos()`,
            `Masked(...)` or a maker of your own.
        most: Share of a sentence's words that may change, above 0 and at most 1; one word may
            always change.
        keep: Words that stay. Default: English stop words.
        similarity: A measure of two lists of sentences, e.g. `Centroid()`. None: no such condition.
        least: Smallest similarity to the original sentence; used with `similarity` only.
        antonyms: Whether a word may be replaced by the opposite of a word within two places of it;
            the default forbids it, as T-PGD does (Yuan et al., 2021).

    Raises:
        DurometerError: A parameter has an impossible value.

    >>> space = Text(Synonyms({"good": ("fine",)}), most=0.5)
    >>> region = space.around(token_ids.encode(["a good film"]))
    >>> [bool(region.contains(token_ids.encode([s]))) for s in ("a fine film", "a bad film")]
    [True, False]
    """

    candidates: Candidates | Callable[[list[str]], Any] = field(default_factory=Synonyms)
    most: float = field(default=0.25, metadata={"above": 0, "most": 1})
    keep: Sequence[str] = STOPWORDS
    similarity: Similarity | Callable[[list[str], list[str]], Any] | None = None
    least: float = field(default=0.8, metadata={"least": -1, "most": 1})
    antonyms: bool = False  # may a word turn into its opposite?
    cpu_only: ClassVar[bool] = True  # symbols are looked up there

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        if isinstance(self.candidates, type):
            kind = self.candidates.__name__
            raise DurometerError(f"Text(candidates={kind}): not the class but {kind}()")
        if isinstance(self.keep, str) or not isinstance(self.keep, Iterable):
            raise DurometerError(f"Text(keep={self.keep!r}): expected a list of words that stay")
        object.__setattr__(self, "keep", tuple(sorted({w.lower() for w in self.keep})))

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The space as plain values for a file or a report.

        Args:
            whole: Whether to write parameters at their default too; the usual stop words are never
                written.
        """
        usual = self.keep == tuple(sorted(STOPWORDS))
        return {"type": "Text"} | serialization.non_default_fields(
            self, whole, leave=("keep",) if usual else ()
        )

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(self.keep)

    def __repr__(self) -> str:
        said = f"Text({self.candidates!r}, most={self.most!r}"
        if self.keep != tuple(sorted(STOPWORDS)):
            said += f", keep={self.keep!r}"
        if self.similarity is not None:
            said += f", similarity={self.similarity!r}, least={self.least!r}"
        return said + (", antonyms=True)" if self.antonyms else ")")

    @property
    def description(self) -> str:
        """The threat as a sentence."""
        listed = self.candidates
        by = listed.described if isinstance(listed, Candidates) else "another"
        return f"The attacker may replace up to {self.most:.0%} of the words, each by {by}."

    @property
    def norm(self) -> None:
        return None

    def check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.dtype != torch.float64:
            raise DurometerError(f"inputs of shape {tuple(x.shape)} and {x.dtype}: {_TAKES}")
        if bool((x[:, :1] == token_ids.PAD).any()):
            raise DurometerError(f"inputs are numbers, not words: {_TAKES}")
        token_ids.tokens(x[:1])

    def around(self, x: Tensor) -> SubstitutionRegion:
        rows = token_ids.tokens(x)
        made = [self._options(row) for row in rows]
        size = 1 + max((len(found) for row in made for found in row), default=0)
        options = np.full((*x.shape, size), np.nan)
        options[..., 0] = x.numpy()
        for i, row in enumerate(made):
            for j, found in enumerate(row):
                if found:
                    options[i, j, 1 : 1 + len(found)] = found
        counts = torch.tensor([max(1, math.floor(self.most * len(row))) for row in rows])
        also = self._also if self.similarity is not None else None
        return SubstitutionRegion(x, torch.from_numpy(options), counts, also)

    def remarks(self, x: Tensor) -> tuple[str, ...]:
        """What a table of synonyms offers that lies outside this space, as sentences for the
        report.

        Args:
            x: Inputs (n, ...).
        """
        maker = self.candidates
        if not isinstance(maker, Synonyms) or maker.table is None:
            return ()
        table = maker.table
        opposites = {} if self.antonyms else lexicon.antonyms()
        pairs = [(key, one) for key, found in table.items() for one in found]
        reasons = {
            "of several words": [(k, w) for k, w in pairs if " " in w],
            "for a key that is no single word": [
                (k, w) for k, w in pairs if " " in k or _bare(k) != k.lower()
            ],
            "for a word in keep=": [(k, w) for k, w in pairs if k.lower() in self._kept],
            "beyond at_most=": _beyond(table, maker.at_most),
            "that are the opposite (antonyms=True allows them)": [
                (k, w) for k, w in pairs if _bare(w) in (opposites.get(k.lower()) or ())
            ],
        }
        return tuple(
            f"{len(found)} candidates {why}, e.g. {found[0][1]!r} for {found[0][0]!r}"
            for why, found in reasons.items()
            if found
        )

    def _options(self, row: list[str]) -> list[tuple[float, ...]]:
        """Ids of the candidates of each word."""
        bare = [_bare(word) for word in row]
        opposites = {} if self.antonyms else lexicon.antonyms()
        near = [opposites.get(word) for word in bare]
        made: list[tuple[float, ...]] = []
        for place, found in enumerate(self._asked(row)):
            if not found or bare[place] in self._kept or row[place].lower() in self._kept:
                made.append(())
                continue
            if isinstance(found, str):
                raise DurometerError(
                    f"candidates are {found!r} for the word {row[place]!r}; expected a tuple"
                )
            ids, plain = _ids(row[place], tuple(found))
            for some in near[max(0, place - 2) : place + 3]:
                if some and not some.isdisjoint(plain):
                    ids = tuple(i for i, w in zip(ids, plain, strict=True) if w not in some)
                    plain = tuple(w for w in plain if w not in some)
            made.append(ids)
        return made

    def _asked(self, row: list[str]) -> Sequence[Sequence[str]]:
        """What the maker says, if it is what a maker says."""
        found = self.candidates(row)
        if not isinstance(found, Sequence) or len(found) != len(row):
            said = f"{len(found)} lists" if isinstance(found, Sequence) else repr(found)
            raise DurometerError(
                f"{self.candidates!r} gave {said} of candidates for {len(row)} words; expected a "
                "tuple of words for each"
            )
        return found

    def _also(self, clean: Tensor, x: Tensor) -> Tensor:
        assert self.similarity is not None
        was, now = token_ids.sentences(clean), token_ids.sentences(x)
        score = np.asarray(self.similarity(was, now), dtype=float)
        if score.shape != (len(was),):
            raise DurometerError(
                f"{self.similarity!r} gave scores of shape {score.shape} for {len(was)} pairs of "
                "sentences; expected one each"
            )
        if np.isnan(score).any():
            pair = int(np.isnan(score).argmax())
            raise DurometerError(
                f"{self.similarity!r} gave nan for {was[pair]!r} and {now[pair]!r}; expected one "
                "number for each pair"
            )
        return torch.as_tensor(score >= self.least)


def _beyond(table: Mapping[str, Sequence[str]], most: int | None) -> list[tuple[str, str]]:
    if most is None:
        return []
    return [(key, one) for key, found in table.items() for one in list(found)[most:]]


@cache
def _bare(word: str) -> str:
    return token_ids.strip_punctuation(word)[1].lower()


@cache
def _ids(word: str, found: tuple[str, ...]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The ids and bare words of those candidates that can stand in the place of this word."""
    for one in found:
        if not isinstance(one, str):
            raise DurometerError(f"candidates hold {one!r} for the word {word!r}; expected words")
    fit = [w for w in dict.fromkeys(found) if " " not in w and w != word]
    return tuple(token_ids.token_id(w) for w in fit), tuple(_bare(w) for w in fit)
