"""Probability: how likely a decision stays under noise, and the paper's own way to count it."""

from durometer.probability.enumeration import boxes
from durometer.probability.methods import Boxes

__all__ = ["Boxes", "boxes"]
