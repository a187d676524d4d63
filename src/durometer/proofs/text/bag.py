"""Bags of words: a linear text model as a sum over the words of a sentence, and its worst case.

A pipeline that counts words (CountVectorizer, TfidfVectorizer; one word at a time) and ends in a
linear classifier scores class c with b_c + sum over the words of w_c. Replacing a word adds a fixed
amount to the lead of one class over another, whatever else is replaced. So the largest lead under a
budget is the sum of the largest gains: sort, and take as many as may change.

With rows of length 1 (Tfidf's default norm="l2") the sign of the lead is that of w.x + b |x|. The
first term is as above; |x| moves by no more than the changed words do, which bounds the second.

What a reader would get wrong: with several classes outside the goal, one at a time is a bound on
all at once; a row may stay open, but is never called proven wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Array
from durometer.model.exact_types import linear_classifiers, replaced_method
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.token_ids import PAD, word_of


@dataclass(frozen=True, eq=False)
class Bag:
    """What a pipeline does with the words: counts, weights of the counts (idf), and the norm."""

    vectoriser: Any
    idf: Array | None
    norm: str | None
    weight: Array  # (C, words)
    bias: Array  # (C,)
    rounding: float  # of the model's own arithmetic, as a share of the sum of all magnitudes

    def rows(self, texts: list[str]) -> Any:
        """(n, words) sparse, before any norm."""
        from sklearn.feature_extraction.text import CountVectorizer

        counts = CountVectorizer.transform(self.vectoriser, texts).astype(np.float64)
        return counts if self.idf is None else counts.multiply(self.idf[None]).tocsr()


def read(source: Any) -> Bag:
    """The bag of words of a scikit-learn pipeline; Unsupported says what it is instead.

    Exact types only: a subclass may count, weigh or decide otherwise than its attributes say.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
    from sklearn.pipeline import Pipeline

    if type(source) is not Pipeline or len(source.steps) not in (2, 3):
        raise _refused(f"{type(source).__name__} is no Pipeline of two or three steps")
    steps = [step for _, step in source.steps]
    for step in (source, *steps):
        if (name := replaced_method(step)) is not None:
            raise _refused(f"this {type(step).__name__} has its own `{name}`")
    first, last = steps[0], steps[-1]
    known = (CountVectorizer,) if len(steps) == 3 else (CountVectorizer, TfidfVectorizer)
    if type(first) not in known:
        before = " before another step" if len(steps) == 3 else ""
        raise _refused(f"nothing is known of {type(first).__name__}{before}")
    if len(steps) == 3 and type(steps[1]) is not TfidfTransformer:
        raise _refused(f"nothing is known of {type(steps[1]).__name__}")
    _counts_single_words(first)
    weigher = steps[1] if len(steps) == 3 else first if type(first) is TfidfVectorizer else None
    idf, norm = None, None
    if weigher is not None:
        if weigher.sublinear_tf or weigher.norm not in (None, "l2"):
            raise _refused("Tfidf with sublinear_tf or norm='l1' is no weighted count")
        idf, norm = (np.asarray(weigher.idf_) if weigher.use_idf else None), weigher.norm
    weight, bias = _weights(last, len(source.classes_))
    if weight.shape[1] != len(first.vocabulary_):
        raise _refused(
            f"{type(last).__name__} weighs {weight.shape[1]} words of {len(first.vocabulary_)}"
        )
    return Bag(first, idf, norm, weight, bias, _rounding(first, last))


def _rounding(first: Any, last: Any) -> float:
    """Of the model's own arithmetic, as a share of the sum of all magnitudes."""
    counted = np.dtype(first.dtype)
    if (counted.kind == "f" and counted != np.float64) or last.coef_.dtype != np.float64:
        return 1e-4
    # A support vector machine sums over its vectors, which may cancel to the weights read here.
    return 1e-9 if type(last) in linear_classifiers() else 1e-6


def _refused(why: str) -> Unsupported:
    return Unsupported(
        f"Linear: {why}; it reads a Pipeline that counts single words (CountVectorizer or "
        "TfidfVectorizer, one word at a time, no subclasses) and ends in a linear classifier of "
        "scikit-learn; use Enumerate"
    )


def _counts_single_words(first: Any) -> None:
    separate = first.analyzer == "word" and first.tokenizer is None and first.preprocessor is None
    blanks = first.token_pattern == r"(?u)\b\w\w+\b"  # no word reaches over a blank
    if not (separate and blanks and tuple(first.ngram_range) == (1, 1)) or first.binary:
        raise _refused(
            f"this {type(first).__name__} has an analyzer, tokenizer, preprocessor, token_pattern, "
            "ngram_range or binary= other than the usual"
        )


