"""Monte Carlo for rare label changes, any classifier: draw where labels change, weigh each draw.

In the normal numbers z behind a noise, most draws are nominal, N(0, I); the others come from
N(m, I), with m moved to where labels change (cross-entropy method, Rubinstein 1999), and from a
widened N(0, s^2 I). Each draw weighs p / q with the whole mixture as q (balance heuristic, Veach
1995), so no weight exceeds 1.5 and the mean of weight x change is unbiased.

What a reader would get wrong: the interval has two parts. A few standard errors around the mean
(normal theory, stratified by component), at half of the error level; and, on the side of more
changes only, the mass that the nominal draws could have missed at the other half, about 10 / n. No
number of clever draws excludes a region that nobody has seen: what is gained is a sharp lower bound
on rare changes, and a narrower interval for those of 1e-3 and more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Bools, Floats
from durometer.noise.joint import Noise
from durometer.probability.sampling import generator

SHARES = (0.7, 0.2, 0.1)  # nominal, moved, widened
WIDER = (1.0, 1.5, 2.0, 3.0, 4.0)
ENOUGH = 10  # changes that say where they lie


@dataclass(frozen=True, eq=False)
class Proposal:
    """N(0, I), N(mean, I) and N(0, scale^2 I), drawn by SHARES."""

    mean: Floats
    scale: float

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """(z, component) with fixed counts per component."""
        counts = np.round(n * np.array(SHARES)).astype(np.int64)
        counts[0] = n - counts[1:].sum()
        part = np.repeat(np.arange(3), counts)
        z = rng.standard_normal((n, len(self.mean)))
        z[part == 1] += self.mean
        z[part == 2] *= self.scale
        return z, part

    def weights(self, z: Floats) -> Floats:
        """p / q."""
        square, d = (z**2).sum(axis=1), z.shape[1]
        moved = z @ self.mean - self.mean @ self.mean / 2
        widened = square / 2 * (1 - self.scale**-2) - d * np.log(self.scale)
        log_ratio = np.stack([np.zeros(len(z)), moved, widened], axis=1)
        return np.asarray(np.exp(-scipy.special.logsumexp(log_ratio, axis=1, b=SHARES)))


def importance(
    predict: Callable[[Floats], NDArray[np.int64]],
    noise: Noise,
    x: Floats,
    allowed: Bools,
    ids: Sequence[object],
    *,
    seed: int = 0,
    draws: int = 100_000,
    confidence: float = 0.99,
) -> tuple[Floats, Floats]:
    """(low, high) of P(label in allowed[i]), a fifth of the draws spent on finding changes."""
    if not 0 < confidence < 1 or draws < 1000:
        raise DurometerError(
            f"confidence={confidence}, draws={draws}: expected within (0, 1) and at least 1000"
        )
    bounds = [
        _one(predict, noise, x[i : i + 1], allowed[i], generator(seed, ids[i]), draws, confidence)
        for i in range(len(x))
    ]
    found = np.array(bounds).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _one(
    predict: Callable[[Floats], NDArray[np.int64]],
    noise: Noise,
    x: Floats,
    allowed: Bools,
    rng: np.random.Generator,
    draws: int,
    confidence: float,
) -> tuple[float, float]:
    def changes(z: Floats) -> Bools:
        return ~allowed[predict(noise.place(x, z[None])[0])]

    spent = draws // 5
    proposal = _explore(changes, x.shape[1], rng, spent)
    left = draws - spent
    mean, variance = 0.0, 0.0
    z, part = proposal.draw(left, rng)
    value = np.concatenate(
        [changes(z[a : a + 100_000]) * proposal.weights(z[a : a + 100_000])
         for a in range(0, left, 100_000)]
    )  # fmt: skip
    for k in range(len(SHARES)):
        mine = value[part == k]
        mean += len(mine) / left * float(mine.mean())
        variance += (len(mine) / left) ** 2 * float(mine.var(ddof=1)) / len(mine)
    alpha = (1 - confidence) / 2
    half = float(scipy.special.ndtri(1 - alpha / 2)) * np.sqrt(variance)
    unseen = -np.log(alpha) / int((part == 0).sum())
    return max(1 - (mean + half + unseen), 0.0), min(1 - max(mean - half, 0.0), 1.0)


def _explore(
    changes: Callable[[Floats], Bools], d: int, rng: np.random.Generator, spend: int
) -> Proposal:
    """Widen the noise until labels change, then move its mean towards the likeliest changes."""
    step = spend // (len(WIDER) + 3)
    where, scale = np.zeros((0, d)), WIDER[-1]
    for wide in WIDER:
        z = wide * rng.standard_normal((step, d))
        hit = z[changes(z)]
        if len(hit) > len(where):
            where, scale = hit, wide
        if len(hit) >= ENOUGH:
            break
    if len(where) < ENOUGH:
        return Proposal(np.zeros(d), 2.0)
    mean = where.mean(axis=0)
    for _ in range(3):
        z = mean + rng.standard_normal((step, d))
        hit = z[changes(z)]
        if len(hit) < ENOUGH:
            break
        log_weight = -hit @ mean
        weight = np.exp(log_weight - log_weight.max())
        mean = weight @ hit / weight.sum()
    return Proposal(mean, max(scale, 1.5))
