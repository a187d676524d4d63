"""The same noise with one feature switched off: what `Nature.importance` compares with."""

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.noise.joint import Joint, Noise, Part
from durometer.noise.marginal import no_noise


class WithoutNoise(Joint):
    """A noise whose feature `feature` reads exactly; its ties to the others are cut."""

    def __init__(self, noise: Noise, feature: int) -> None:
        self.noise, self.feature = noise, feature

    def __repr__(self) -> str:
        return f"Silenced({self.noise!r}, {self.feature})"

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
