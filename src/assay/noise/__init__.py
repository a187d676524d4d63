"""Noise: a measure around each record instead of a set. Marginals tied by a normal correlation
matrix."""

from assay.noise.copula import Copula
from assay.noise.from_data import fit, from_data
from assay.noise.gaussian import Normal
from assay.noise.independent import Independent
from assay.noise.joint import Joint, Noise
from assay.noise.marginal import (
    Confusion,
    Marginal,
    bounded,
    exponential,
    lognormal,
    normal,
    still,
    uniform,
)
from assay.noise.replicates import Repeatability, from_replicates

__all__ = [
    "Confusion",
    "Copula",
    "Independent",
    "Joint",
    "Marginal",
    "Noise",
    "Normal",
    "Repeatability",
    "bounded",
    "exponential",
    "fit",
    "from_data",
    "from_replicates",
    "lognormal",
    "normal",
    "still",
    "uniform",
]