def _weights(last: Any, classes: int) -> tuple[Array, Array]:
    """(C, words) and (C,), such that the class of the highest sum is predicted."""
    from scipy.sparse import issparse
    from sklearn.svm import SVC, NuSVC

    pairwise = type(last) in (SVC, NuSVC) and last.kernel == "linear" and classes == 2
    if not pairwise and type(last) not in linear_classifiers():
        several = f" with {classes} classes" if type(last) in (SVC, NuSVC) else ""
        raise _refused(f"nothing is known of {type(last).__name__}{several}")
    given: Any = last.coef_
    dense = given.toarray() if issparse(cast(object, given)) else given
    weight = np.atleast_2d(np.asarray(dense, dtype=np.float64))
    bias = np.atleast_1d(np.asarray(last.intercept_, dtype=np.float64))
    bias = np.broadcast_to(bias, len(weight)).copy()
    if len(weight) == 1 and classes == 2:  # one score, of the second class
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    if len(weight) != classes:
        raise _refused(f"{type(last).__name__} has {len(weight)} scores for {classes} classes")
    return weight, bias


@dataclass(frozen=True, eq=False)
class Summands:
    """What each option of each place adds, for the rows of a region."""

    scores: Tensor  # (n, L, K, C), NaN where there is no option
    bias: Tensor  # (C,)
    length: tuple[Tensor, Tensor] | None  # (n,), (n,): the least and most |x|; None: no norm
    size: Tensor  # (n,): sum of all magnitudes, for rounding


def summands(bag: Bag, region: SubstitutionRegion) -> Summands:
    """Look every word up once."""
    options = region.options.numpy()
    used, place = np.unique(np.nan_to_num(options, nan=PAD), return_inverse=True)
    rows = bag.rows(["" if i == PAD else word_of(float(i)) for i in used])
    each = torch.from_numpy(np.asarray(rows @ bag.weight.T))
    where = torch.from_numpy(place.reshape(options.shape))
    scores = each[where].masked_fill(~region.there[..., None], torch.nan)
    size = scores.nan_to_num(0.0).abs().amax((2, 3)).sum(1) + float(np.abs(bag.bias).max())
    bias = torch.from_numpy(bag.bias)
    if bag.norm is None:
        return Summands(scores, bias, None, size)
    at, first = place.reshape(options.shape), place.reshape(options.shape)[..., :1]
    pairs, back = np.unique(
        np.stack([at.ravel(), np.broadcast_to(first, at.shape).ravel()]), axis=1,
        return_inverse=True,
    )  # fmt: skip
    apart = rows[pairs[0]] - rows[pairs[1]]
    moved = np.sqrt(np.asarray(apart.multiply(apart).sum(1)).ravel())
    far = torch.from_numpy(moved[back.reshape(-1)].reshape(at.shape)).masked_fill(~region.there, 0)
    reach = _largest(far.amax(2), region.most)
    clean = [np.linalg.norm(np.asarray(rows[of].sum(0))) for of in at[..., 0]]  # a sparse sum each
    start = torch.tensor(clean, dtype=torch.float64)
    return Summands(scores, bias, ((start - reach).clamp_min(0), start + reach), size)


def _largest(values: Tensor, most: Tensor) -> Tensor:
    """(n,): the sum of the `most` largest values of each row (n, L)."""
    ranked = values.sort(dim=1, descending=True).values.clamp_min(0)
    among = torch.arange(values.shape[1]) < most[:, None]
    return (ranked * among).sum(1)


def highest(found: Summands, region: SubstitutionRegion, t: int, s: int) -> tuple[Tensor, Tensor]:
    """The most that class t can lead s by, (n,), and the slots (n, L) where it would."""
    lead = found.scores[..., t] - found.scores[..., s]  # (n, L, K)
    gain, slot = (lead - lead[..., :1]).nan_to_num(-torch.inf).max(2)
    rank = gain.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    slots = torch.where((gain > 0) & (rank < region.most[:, None]), slot, 0)
    best = lead[..., 0].sum(1) + _largest(gain, region.most)
    bias = float(found.bias[t] - found.bias[s])
    if found.length is None:
        return best + bias, slots
    low, high = found.length
    bound = best + torch.maximum(bias * low, bias * high)
    if bias >= 0:  # a sentence without a known word is scored by the bias alone
        bound = torch.where(low <= 0, torch.inf, bound)
    return bound, slots
