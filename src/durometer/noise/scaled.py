"""The same noise, louder or quieter, or with a drift: what `Nature.breakdown_noise_level` turns
up; and with one feature switched off: what `Nature.importance` compares with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Joint, Noise, Part
from durometer.noise.marginal import Marginal, Mixture, no_noise

LOCATED = ("norm", "uniform", "expon", "laplace", "logistic", "gumbel_r", "gumbel_l")


class Scaled(Joint):
    """A noise whose errors are `by` times as large and moved by `drift` of their standard
    deviations, in the features `places` (None: in all)."""

    def __init__(
        self, noise: Noise, by: float, drift: float = 0.0, places: Collection[int] | None = None
    ) -> None:
        self.noise, self.by, self.drift, self.places = noise, by, drift, places

    def __repr__(self) -> str:
        return f"Scaled({self.noise!r}, {self.by}, {self.drift}, {self.places})"

    def marginals(self, features: int) -> tuple[Part, ...]:
        return tuple(
            part
            if part.no_noise or (self.places is not None and f not in self.places)
            else _scaled(f, part, self.by, self.drift)
            for f, part in enumerate(self.noise.marginals(features))
        )

    def correlation(self, features: int) -> Floats | None:
        return self.noise.correlation(features)


def _scaled(feature: int, part: Part, by: float, drift: float) -> Part:
    if isinstance(part, Mixture):
        parts = (_scaled(feature, each, by, drift) for each in part.parts)
        return replace(part, parts=tuple(p for p in parts if isinstance(p, Marginal)))
    if not (isinstance(part, Marginal) and part.name in LOCATED and len(part.params) == 2):
        raise Unsupported(
            f"feature {feature}: {part!r} has no level to turn up; additive noise of the families "
            f"{', '.join(LOCATED)} has"
        )
    if part.how != "add":
        raise Unsupported(f"feature {feature}: how={part.how!r}; only additive noise has a level")
    location, scale = part.params
    sd = scale if part.name == "norm" else scale * SDS[part.name]
    return replace(part, params=(by * location + drift * sd, by * scale))


SDS = {
    "uniform": 12**-0.5,
    "expon": 1.0,
    "laplace": 2**0.5,
    "logistic": float(np.pi / 3**0.5),
    "gumbel_r": float(np.pi / 6**0.5),
    "gumbel_l": float(np.pi / 6**0.5),
}  # standard deviations at scale 1


def scaled(
    noise: Noise,
    features: int,
    by: float,
    drift: float = 0.0,
    places: Collection[int] | None = None,
) -> Noise:
    """The noise at another level; checked at once, so that an error names the feature."""
    found = Scaled(noise, by, drift, places)
    found.marginals(features)
    return found


class WithoutNoise(Joint):
    """A noise whose feature `feature` reads exactly; its ties to the others are cut."""

    def __init__(self, noise: Noise, feature: int) -> None:
        self.noise, self.feature = noise, feature

    def __repr__(self) -> str:
        return f"WithoutNoise({self.noise!r}, {self.feature})"

    def marginals(self, features: int) -> tuple[Part, ...]:
        parts = list(self.noise.marginals(features))
        parts[self.feature] = no_noise()
        return tuple(parts)

    def correlation(self, features: int) -> Floats | None:
        matrix = self.noise.correlation(features)
        if matrix is None:
            return None
        matrix = matrix.copy()
        matrix[self.feature, :] = matrix[:, self.feature] = 0.0
        matrix[self.feature, self.feature] = 1.0
        return None if np.abs(matrix - np.eye(features)).max() < 1e-15 else matrix


def without_noise(noise: Noise, feature: int, features: int) -> Noise:
    """The noise without this feature's part."""
    return (
        WithoutNoise(noise, feature) if not noise.marginals(features)[feature].no_noise else noise
    )
