"""Test-time defences: defenders for `du.Transductive`. One file each; published parameters."""

from durometer.defenses.adapting import Adapting
from durometer.defenses.control import Control
from durometer.defenses.dann import DANN
from durometer.defenses.dent import DENT
from durometer.defenses.in_context import InContext
from durometer.defenses.norm import MedBN, Norm
from durometer.defenses.purify import Purify
from durometer.defenses.randomised import Randomised
from durometer.defenses.rmc import RMC
from durometer.defenses.tadv import TADV
from durometer.defenses.tent import TENT
from durometer.defenses.urejectron import URejectron

__all__ = [
    "DANN",
    "DENT",
    "RMC",
    "TADV",
    "TENT",
    "Adapting",
    "Control",
    "InContext",
    "MedBN",
    "Norm",
    "Purify",
    "Randomised",
    "URejectron",
]
