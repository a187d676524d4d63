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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.kernels.arrays import Array
from assay.spaces.choices import ChoiceRegion
from assay.spaces.words import PAD, spell


@dataclass(frozen=True, eq=False)
class Bag:
    """What a pipeline does with the words: counts, weights of the counts (idf), and the norm."""

    vectoriser: Any
    idf: Array | None
    norm: str | None
    weight: Array  # (C, words)
    bias: Array  # (C,)

    def rows(self, texts: list[str]) -> Any:
        """(n, words) sparse, before any norm."""
        from sklearn.feature_extraction.text import CountVectorizer

        counts = CountVectorizer.transform(self.vectoriser, texts).astype(np.float64)
        return counts if self.idf is None else counts.multiply(self.idf[None]).tocsr()


def read(source: Any) -> Bag | None:
    """The bag of words of a scikit-learn pipeline; None where it is none."""
    steps = [step for _, step in getattr(source, "steps", [])]
    if len(steps) not in (2, 3) or not hasattr(steps[0], "build_analyzer"):
        return None
    first, last = steps[0], steps[-1]
    separate = first.analyzer == "word" and first.tokenizer is None and first.preprocessor is None
    blanks = first.token_pattern == r"(?u)\b\w\w+\b"  # no word reaches over a blank
    if not (separate and blanks and tuple(first.ngram_range) == (1, 1)) or first.binary:
        return None
    idf, norm = None, None
    weigher = steps[1] if len(steps) == 3 else first if hasattr(first, "idf_") else None
    if len(steps) == 3 and type(steps[1]).__name__ != "TfidfTransformer":
        return None
    if weigher is None and type(first).__name__ != "CountVectorizer":
        return None
    if weigher is not None:
        if weigher.sublinear_tf or weigher.norm not in (None, "l2"):
            return None
        idf, norm = (np.asarray(weigher.idf_) if weigher.use_idf else None), weigher.norm
    if not (hasattr(last, "coef_") and hasattr(last, "intercept_")):
        return None
    weight = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
    bias = np.atleast_1d(np.asarray(last.intercept_, dtype=np.float64))
    bias = np.broadcast_to(bias, len(weight)).copy()
    if len(weight) == 1:  # one score, of the second class
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return Bag(first, idf, norm, weight, bias)


@dataclass(frozen=True, eq=False)
class Summands:
    """What each option of each place adds, for the rows of a region."""

    scores: Tensor  # (n, L, K, C), NaN where there is no option
    bias: Tensor  # (C,)
    length: tuple[Tensor, Tensor] | None  # (n,), (n,): the least and most |x|; None: no norm
    size: Tensor  # (n,): sum of all magnitudes, for rounding


def summands(bag: Bag, region: ChoiceRegion) -> Summands:
    """Look every word up once."""
    options = region.options.numpy()
    used, place = np.unique(np.nan_to_num(options, nan=PAD), return_inverse=True)
    rows = bag.rows(["" if i == PAD else spell(float(i)) for i in used])
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


def highest(found: Summands, region: ChoiceRegion, t: int, s: int) -> tuple[Tensor, Tensor]:
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
