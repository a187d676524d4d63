"""Noise and adversary together: how low may a probability fall if somebody shifts the input first?

If the reading is x + d + e with normal e, a probability p at d = 0 is at least Phi(Phi^-1(p) - s)
for every shift of |d| <= s standard deviations, whatever the set of readings it is the probability
of (Neyman-Pearson; Cohen, Rosenfeld & Kolter 2019). A certified p makes that a certificate without
draws: deterministic smoothing for boosted trees and forests. Uniform noise of width w loses at most
the total variation between the two boxes, 1 - prod(1 - |d_f| / w_f) (Yang et al. 2020).

What a reader would get wrong: the length of a shift is measured in the noise's own units. A ball of
radius r is r / sd of the *quietest* feature, and of the least eigenvalue if the noise is
correlated; a feature without noise cannot be shifted at all.

The other side, `worst_shifts`: look for the shift that lowers the probability most.

The noise is widened until some answers change; the shift goes from the record towards their mean,
as far as the region lets it, and again from there. Beside that path `DIRECTIONS` random shifts are
looked at, and `NEARBY` more around the best so far, all with the same random numbers, so that their
difference is one of places and not of luck. What it finds is only where to look: the probability
there is the game's own, exact or certified where the model is trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
import torch

from durometer.core.errors import Unsupported
from durometer.core.streams import Stream, keys
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.noise.joint import Noise
from durometer.noise.marginal import Marginal
from durometer.probability.sampling import generator
from durometer.probability.sequential import (
    Enough,
    Found,
    class_counts,
    confidence_sequence,
    sequential,
)
from durometer.spaces.lp import Lp
from durometer.spaces.region import Region

ROUNDING = 1e-12
SELECTION = 100  # draws that say which class may be the likeliest, as in Cohen et al.
AT_LEAST = 1e-9  # sds beyond a radius that was asked for: the way to a level and back rounds
Predict = Callable[[Floats], Ints]

# The search for the worst shift
DRAWS, TURNS = 1000, 4
DIRECTIONS, NEARBY = 24, 24
CANDIDATES = 3  # of trees: places whose probability is bounded; the least of them counts
WIDER = (1.0, 2.0, 4.0)
SEARCH = DRAWS * ((TURNS + 1) * len(WIDER) + DIRECTIONS + NEARBY)  # queries a record
CHUNK = 200_000  # readings at a time


@dataclass(frozen=True)
class Shift:
    """The worst shift of a ball: `sds` standard deviations of normal noise, or a total variation
    `lost` of uniform noise."""

    sds: float | None
    lost: float | None

    def worst(self, low: Floats) -> Floats:
        """A lower bound on the probability after any shift.

        >>> float(Shift(sds=1.0, lost=None).worst(np.array([0.975]))[0].round(4))
        0.8315
        """
        if self.sds is None:
            return np.maximum(low - float(self.lost or 0.0), 0.0)
        moved = scipy.special.ndtr(scipy.special.ndtri(np.clip(low, 0.0, 1.0)) - self.sds)
        return np.asarray(np.maximum(moved - ROUNDING, 0.0))


def adversarial_shift(noise: Noise, features: int, p: float | None, eps: float) -> Shift:
    """The worst shift of the `p` ball of radius `eps` under this noise."""
    if p not in (1.0, 2.0, math.inf):
        raise Unsupported(f"p={p}: noise is shifted within L1, L2 or Linf balls")
    parts = noise.marginals(features)
    if all(isinstance(m, Marginal) and m.plain for m in parts):
        return Shift(_sds(covariance(noise, features), p, eps), None)
    if noise.correlation(features) is None and all(_uniform(m) for m in parts):
        width = np.array([m.params[1] for m in parts if isinstance(m, Marginal)])
        inside = np.clip(1 - eps / width, 0.0, 1.0)
        lost = {
            1.0: 1 - inside.min(),
            2.0: min(eps * float(np.sqrt((width**-2.0).sum())), 1.0),
            math.inf: 1 - np.prod(inside),
        }[p]
        return Shift(None, float(lost))
    odd = next(f for f, m in enumerate(parts) if not (isinstance(m, Marginal) and m.plain))
    raise Unsupported(
        f"a shift under this noise: feature {odd} has {parts[odd]!r}; certified are unbounded "
        "normal noise on every feature, and independent uniform noise"
    )


def covariance(noise: Noise, features: int) -> Floats:
    """Of normal noise on every feature."""
    sd = np.array([m.params[1] for m in noise.marginals(features) if isinstance(m, Marginal)])
    tied = noise.correlation(features)
    return np.outer(sd, sd) * (np.eye(features) if tied is None else tied)


def _sds(cov: Floats, p: float, eps: float) -> float:
    """The largest |d| in units of the noise, over the ball."""
    quietest = float(np.linalg.eigvalsh(cov).min())
    if not quietest > 0:
        raise Unsupported("a shift under singular noise: some direction has no noise at all")
    if p == 2.0:
        return eps / math.sqrt(quietest)
    if p == 1.0:
        return eps * math.sqrt(float(np.diag(np.linalg.inv(cov)).max()))
    if np.array_equal(cov, np.diag(np.diag(cov))):
        return eps * math.sqrt(float((1 / np.diag(cov)).sum()))
    return eps * math.sqrt(len(cov) / quietest)


def radius(low: Floats, rival: Floats) -> Floats:
    """The shift, in standard deviations, up to which a class of probability at least `low` stays
    ahead of others of at most `rival` each; 0 where it is not known to be ahead."""
    ahead = (
        scipy.special.ndtri(np.clip(low, 0, 1)) - scipy.special.ndtri(np.clip(rival, 0, 1))
    ) / 2
    return np.maximum(np.nan_to_num(ahead, nan=0.0, posinf=np.inf), 0.0)


def _uniform(part: object) -> bool:
    return (
        isinstance(part, Marginal)
        and (part.name, part.how, part.integer) == ("uniform", "add", False)
        and (part.low, part.high) == (-math.inf, math.inf)
    )


def certified_radii(low: Floats, high: Floats) -> tuple[Ints, Floats]:
    """Labels, and how far they stay the likeliest, in standard deviations."""
    label, rows = low.argmax(axis=1), np.arange(len(low))
    best, rivals = low[rows, label], high.copy()
    rivals[rows, label] = -np.inf
    return label, radius(best, np.minimum(rivals.max(axis=1), 1 - best))


def sampled_radii(
    predict: Predict,
    noise: Noise,
    x: Floats,
    classes: int,
    ids: Sequence[object],
    *,
    seed: int,
    at: float | None,
    precision: float,
    most: int,
    confidence: float,
) -> tuple[Ints, Floats, Ints]:
    """Labels, radii in standard deviations, and draws: randomised smoothing of any model (Cohen et
    al. 2019), with a confidence sequence in place of their one interval.

    A first few draws of their own choose the class. The others bound its probability, and stop
    when it is known whether the radius `at` is reached, or, without one, when all `most` draws
    would add no more than the share `precision` to the radius at the present rate.
    """
    rows, first = np.arange(len(x)), min(SELECTION, most)
    chosen = Stream(seed, keys(np.asarray(ids)), purpose="smoothing: which class")
    label = class_counts(predict, noise, x, classes, chosen, rows, first).argmax(axis=1)
    threshold = None if at is None else float(scipy.special.ndtr(at + AT_LEAST))
    left = max(most - first, 1)
    found = sequential(
        predict, noise, x, np.eye(classes, dtype=bool)[label], ids, seed=seed, threshold=threshold,
        enough=_radius_known(threshold, precision, left, confidence), most=left,
        confidence=confidence, purpose="smoothing: how likely",
    )  # fmt: skip
    return label, np.maximum(scipy.special.ndtri(found.low), 0.0), found.draws + first


def _radius_known(
    threshold: float | None, precision: float, most: int, confidence: float
) -> Enough:
    def enough(rows: Ints, found: Found) -> Bools:
        hopeless = found.high <= 0.5  # no radius at all, whatever comes
        if threshold is not None:
            return hopeless | found.decided(threshold)
        share = found.hits / found.draws
        ahead = np.rint(share * most).astype(np.int64)
        reach, _ = confidence_sequence(ahead, np.full(len(rows), most), confidence)
        now, then = (np.maximum(scipy.special.ndtri(end), 0.0) for end in (found.low, reach))
        return hopeless | ((now > 0) & (now >= (1 - precision) * then) & (precision > 0))

    return enough


def finer_width(gap: Floats, best: Floats, like: int, asked: float) -> Floats:
    """The width to ask for next, in powers of 4 so that records are asked together; infinite where
    nothing more is wanted, or the budget ended before the width `asked` for was reached."""
    wanted = np.sqrt(np.maximum(best * (1 - best), 1 / like) / like)
    finer = 4.0 ** np.floor(np.log(wanted) / np.log(4.0))
    return np.where((gap <= wanted) | (gap > 1.01 * asked), np.inf, finer)


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


def worst_shifts(
    predict: Predict,
    noise: Noise,
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
        _some(predict, noise, region.take(torch.arange(a, min(a + size, len(x)))), x[a : a + size],
              stays[a : a + size], streams[a : a + size])
        for a in range(0, len(x), size)
    ]  # fmt: skip
    return np.concatenate(parts, axis=1) if parts else np.tile(x, (CANDIDATES, 1, 1))


class _Search:
    """The places looked at so far, and the worst of them."""

    def __init__(
        self, predict: Predict, noise: Noise, region: Region, x: Floats, stays: Bools,
        streams: Sequence[np.random.Generator],
    ) -> None:  # fmt: skip
        self.predict, self.noise, self.region = predict, noise, region
        self.x, self.stays = x, stays
        self.streams = streams
        self.numbers = np.stack([r.standard_normal((DRAWS, x.shape[1])) for r in streams])
        self.places = np.tile(x, (CANDIDATES, 1, 1))
        self.shares = np.full((CANDIDATES, len(x)), np.inf)

    def changed(self, here: Floats, wide: float) -> tuple[Bools, Floats]:
        """Which readings change the answer, (n, DRAWS), and how far each lies from `here`."""
        away = wide * (self.noise.place(here, self.numbers) - here[:, None])
        readings = (here[:, None] + away).reshape(-1, here.shape[1])
        label = self.predict(readings).reshape(len(here), DRAWS)
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
    predict: Predict,
    noise: Noise,
    region: Region,
    x: Floats,
    stays: Bools,
    streams: Sequence[np.random.Generator],
) -> Floats:
    search = _Search(predict, noise, region, x, stays, streams)
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
            close = 0.05 ** ((turn - DIRECTIONS) / NEARBY)
            direction = _unit(search.places[0] - x) + close * direction
        here = search.towards(x, direction)
        search.keep(here, search.changed(here, 1.0)[0])
    return search.places
