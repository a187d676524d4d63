"""SplitMix64 in whole numbers of Python, one draw after the other."""

import numpy as np

MASK = 2**64 - 1


class SplitMix:
    """One row's numbers, started by its word."""

    def __init__(self, word):
        self.word = int(word)

    def uniform(self):
        """A number in [0, 1)."""
        self.word = (self.word + 0x9E3779B97F4A7C15) & MASK
        w = ((self.word ^ (self.word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        w = ((w ^ (w >> 27)) * 0x94D049BB133111EB) & MASK
        return ((w ^ (w >> 31)) >> 11) * 2.0**-53

    def shuffle(self, order, count):
        """The first `count` places of `order` become a random draw without replacement from it."""
        last = len(order)
        for i in range(min(count, last - 1)):
            j = i + int(self.uniform() * (last - i))
            order[i], order[j] = order[j], order[i]


def uniform(words, draws):
    """(rows, draws) numbers in [0, 1)."""
    made = [SplitMix(word) for word in words]
    return np.array([[one.uniform() for _ in range(draws)] for one in made]).reshape(-1, draws)
