"""Training robust models: one loop (`fit`), one file per recipe.

A recipe says what a batch's losses are; the loop does everything else (order, optimiser, progress,
checkpoints, resume, early stopping, seeds). A new defence is a new recipe, or only a new `craft`
for `Adversarial`.
"""

from durometer.training.adversarial import Adversarial, CraftBy
from durometer.training.certified import Certified
from durometer.training.doa import DOATraining
from durometer.training.free import Free
from durometer.training.group import Group, search_kappa
from durometer.training.hardening import Hardened, Unflipped, harden, without_flips
from durometer.training.holdout import holdout
from durometer.training.hull import InHull
from durometer.training.loop import Batch, Epoch, Recipe, accuracy, fit, fresh, recall
from durometer.training.standard import Standard
from durometer.training.trades import TRADES
from durometer.training.weights import balanced

__all__ = [
    "TRADES",
    "Adversarial",
    "Batch",
    "Certified",
    "CraftBy",
    "DOATraining",
    "Epoch",
    "Free",
    "Group",
    "Hardened",
    "InHull",
    "Recipe",
    "Standard",
    "Unflipped",
    "accuracy",
    "balanced",
    "fit",
    "fresh",
    "harden",
    "holdout",
    "recall",
    "search_kappa",
    "without_flips",
]
