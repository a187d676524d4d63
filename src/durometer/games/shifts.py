"""The other side of a shifted noise: look for the shift that lowers the probability most.

The noise is widened until some answers change; the shift goes from the record towards their mean,
as far as the region lets it, and again from there. Beside that path `DIRECTIONS` random shifts are
looked at, and `NEARBY` more around the best so far, all with the same random numbers, so that their
difference is one of places and not of luck. What it finds is only where to look: the probability
there is the game's own, exact or certified where the model is trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Bools, Floats
from durometer.probability.methods import Probability
from durometer.probability.sampling import generator
from durometer.probability.shifted import adversarial_shift
from durometer.spaces.lp import Lp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durometer.games.nature import Nature
    from durometer.noise.joint import Noise
    from durometer.spaces.region import Region

DRAWS, TURNS = 1000, 4
DIRECTIONS, NEARBY = 24, 24
CANDIDATES = 3  # of trees: places whose probability is bounded; the least of them counts
WIDER = (1.0, 2.0, 4.0)
SEARCH = DRAWS * ((TURNS + 1) * len(WIDER) + DIRECTIONS + NEARBY)  # queries a record
CHUNK = 200_000  # readings at a time


def check_shift(noise: Noise, space: object, x: Floats) -> None:
    """Refuse a space that noise cannot be shifted in, before anything is played."""
    if not isinstance(space, Lp):
        raise Unsupported(
            f"space={space!r}: noise is shifted within an Lp ball, e.g. "
            "du.L2(0.1, low=-np.inf, high=np.inf)"
        )
    if not isinstance(space.eps, int | float):
        raise Unsupported(f"space={space!r}: noise is shifted by one eps, not by one per feature")
    space.check(torch.from_numpy(x))
    adversarial_shift(noise, x.shape[1], space.p, space.eps)


def with_shift(
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
    low = adversarial_shift(nature.noise, x.shape[1], space.p, space.eps).worst(found.low)
    region = space.around(torch.from_numpy(x))
    places = worst_shifts(nature, region, x, stays, ids, seed)
    high, queries = found.high, found.queries
    if not nature.reads_trees:  # of several sampled intervals the lowest is too often too low
        places = places[:1]
        queries = queries + SEARCH
    for place in places:
        there = nature.probability(place, stays, ids, seed)
        high, queries = np.minimum(high, there.high), queries + there.queries
    return Probability(low, np.maximum(high, low), found.kind, queries=queries)


def worst_shifts(
    nature: Nature,
    region: Region,
    x: Floats,
    stays: Bools,
    ids: Sequence[object],
    seed: int,
) -> Floats:
    """Where each record's answer is least likely to stay, of the places that were looked at, the
    worst first: (`CANDIDATES`, n, d)."""
    streams = [generator(seed + 1, i) for i in ids]
    size = max(1, CHUNK // DRAWS)
    parts = [
        _some(nature, region.take(torch.arange(a, min(a + size, len(x)))), x[a : a + size],
              stays[a : a + size], streams[a : a + size])
        for a in range(0, len(x), size)
    ]  # fmt: skip
    return np.concatenate(parts, axis=1) if parts else np.tile(x, (CANDIDATES, 1, 1))


class _Search:
    """The places looked at so far, and the worst of them."""

    def __init__(
        self, nature: Nature, region: Region, x: Floats, stays: Bools,
        streams: Sequence[np.random.Generator],
    ) -> None:  # fmt: skip
        self.nature, self.region, self.x, self.stays = nature, region, x, stays
        self.streams = streams
        self.numbers = np.stack([r.standard_normal((DRAWS, x.shape[1])) for r in streams])
        self.places = np.tile(x, (CANDIDATES, 1, 1))
        self.shares = np.full((CANDIDATES, len(x)), np.inf)

    def changed(self, here: Floats, wide: float) -> tuple[Bools, Floats]:
        """Which readings change the answer, (n, DRAWS), and how far each lies from `here`."""
        away = wide * (self.nature.noise.place(here, self.numbers) - here[:, None])
        readings = (here[:, None] + away).reshape(-1, here.shape[1])
        label = self.nature.predict(readings).reshape(len(here), DRAWS)
        return ~np.take_along_axis(self.stays, label, axis=1), away

    def keep(self, here: Floats, changed: Bools) -> None:
        share = 1 - changed.mean(axis=1)
        shares = np.concatenate([self.shares, share[None]])
        places = np.concatenate([self.places, here[None]])
        order = np.argsort(shares, axis=0, kind="stable")[:CANDIDATES]
        self.shares = np.take_along_axis(shares, order, axis=0)
        self.places = np.take_along_axis(places, order[..., None], axis=0)

    def towards(self, start: Floats, direction: Floats) -> Floats:
        """As far as the region lets a shift go in this direction."""
        ahead = torch.from_numpy(start + 1e3 * direction)
        return self.region.decode(self.region.project(ahead)).numpy().reshape(start.shape)

    def directions(self) -> Floats:
        drawn = np.stack([r.standard_normal(self.x.shape[1]) for r in self.streams])
        return _unit(drawn)


def _unit(v: Floats) -> Floats:
    return np.asarray(v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300))


def _some(
    nature: Nature,
    region: Region,
    x: Floats,
    stays: Bools,
    streams: Sequence[np.random.Generator],
) -> Floats:
    search = _Search(nature, region, x, stays, streams)
    here = x.copy()
    for _ in range(TURNS + 1):
        towards = np.zeros_like(x)
        found = np.zeros(len(x), dtype=bool)
        for wide in WIDER:
            changed, away = search.changed(here, wide)
            if wide == 1.0:
                search.keep(here, changed)
            some = changed.any(axis=1) & ~found
            total = np.einsum("ij,ijk->ik", changed, away)
            towards[some] = (total / np.maximum(changed.sum(axis=1), 1)[:, None])[some]
            found |= some
        here = search.towards(here, towards)
    for turn in range(DIRECTIONS + NEARBY):
        direction = search.directions()
        if turn >= DIRECTIONS:  # ever nearer to the best
            close = 1.0 - 0.75 * (turn - DIRECTIONS) / NEARBY
            direction = _unit(search.places[0] - x) + close * direction
        here = search.towards(x, direction)
        search.keep(here, search.changed(here, 1.0)[0])
    return search.places
