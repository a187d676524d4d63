"""Trees: any library's ensemble as flat arrays, and exact or certified label probabilities under
noise."""

from assay.trees.ensemble import Ensemble
from assay.trees.readers import read

__all__ = ["Ensemble", "read"]
