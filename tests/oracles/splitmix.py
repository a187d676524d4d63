"""SplitMix64 in whole numbers of Python, one draw after the other."""

import numpy as np

MASK = 2**64 - 1


def uniform(words, draws):
    """(rows, draws) numbers in [0, 1)."""
    out = np.empty((len(words), draws))
    for i, word in enumerate(int(w) for w in words):
        for k in range(draws):
            word = (word + 0x9E3779B97F4A7C15) & MASK
            w = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            w = ((w ^ (w >> 27)) * 0x94D049BB133111EB) & MASK
            out[i, k] = ((w ^ (w >> 31)) >> 11) * 2.0**-53
    return out
