"""Similarity of two sentences: what `du.Text(similarity=..., least=...)` asks to stay high.

Any function of two lists of sentences will do. One that a file can name says what it `measures`.

What a reader would get wrong: a cosine of mean vectors hardly falls when one word of twenty is
replaced, whatever it says. It is a floor against many changes, not a judge of meaning.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from durometer.core import serialization
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.spaces import lexicon, token_ids
from durometer.spaces.chunking import limit
from durometer.spaces.lexicon import Vectors


@runtime_checkable
class Similarity(Protocol):
    """A number for each pair of sentences, 1 where they say the same."""

    @property
    def measures(self) -> str:
        """What is compared, in words."""
        ...

    def __call__(self, first: list[str], second: list[str]) -> Any:
        """(n,): of the pairs of two lists."""
        ...


@noun(eq=False)
class Centroid:
    """Similarity of two sentences: the cosine of the means of their words' vectors.

    It hardly falls when one word of twenty is replaced: it limits how much changes, and does not
    judge meaning.

    Args:
        vectors: The word vectors. None: GloVe's, for the words of the bundled lexicon.

    >>> near = Centroid()(["a good film"] * 2, ["a good film", "a terrible film"])
    >>> [round(float(c), 2) for c in near]
    [1.0, 0.95]
    """

    measures: ClassVar[str] = "the cosine of mean word vectors"
    vectors: Vectors | None = field(default=None, repr=False)

    def __call__(self, first: list[str], second: list[str]) -> np.ndarray:
        return _cosine(self._means(first), self._means(second))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Centroid) and self.vectors is other.vectors

    def __hash__(self) -> int:
        return hash((Centroid, id(self.vectors)))

    def _means(self, texts: list[str]) -> np.ndarray:
        table = self.vectors or lexicon.vectors()
        sums = np.zeros((len(texts), table.table.shape[1]))
        for row, text in zip(sums, texts, strict=True):
            places = [
                table.places.get(token_ids.strip_punctuation(w)[1].lower()) for w in text.split(" ")
            ]
            known = [p for p in places if p is not None]
            if known:
                row[:] = table.table[known].mean(0)
        return sums


@noun(eq=False)
class SentenceEncoder:
    """Similarity of two sentences: the cosine of the mean states of a Hugging Face encoder.

    Args:
        model: The folder of a saved encoder and its tokenizer, or an encoder of `transformers`.
            Nothing is downloaded.
        tokenizer: The tokenizer, where `model` is no folder.

    Raises:
        Unsupported: `transformers` is not installed; raised on first use.

    >>> SentenceEncoder("models/minilm")
    SentenceEncoder('models/minilm')
    """

    measures: ClassVar[str] = "the cosine of an encoder's mean states"
    model: Any
    tokenizer: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"SentenceEncoder({_named(self.model)!r})"

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The encoder as plain values for a file or a report: the folder, or the class of the
        model.

        Args:
            whole: Ignored: everything is always written.
        """
        return {"type": "SentenceEncoder", "model": _named(self.model)}

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        if not isinstance(self.model, str):
            return self.model.eval(), self.tokenizer
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise Unsupported(
                f"SentenceEncoder needs transformers: pip install 'durometer[text]' ({error})"
            ) from None
        model = AutoModel.from_pretrained(self.model, local_files_only=True)
        return model.eval(), AutoTokenizer.from_pretrained(self.model, local_files_only=True)

    def __call__(self, first: list[str], second: list[str]) -> np.ndarray:
        unique = list(dict.fromkeys([*first, *second]))
        place = {text: i for i, text in enumerate(unique)}
        states = self._states(unique)
        one, other = ([place[t] for t in texts] for texts in (first, second))
        return _cosine(states[one], states[other])

    def _states(self, texts: list[str]) -> np.ndarray:
        model, tokenizer = self._loaded
        found = []
        for begin in range(0, len(texts), 256):
            batch = tokenizer(
                texts[begin : begin + 256], return_tensors="pt", padding=True, truncation=True,
                max_length=limit(model, tokenizer),
            )  # fmt: skip
            with torch.no_grad():
                states = model(**batch).last_hidden_state
            here = batch["attention_mask"][..., None].to(states.dtype)
            found.append(((states * here).sum(1) / here.sum(1)).double().numpy())
        return np.concatenate(found)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.where(length > 0, (a * b).sum(1) / np.maximum(length, 1e-12), 1.0)


def _named(model: Any) -> str:
    return model if isinstance(model, str) else type(model).__name__
