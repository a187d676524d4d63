"""Trees: any library's ensemble as flat arrays, and exact or certified label probabilities under
noise."""

from durometer.trees.ensemble import Ensemble
from durometer.trees.readers import read

__all__ = ["Ensemble", "read"]
