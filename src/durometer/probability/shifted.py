"""Noise and adversary together: how low may a probability fall if somebody shifts the input first?

If the reading is x + d + e with normal e, a probability p at d = 0 is at least Phi(Phi^-1(p) - s)
for every shift of |d| <= s standard deviations, whatever the set of readings it is the probability
of (Neyman-Pearson; Cohen, Rosenfeld & Kolter 2019). A certified p makes that a certificate without
draws: deterministic smoothing for boosted trees and forests. Uniform noise of width w loses at most
the total variation between the two boxes, 1 - prod(1 - |d_f| / w_f) (Yang et al. 2020).

What a reader would get wrong: the length of a shift is measured in the noise's own units. A ball of
radius r is r / sd of the *quietest* feature, and of the least eigenvalue if the noise is
correlated; a feature without noise cannot be shifted at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Noise
from durometer.noise.marginal import Marginal

ROUNDING = 1e-12


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
        moved = special.ndtr(special.ndtri(np.clip(low, 0.0, 1.0)) - self.sds)
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
    ahead = (special.ndtri(np.clip(low, 0, 1)) - special.ndtri(np.clip(rival, 0, 1))) / 2
    return np.maximum(np.nan_to_num(ahead, nan=0.0, posinf=np.inf), 0.0)


def _uniform(part: object) -> bool:
    return (
        isinstance(part, Marginal)
        and (part.name, part.how, part.integer) == ("uniform", "add", False)
        and (part.low, part.high) == (-math.inf, math.inf)
    )
