"""Scrambled Sobol points, fast enough not to be what an estimate waits for.

The direction numbers are scipy's (Joe & Kuo); each scrambling is a random lower triangular matrix
over the bits and a random shift (Matousek 1998), as scipy does it, but a point costs one exclusive
or per dimension here. Points of one scrambling are uniform one by one and spread evenly together.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from durometer.kernels.arrays import Floats
from durometer.kernels.native import Kernel

BITS = 30
LONGEST = 22  # at most 2 ** LONGEST points of a sequence
Bits = NDArray[np.int64]
_sobol = Kernel(
    "sobol",
    d="size",
    bits="size",
    n="size",
    direction="int64[d, bits]",
    shift="int64[d]",
    seen="int64",
    out="out float64[d, n]",
)


@lru_cache(maxsize=16)
def directions(d: int) -> Bits:
    """(d, LONGEST) direction numbers as integers of BITS bits."""
    found = np.zeros((d, LONGEST), dtype=np.int64)
    sequence = stats.qmc.Sobol(d, scramble=False, bits=BITS)
    before, seen = np.zeros(d, dtype=np.int64), 0
    for k in range(LONGEST):  # point 2^k differs from the one before it by direction k
        sequence.fast_forward((1 << k) - seen)
        point = (sequence.random(1)[0] * 2.0**BITS).astype(np.int64)
        seen = (1 << k) + 1
        found[:, k] = point ^ before
        before = found[:, k]  # Gray code: point 2^(k+1) - 1 is direction k alone
    return found


def scrambled(d: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
    """(directions, shift) of one random scrambling."""
    place = np.arange(BITS)
    # every bit is mixed with a random choice of the higher ones
    mask = rng.integers(0, 2**BITS, (d, BITS)) >> (place + 1) << (place + 1) | 1 << place
    mixed = np.bitwise_count(mask[:, None, :] & directions(d)[:, :, None]) & 1
    return (mixed.astype(np.int64) << place).sum(axis=2), rng.integers(0, 2**BITS, d)


def stretch(direction: Bits, shift: Bits, seen: int, n: int) -> Floats:
    """Points seen .. seen + n of a sequence, (d, n) numbers inside (0, 1)."""
    out = np.empty((len(shift), n))
    _sobol(direction, shift, seen, out)
    return out
