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
    """A maker of replacements for the words of a sentence; used by `Text`."""

    @property
    def described(self) -> str:
        """What a word is replaced by, for the sentences of a report, e.g. "a synonym"."""
        ...

    def __call__(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The replacements of each word.

        Args:
            words: The words of one sentence.

        Returns:
            For each word a tuple of the words that may replace it, the best first; empty: it stays.
        """
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
    """Replaces a word by its synonyms: WordNet 3.1, ordered by GloVe vectors, for the words of
    SST-5.

    Args:
        table: Word -> its synonyms, in upper or lower case, instead of WordNet's. Synonyms of
            several words are left out; the report's note `left-out-candidates` lists them.
        vectors: Word vectors to order the synonyms by. None: GloVe's with the bundled table, no
            ordering with a table of your own.
        at_most: Number of synonyms per word that are kept, the first of the table or the nearest by
            `vectors`. None: 7 of the bundled table, all of your own.
        least: Smallest cosine between a word and its synonym, where there are vectors. -1 keeps
            all.

    Raises:
        DurometerError: `table` maps a word to something that is no list of words.

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
        """The synonyms of one word, nearest first.

        Args:
            word: The word, in lower case.
        """
        table, vectors = self._sources
        found = [w for w in table.get(word, ()) if w != word]
        if vectors is not None and found:
            near = vectors.cosines(word, found)
            order = np.argsort(-near, kind="stable")
            found = [found[i] for i in order if near[i] >= self.least]
        return tuple(found[: self._most])


@noun(eq=False)
class Neighbours:
    """Replaces a word by its nearest neighbours in a space of word vectors; antonyms may be among
    them.

    Args:
        vectors: The word vectors. None: GloVe's, for the words of the bundled lexicon.
        at_most: Number of neighbours per word that are kept.
        least: Smallest cosine between a word and its neighbour.

    >>> Neighbours(at_most=2)(["good", "film"])
    [('better', 'really'), ('movie', 'films')]
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
        """The neighbours of one word, nearest first.

        Args:
            word: The word, in lower case.
        """
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
    """Misspells a word by one edit of a character; the first and the last letter stay.

    Args:
        kinds: The edits: "swap" (two neighbours change places), "drop", "double", "look" (a
            character that looks alike, e.g. 0 for o).
        shortest: Length of the shortest word that is misspelled, in letters.
        at_most: Number of misspellings per word that are kept, those at its beginning first: of ten
            letters, 16 reach about the middle. None: all.

    Raises:
        DurometerError: There is no such kind of edit.

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
    """Replaces a word by what a masked language model would write there (Hugging Face
    `transformers`).

    Args:
        model: The folder of a saved model and its tokenizer, or a model of `transformers`. Nothing
            is downloaded.
        tokenizer: The tokenizer, where `model` is no folder.
        at_most: Number of words per place that are kept, the likeliest first.

    Raises:
        Unsupported: `transformers` is not installed, or the tokenizer has no mask token; raised on
            first use.

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
        """The maker as plain values for a file or a report: the folder, or the class of the model.

        Args:
            whole: Ignored: everything is always written.
        """
        return {"type": "Masked", "model": _named(self.model), "at_most": self.at_most}

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        if not isinstance(self.model, str):
            return self.model, self.tokenizer
        try:
            from transformers import AutoModelForMaskedLM, AutoTokenizer
        except ImportError as error:
            raise Unsupported(
                f"Masked needs transformers: pip install 'durometer[text]' ({error})"
            ) from None
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
