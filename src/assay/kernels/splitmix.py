"""Random numbers inside compiled loops: SplitMix64, started by one word of the row's own stream.

`streams.Stream` gives each row one word per generation; everything a compiled loop needs for that
row and generation is drawn from that word. So a row's numbers are still a function of (seed, id,
draw) alone, and the batch, the block and the number of threads cannot change them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.kernels.arrays import Array
from assay.kernels.compile import kernel
from assay.streams import GOLDEN, MIX

_GOLDEN, _MIX1, _MIX2 = np.uint64(GOLDEN), np.uint64(MIX[0]), np.uint64(MIX[1])


@kernel
def uniform(state: Array) -> Any:
    """A number in [0, 1); `state` is one word (1,) of uint64 and moves on."""
    state[0] += _GOLDEN
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * _MIX1
    word = (word ^ (word >> np.uint64(27))) * _MIX2
    word = word ^ (word >> np.uint64(31))
    return np.float64(word >> np.uint64(11)) * 1.1102230246251565e-16  # 2^-53


@kernel
def shuffle(state: Array, order: Array, count: int) -> None:
    """The first `count` places of `order` become a random draw without replacement from it."""
    last = len(order)
    for i in range(min(count, last - 1)):
        j = i + int(uniform(state) * (last - i))
        order[i], order[j] = order[j], order[i]
