"""Scrambled Sobol points, fast enough not to be what an estimate waits for.

The direction numbers are scipy's (Joe & Kuo); each scrambling is a random lower triangular matrix
over the bits and a random shift (Matousek 1998), as scipy does it, but a point costs one exclusive
or per dimension here. Points of one scrambling are uniform one by one and spread evenly together.
"""

# mypy: disable-error-code="no-untyped-def"

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from assay.kernels.compile import kernel

BITS = 30
LONGEST = 22  # at most 2 ** LONGEST points of a sequence
Bits = NDArray[np.int64]


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


@kernel
def stretch(direction, shift, seen, n):
    """Points seen .. seen + n of a sequence, (d, n) numbers inside (0, 1)."""
    d = shift.shape[0]
    out = np.empty((d, n))
    scale = 1.0 / (1 << 30)
    for j in range(d):
        code, x, k = seen ^ (seen >> 1), shift[j], 0
        while code > 0:
            if code & 1:
                x ^= direction[j, k]
            code >>= 1
            k += 1
        for i in range(n):
            out[j, i] = (x + 0.5) * scale
            rest, k = seen + i + 1, 0
            while rest & 1 == 0:
                rest >>= 1
                k += 1
            x ^= direction[j, k]
    return out
