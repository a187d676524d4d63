"""All sentences an attacker may write, from the strings alone: no code of `durometer.spaces`."""

import itertools
import math

KEEP = {"a", "the", "is", "not"}


def neighbours(text, synonyms, most):
    """Every sentence with at most a share `most` of the words (one in any case) replaced."""
    words = text.split(" ")
    budget = max(1, math.floor(most * len(words)))
    options = [[w, *synonyms.get(w, ())] if w not in KEEP else [w] for w in words]
    for choice in itertools.product(*options):
        if sum(a != b for a, b in zip(choice, words, strict=True)) <= budget:
            yield " ".join(choice)
