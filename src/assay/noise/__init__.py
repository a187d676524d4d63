"""Noise: a measure around each record instead of a set. Marginals tied by a normal correlation
matrix."""

from assay.noise import marginal
from assay.noise.copula import Copula
from assay.noise.estimate import fit, from_data
from assay.noise.independent import Independent
from assay.noise.joint import Joint, Noise
from assay.noise.marginal import (
    Confusion,
    Marginal,
    bounded,
    exponential,
    lognormal,
    still,
    uniform,
)
from assay.noise.normal import Normal

normal = marginal.normal  # after the imports, which bind this name to the module of the same name

__all__ = [
    "Confusion",
    "Copula",
    "Independent",
    "Joint",
    "Marginal",
    "Noise",
    "Normal",
    "bounded",
    "exponential",
    "fit",
    "from_data",
    "lognormal",
    "normal",
    "still",
    "uniform",
]
