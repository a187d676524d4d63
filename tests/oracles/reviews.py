"""Which replacements SST-5's default space allows, from the strings and the stored lexicon alone.

Shares no code with `durometer.spaces`: the archive is opened as such, words are stripped by hand,
the nearest synonyms are ranked in double precision (ties of single precision are given the
benefit).
"""

import math
from functools import cache
from importlib.resources import files

import numpy as np

CAPACITY, AT_MOST = 0.25, 7


@cache
def lexicon():
    with np.load(str(files("durometer") / "spaces" / "lexicon.npz")) as f:
        lines = {k: f[k].tobytes().decode().split("\n") for k in ("words", "synonyms", "antonyms")}
        table = f["vectors"].astype(float) * f["scale"].astype(float)
    vectors = dict(zip(lines["words"], table, strict=True))
    synonyms = dict(line.split("\t") for line in lines["synonyms"])
    opposite = {frozenset(line.split(" ")) for line in lines["antonyms"]}
    return vectors, {k: v.split(" ") for k, v in synonyms.items()}, opposite


def dress(word):
    """What stands before the first and behind the last letter, digit or underscore."""
    inside = [i for i, c in enumerate(word) if c.isalnum() or c == "_"]
    return (word[: inside[0]], word[inside[-1] + 1 :]) if inside else (word, "")


def bare(word):
    """The word without that."""
    before, behind = dress(word)
    return word[len(before) : len(word) - len(behind)].lower()


def undressed(word, before, behind):
    """What stands between the signs of the word it replaces; None if those have changed."""
    whole = len(word) > len(before) + len(behind)
    if not (whole and word.startswith(before) and word.endswith(behind)):
        return None
    return word[len(before) : len(word) - len(behind)].lower()


def cosine(a, b):
    vectors = lexicon()[0]
    if a not in vectors or b not in vectors:
        return -1.0
    u, v = vectors[a], vectors[b]
    return float(u @ v / max(np.linalg.norm(u) * np.linalg.norm(v), 1e-24))


def allowed(before, after, stopwords):
    """May this sentence be written in the place of that one?"""
    old, new = before.split(" "), after.split(" ")
    if len(old) != len(new):
        return False
    changed = [i for i in range(len(old)) if old[i] != new[i]]
    if len(changed) > max(1, math.floor(CAPACITY * len(old))):
        return False
    _, synonyms, opposite = lexicon()
    for i in changed:
        a, b = bare(old[i]), undressed(new[i], *dress(old[i]))  # "us" -> "u.s." keeps its dot
        known = [w for w in synonyms.get(a, []) if w != a]
        if a in stopwords or old[i].lower() in stopwords or b not in known:
            return False
        nearer = sum(cosine(a, w) > cosine(a, b) + 1e-6 for w in known)
        if nearer >= AT_MOST:
            return False
        near = [bare(w) for w in old[max(0, i - 2) : i + 3]]
        if any(frozenset((b, w)) in opposite for w in near if w != b):
            return False
    return True
