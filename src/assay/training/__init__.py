"""Training robust models: one loop (`fit`), one file per recipe.

A recipe says what a batch's losses are; the loop does everything else (order, optimiser, progress,
checkpoints, resume, early stopping, seeds). A new defence is a new recipe, or only a new `craft`
for `Adversarial`.
"""

from assay.training.adversarial import Adversarial, CraftBy
from assay.training.certified import Certified
from assay.training.doa import DOATraining
from assay.training.free import Free
from assay.training.group import Group, search_kappa
from assay.training.hardening import Hardened, harden
from assay.training.holdout import holdout
from assay.training.hull import InHull
from assay.training.loop import Batch, Epoch, Recipe, accuracy, fit, fresh, recall
from assay.training.standard import Standard
from assay.training.trades import TRADES
from assay.training.weights import balanced

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
    "accuracy",
    "balanced",
    "fit",
    "fresh",
    "harden",
    "holdout",
    "recall",
    "search_kappa",
]
