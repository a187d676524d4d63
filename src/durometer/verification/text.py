"""Spaces of sentences, judged a second time, word by word and in plain Python.

As many words as before; words to be kept stand where they stood; at most a share of them differs,
one in any case; each that differs is a candidate of the word it replaces, and not the opposite of
one that stood within two places.

What a reader would get wrong: candidates and opposites are definitions (a maker, a list), not the
attack's work, and so both sides read the same ones. A similarity is a function of somebody, and
the judge then has no rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.spaces import lexicon
from durometer.spaces.text import STOPWORDS

Bools = NDArray[np.bool_]
Rows = Sequence[Sequence[str]]


def text_allowed(space: Mapping[str, Any], was: Rows, now: Rows, maker: Any) -> Bools | None:
    """Which sentences the space allows; None: no candidates are known, or a similarity is asked."""
    if maker is None or space.get("similarity") is not None:
        return None
    keep = {str(w).lower() for w in space.get("keep", STOPWORDS)}
    opposite = {} if space.get("antonyms") else lexicon.antonyms()
    share = float(space.get("most", 0.25))
    return np.array(
        [_row(a, b, share, keep, opposite, maker) for a, b in zip(was, now, strict=True)], bool
    )


def _row(
    was: Sequence[str], now: Sequence[str], share: float, keep: set[str],
    opposite: Mapping[str, Collection[str]], maker: Any,
) -> bool:  # fmt: skip
    if len(was) != len(now):
        return False
    places = [k for k, (a, b) in enumerate(zip(was, now, strict=True)) if a != b]
    if len(places) > max(1, int(share * len(was))):
        return False
    offered = maker(list(was))
    for k in places:
        if was[k].lower() in keep or _bare(was[k]) in keep or now[k] not in offered[k]:
            return False
        near = {_bare(word) for word in was[max(0, k - 2) : k + 3]}
        if " " in now[k] or near & set(opposite.get(_bare(now[k]), ())):
            return False
    return True


def _bare(word: str) -> str:
    """Without what stands before the first and behind the last letter or digit."""
    inner = [k for k, letter in enumerate(word) if letter.isalnum()]
    return (word[inner[0] : inner[-1] + 1] if inner else word).lower()
