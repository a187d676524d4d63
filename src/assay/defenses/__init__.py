"""Test-time defences: defenders for `ay.Transductive`. One file each; published parameters."""

from assay.defenses.adapting import Adapting
from assay.defenses.control import Control
from assay.defenses.dann import DANN
from assay.defenses.dent import DENT
from assay.defenses.norm import MedBN, Norm
from assay.defenses.purify import Purify
from assay.defenses.randomised import Randomised
from assay.defenses.rmc import RMC
from assay.defenses.tadv import TADV
from assay.defenses.tent import TENT
from assay.defenses.urejectron import URejectron

__all__ = [
    "DANN",
    "DENT",
    "RMC",
    "TADV",
    "TENT",
    "Adapting",
    "Control",
    "MedBN",
    "Norm",
    "Purify",
    "Randomised",
    "URejectron",
]
