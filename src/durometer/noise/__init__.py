"""Noise: a measure around each record instead of a set. Marginals tied by a normal correlation
matrix."""

from durometer.noise.copula import Copula
from durometer.noise.from_data import fit, from_data
from durometer.noise.gaussian import Normal
from durometer.noise.independent import Independent
from durometer.noise.joint import Joint, Noise
from durometer.noise.marginal import (
    Confusion,
    Marginal,
    Mixture,
    bounded,
    exponential,
    lognormal,
    no_noise,
    normal,
    uniform,
)
from durometer.noise.replicates import Repeatability, from_replicates

__all__ = [
    "Confusion",
    "Copula",
    "Independent",
    "Joint",
    "Marginal",
    "Mixture",
    "Noise",
    "Normal",
    "Repeatability",
    "bounded",
    "exponential",
    "fit",
    "from_data",
    "from_replicates",
    "lognormal",
    "no_noise",
    "normal",
    "uniform",
]
