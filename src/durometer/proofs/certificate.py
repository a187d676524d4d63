"""Certificates: what somebody else needs to check a proof, as one list of numbers for each row.

    1, digest of the row, digest of the trees
    constraints: how many; of each: bound, terms
        terms: how many; of each: feature, phi, a, sets (how many; of each: low, high)
    targets: how many; of each: the class, then the tree of cuts, parts before what follows them
        0                  no valid point fits in here
        1, f, t            the part with x_f <= t follows, then the one with x_f > t
        2, rival, grid,    the rival stays ahead of the target, by
           multipliers: how many; of each: constraint, value
           potentials: how many; of each: tree, feature, pieces, places of the thresholds between
                       them, values / grid
        3                  every tree has one leaf here, and their sum misses the goal

The checker (`verification/certificate.py`) knows this format and no code of the search.
"""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from durometer.kernels.arrays import Array, Bools, Floats
from durometer.proofs.search.constraint import Constraint
from durometer.trees.ensemble import Ensemble

VERSION = 1.0


def encode_certificate(
    ensemble: Ensemble, x0: Floats, constraints: list[Constraint], proofs: list[Floats],
    proven: Bools,
) -> tuple[bytes | None, ...]:  # fmt: skip
    """The certificates of proven rows; None where there is none, or none that is small enough."""
    trees = digest(ensemble.feature, ensemble.threshold, ensemble.left, ensemble.right,
                   ensemble.value, ensemble.roots, ensemble.base)  # fmt: skip

    def written(i: int, proof: np.ndarray) -> bytes:
        numbers = [VERSION, digest(x0[i]), trees, *_describe(constraints, i), *proof]
        return pack_certificate(np.array(numbers))

    return tuple(
        written(i, proof)
        if proven[i] and len(proof) else None
        for i, proof in enumerate(proofs)
    )  # fmt: skip


def digest(*arrays: Array) -> float:
    """A whole number that a float64 holds."""
    whole = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return float(int.from_bytes(whole.digest()[:6], "little"))


def pack_certificate(numbers: Floats) -> bytes:
    """Compressed, with the bytes of equal weight side by side."""
    return zlib.compress(np.frombuffer(numbers.tobytes(), np.uint8).reshape(-1, 8).T.tobytes(), 6)


def _describe(constraints: list[Constraint], i: int) -> list[float]:
    """What the proof of row i assumes of a valid point, beside the bounds of each feature."""
    out: list[float] = [len(constraints)]
    for c in constraints:
        terms = [t for t in c.terms if t.a[i] != 0]
        out += [min(float(c.outer[i]), 1e300), len(terms)]
        for t in terms:
            sets = np.zeros((0, 4)) if t.sets is None else t.sets[i]
            out += [t.feature, t.phi, float(t.a[i]), len(sets), *sets[:, :2].ravel().tolist()]
    return out
