"""Candidates: what may stand in the place of a word. One maker, one idea of what stays the same.

    Synonyms     words of the same WordNet meaning, the nearest by word vectors first
    Neighbours   the nearest words by word vectors (antonyms are among them: good, bad)
    Typos        one edit of a character: two swapped, one dropped, doubled or replaced by its look
    Masked       what a masked language model would write there

A maker is called with the words of one sentence and gives, for each, the words that may replace it.
Punctuation around a word and a capital at its beginning stay (`Good,` -> `Fine,`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from durometer.core import serialization
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.validation import noun
from durometer.spaces import lexicon
from durometer.spaces.chunking import limit
from durometer.spaces.lexicon import Vectors
from durometer.spaces.token_ids import strip_punctuation

_USUAL = 7  # synonyms of a word in the bundled lexicon
_MASKED = 16  # sentences at a time: a language model gives a number per place and word
_LOOKS = {"o": "0", "l": "1", "i": "1", "e": "3", "a": "@", "s": "$", "b": "8", "g": "9"}


@runtime_checkable
class Candidates(Protocol):
    """What may stand in the place of each word of a sentence."""

    @property
    def described(self) -> str:
        """What a word is replaced by, in words: "a synonym"."""
        ...

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """For each word the others that may replace it, the best first."""
        ...


def _dressed(word: str, of: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """Candidates of the bare word, dressed as the word is."""
    before, bare, behind = strip_punctuation(word)
    found = of(bare.lower()) if bare else ()
    capital = bare[:1].isupper()
    dressed = (before + (w[:1].upper() + w[1:] if capital else w) + behind for w in found)
    return tuple(w for w in dict.fromkeys(dressed) if w != word)


@noun(eq=False)
class Synonyms:
    """Words that share a meaning.

    Args:
        table: Maps a word to its synonyms, in upper or lower case; by default WordNet 3.1's, as far
            as the words of SST-5 reach. Synonyms of several words cannot stand in the place of one
            and are left out; the report's note `left-out-candidates` lists them.
        vectors: Word vectors that rank the synonyms; by default GloVe's for the default table.
        at_most: How many synonyms of a word count, the first of `table` or the nearest by
            `vectors`. None: all of a table of your own, 7 of the default one.
        least: The least cosine of a synonym with its word, where there are vectors.

    >>> Synonyms({"good": ("fine", "sound")})(["Good", "film"])
    [('Fine', 'Sound'), ()]
    """

    described: ClassVar[str] = "a synonym"
    table: Mapping[str, Sequence[str]] | None = None
    vectors: Vectors | None = field(default=None, repr=False)
    at_most: int | None = None
    least: float = field(default=-1.0, metadata={"least": -1, "most": 1})

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        if self.table is None:
            return
        if not isinstance(self.table, Mapping):
            raise DurometerError(
                f"Synonyms({self.table!r}): expected a table, {{word: (synonyms,)}}"
            )
        for word, found in self.table.items():
            listed = isinstance(found, Iterable) and not isinstance(found, str)
            wrong = next((w for w in found if not isinstance(w, str)), None) if listed else found
            if wrong is not None:
                raise DurometerError(f"Synonyms: {word!r} has {wrong!r}; expected a list of words")

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        known = self._memo
        return [known[w] if w in known else known.setdefault(w, _dressed(w, self.of))
                for w in words]  # fmt: skip

    @cached_property
    def _memo(self) -> dict[str, tuple[str, ...]]:
        own = self.table is not None or self.vectors is not None
        return {} if own else _ranked(self._most, self.least)

    @property
    def _most(self) -> int | None:
        return _USUAL if self.at_most is None and self.table is None else self.at_most

    @cached_property
    def _sources(self) -> tuple[Mapping[str, Sequence[str]], Vectors | None]:
        if self.table is not None:
            lower: dict[str, dict[str, None]] = {}  # words are looked up in lower case
            for word, found in self.table.items():
                lower.setdefault(word.lower(), {}).update(dict.fromkeys(found))
            return {word: tuple(found) for word, found in lower.items()}, self.vectors
        return lexicon.synonyms(), self.vectors or lexicon.vectors()

    def of(self, word: str) -> tuple[str, ...]:
        """The synonyms of one word."""
        table, vectors = self._sources
        found = [w for w in table.get(word, ()) if w != word]
        if vectors is not None and found:
            near = vectors.cosines(word, found)
            order = np.argsort(-near, kind="stable")
            found = [found[i] for i in order if near[i] >= self.least]
        return tuple(found[: self._most])


@noun(eq=False)
class Neighbours:
    """The nearest words by their vectors, at most `at_most`, of a cosine of at least `least`.

    >>> import durometer as du
    >>> candidates = du.Neighbours(at_most=2)
    >>> candidates.at_most, candidates.least
    (2, 0.6)
    """

    described: ClassVar[str] = "a similar word"
    vectors: Vectors | None = field(default=None, repr=False)
    at_most: int = 8
    least: float = field(default=0.6, metadata={"least": -1, "most": 1})

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return [_dressed(word, self.of) for word in words]

    @cached_property
    def _memo(self) -> dict[str, tuple[str, ...]]:
        return {}

    def of(self, word: str) -> tuple[str, ...]:
        """The neighbours of one word."""
        if word not in self._memo:
            vectors = self.vectors or lexicon.vectors()
            here = vectors.places.get(word)
            if here is None:
                return ()
            near = vectors.unit @ vectors.unit[here]
            near[here] = -np.inf
            top = np.argsort(-near, kind="stable")[: self.at_most]
            self._memo[word] = tuple(vectors.words[i] for i in top if near[i] >= self.least)
        return self._memo[word]


@noun
class Typos:
    """One edit inside a word; the first and last letter stay.

    Args:
        kinds: Which edits: "swap" two neighbours, "drop" a letter, "double" it, or replace it by
            one that has its "look" (o by 0).
        shortest: Shorter words stay as they are.
        at_most: How many edits of a word count, those at its beginning first: of a word of ten
            letters with all kinds 16 reach about the middle. None: all of them.

    >>> Typos(kinds=("swap",))(["film"])
    [('flim',)]
    """

    described: ClassVar[str] = "a misspelling"
    kinds: tuple[Literal["swap", "drop", "double", "look"], ...] = (
        "swap",
        "drop",
        "double",
        "look",
    )
    shortest: int = 4
    at_most: int | None = 16

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return [self._of(word) for word in words]

    def _of(self, word: str) -> tuple[str, ...]:
        before, bare, behind = strip_punctuation(word)
        if len(bare) < self.shortest:
            return ()
        edits = {
            "swap": lambda i: bare[:i] + bare[i + 1] + bare[i] + bare[i + 2 :],
            "drop": lambda i: bare[:i] + bare[i + 1 :],
            "double": lambda i: bare[:i] + bare[i] + bare[i:],
            "look": lambda i: bare[:i] + _LOOKS.get(bare[i].lower(), bare[i]) + bare[i + 1 :],
        }
        inner = range(1, len(bare) - 1)
        made = (edits[kind](i) for i in inner for kind in self.kinds
                if kind != "swap" or i + 1 < len(bare) - 1)  # fmt: skip
        found = dict.fromkeys(before + w + behind for w in made if w != bare)
        return tuple(found)[: self.at_most]


@noun(eq=False)
class Masked:
    """The `at_most` likeliest words of a masked language model (Hugging Face `transformers`).

    `model` is one of `transformers` together with its `tokenizer`, or the folder of both.

    >>> import durometer as du
    >>> du.Masked("models/roberta", at_most=4)
    Masked('models/roberta', at_most=4)
    """

    described: ClassVar[str] = "a word that a language model would write"
    model: Any
    tokenizer: Any = None
    at_most: int = 8

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __repr__(self) -> str:
        return f"Masked({_named(self.model)!r}, at_most={self.at_most!r})"

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The folder, or the kind of a model that was given as such."""
        return {"type": "Masked", "model": _named(self.model), "at_most": self.at_most}

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        if not isinstance(self.model, str):
            return self.model, self.tokenizer
        try:
            from transformers import AutoModelForMaskedLM, AutoTokenizer
        except ImportError as error:
            raise Unsupported(f"Masked needs transformers: pip install 'durometer[text]' ({error})") \
                from None  # fmt: skip
        model = AutoModelForMaskedLM.from_pretrained(self.model, local_files_only=True)
        return model.eval(), AutoTokenizer.from_pretrained(self.model, local_files_only=True)

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        import torch

        model, tokenizer = self._loaded
        mask = getattr(tokenizer, "mask_token", None)
        if mask is None:
            raise Unsupported("Masked: the tokeniser has no mask token; take a masked model")
        texts = [" ".join([*words[:i], mask, *words[i + 1 :]]) for i in range(len(words))]
        made: list[tuple[str, ...]] = []
        for begin in range(0, len(texts), _MASKED):  # of long texts all at once are too many
            batch = tokenizer(
                texts[begin : begin + _MASKED], return_tensors="pt", padding=True, truncation=True,
                max_length=limit(model, tokenizer),
            )  # fmt: skip
            with torch.no_grad():
                logits = model(**batch).logits
            masked = batch["input_ids"] == tokenizer.mask_token_id
            for i, word in enumerate(words[begin : begin + _MASKED]):
                at = masked[i].nonzero()
                if not len(at):  # cut off
                    made.append(())
                    continue
                top = logits[i, int(at[0, 0])].topk(min(4 * self.at_most, logits.shape[-1])).indices
                spelled = (tokenizer.decode([int(t)]).strip() for t in top)
                plain = [w for w in spelled if w.isalpha() and w.lower() != word.lower()]
                made.append(tuple(dict.fromkeys(plain))[: self.at_most])
        return made


@cache
def _ranked(at_most: int | None, least: float) -> dict[str, tuple[str, ...]]:
    """What has been found in the bundled lexicon: the same for every maker of this kind."""
    return {}


def _named(model: Any) -> str:
    return model if isinstance(model, str) else type(model).__name__
