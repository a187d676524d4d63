"""Trees: any library's ensemble as flat arrays, and exact or certified label probabilities under
noise."""

from assay.trees.ensemble import Ensemble
from assay.trees.exact import Probability, distribution, inside, probability
from assay.trees.readers import read

__all__ = ["Ensemble", "Probability", "distribution", "inside", "probability", "read"]
