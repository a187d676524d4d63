"""The other side of a shifted noise: look for the shift that lowers the probability most.

The noise is widened until some answers change; the shift goes from the record towards their mean,
as far as the region lets it, and again from there. What it finds is only where to look: the
probability there is the game's own, exact or certified where the model is trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from assay.errors import Unsupported
from assay.kernels.arrays import Bools, Floats
from assay.probability.methods import Probability
from assay.probability.sampling import generator
from assay.probability.shifted import shift
from assay.spaces.lp import Lp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.games.nature import Nature
    from assay.noise.joint import Noise
    from assay.spaces.region import Region

DRAWS, TURNS = 1000, 4
WIDER = (1.0, 2.0, 4.0)
CHUNK = 200_000  # readings at a time


def check_shift(noise: Noise, space: object, x: Floats) -> None:
    """Refuse a space that noise cannot be shifted in, before anything is played."""
    if not isinstance(space, Lp):
        raise Unsupported(
            f"space={space!r}: noise is shifted within an Lp ball, e.g. "
            "ay.L2(0.1, low=-np.inf, high=np.inf)"
        )
    if not isinstance(space.eps, int | float):
        raise Unsupported(f"space={space!r}: noise is shifted by one eps, not by one per feature")
    space.check(torch.from_numpy(x))
    shift(noise, x.shape[1], space.p, space.eps)


def shifted(
    nature: Nature,
    found: Probability,
    x: Floats,
    stays: Bools,
    ids: Sequence[object],
    space: Lp,
    seed: int,
) -> Probability:
    """The least probability over all shifts of the space: bounded from below, and from above by the
    worst shift that the search found."""
    low = shift(nature.noise, x.shape[1], space.p, space.eps).worst(found.low)
    region = space.around(torch.from_numpy(x))
    there = nature.probability(worst_shift(nature, region, x, stays, ids, seed), stays, ids, seed)
    high = np.maximum(np.minimum(found.high, there.high), low)
    return Probability(low, high, found.kind)


def worst_shift(
    nature: Nature,
    region: Region,
    x: Floats,
    stays: Bools,
    ids: Sequence[object],
    seed: int,
) -> Floats:
    """Where each record's answer is least likely to stay, of the places that were looked at."""
    streams = [generator(seed + 1, i) for i in ids]
    size = max(1, CHUNK // DRAWS)
    parts = [
        _some(nature, region.take(torch.arange(a, min(a + size, len(x)))), x[a : a + size],
              stays[a : a + size], streams[a : a + size])
        for a in range(0, len(x), size)
    ]  # fmt: skip
    return np.concatenate(parts) if parts else x


def _some(
    nature: Nature,
    region: Region,
    x: Floats,
    stays: Bools,
    streams: Sequence[np.random.Generator],
) -> Floats:
    best, least = x.copy(), np.full(len(x), np.inf)
    here = x.copy()
    for _ in range(TURNS + 1):
        towards = np.zeros_like(x)
        found = np.zeros(len(x), dtype=bool)
        for wide in WIDER:
            drawn = np.concatenate(
                [nature.noise.sample(here[i : i + 1], DRAWS, streams[i]) for i in range(len(x))]
            )
            readings = here[:, None] + wide * (drawn - here[:, None])
            label = nature.predict(readings.reshape(-1, x.shape[1])).reshape(len(x), DRAWS)
            changed = ~np.take_along_axis(stays, label, axis=1)
            if wide == 1.0:
                share = 1 - changed.mean(axis=1)
                better = share < least
                best[better], least[better] = here[better], share[better]
            some = changed.any(axis=1) & ~found
            total = np.einsum("ij,ijk->ik", changed, readings - here[:, None])
            towards[some] = (total / np.maximum(changed.sum(axis=1), 1)[:, None])[some]
            found |= some
        ahead = torch.from_numpy(here + 1e3 * towards)  # far enough: the region brings it back
        here = region.decode(region.project(ahead)).numpy().reshape(x.shape)
    return best
