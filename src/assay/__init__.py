"""assay: how robust is this classifier under the threat it really faces?

    import assay as ay
    report = ay.evaluate(net, data, space=ay.Linf(8 / 255), attack=ay.standard(ay.Linf(8 / 255)))

Names are loaded when first used, so that `import assay` costs milliseconds, not torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay import architectures as architectures
    from assay import datasets as datasets
    from assay import defenses as defenses
    from assay import noise as noise
    from assay import report as report
    from assay import testing as testing
    from assay import training as training
    from assay.attacks.apgd import APGD as APGD
    from assay.attacks.base import Guess as Guess
    from assay.attacks.base import Restarts as Restarts
    from assay.attacks.base import Then as Then
    from assay.attacks.base import Worst as Worst
    from assay.attacks.bfs import BFS as BFS
    from assay.attacks.caa import CAA as CAA
    from assay.attacks.campaign import Campaign as Campaign
    from assay.attacks.capgd import CAPGD as CAPGD
    from assay.attacks.confident import Confident as Confident
    from assay.attacks.cpgd import CPGD as CPGD
    from assay.attacks.cw import CW as CW
    from assay.attacks.doa import DOA as DOA
    from assay.attacks.escalation import Escalation as Escalation
    from assay.attacks.eyeglasses import Eyeglasses as Eyeglasses
    from assay.attacks.fab import FAB as FAB
    from assay.attacks.gmsa import FPA as FPA
    from assay.attacks.gmsa import GMSA as GMSA
    from assay.attacks.gmsa import Transfer as Transfer
    from assay.attacks.graft import Graft as Graft
    from assay.attacks.lowprofool import LowProFool as LowProFool
    from assay.attacks.moeva import MOEVA as MOEVA
    from assay.attacks.orders import Product as Product
    from assay.attacks.orders import by_chance as by_chance
    from assay.attacks.orders import by_md as by_md
    from assay.attacks.orders import by_prior as by_prior
    from assay.attacks.pgd import FGSM as FGSM
    from assay.attacks.pgd import PGD as PGD
    from assay.attacks.square import Square as Square
    from assay.attacks.standard import standard as standard
    from assay.data import Dataset as Dataset
    from assay.errors import AssayError as AssayError
    from assay.errors import Unsupported as Unsupported
    from assay.evaluate import evaluate as evaluate
    from assay.games.nature import Nature as Nature
    from assay.games.static import Static as Static
    from assay.games.transductive import Transductive as Transductive
    from assay.goals import Quota as Quota
    from assay.goals import group as group
    from assay.goals import least_likely as least_likely
    from assay.goals import random_target as random_target
    from assay.goals import targeted as targeted
    from assay.goals import untargeted as untargeted
    from assay.ladder import ladder as ladder
    from assay.losses import ce as ce
    from assay.losses import dlr as dlr
    from assay.losses import margin as margin
    from assay.losses import md as md
    from assay.losses import mdmax as mdmax
    from assay.losses import mdmul as mdmul
    from assay.losses import odds as odds
    from assay.model import wrap as wrap
    from assay.noise.copula import Copula as Copula
    from assay.noise.independent import Independent as Independent
    from assay.noise.marginal import Confusion as Confusion
    from assay.noise.marginal import Marginal as Marginal
    from assay.noise.marginal import exponential as exponential
    from assay.noise.marginal import lognormal as lognormal
    from assay.noise.marginal import normal as normal
    from assay.noise.marginal import still as still
    from assay.noise.marginal import uniform as uniform
    from assay.noise.normal import Normal as Normal
    from assay.problem import Budget as Budget
    from assay.report.report import Report as Report
    from assay.run.run import Run as Run
    from assay.spaces.eyeglasses import eyeglasses as eyeglasses
    from assay.spaces.feature import Feature as Feature
    from assay.spaces.lp import L0 as L0
    from assay.spaces.lp import L1 as L1
    from assay.spaces.lp import L2 as L2
    from assay.spaces.lp import Linf as Linf
    from assay.spaces.mask import Patch as Patch
    from assay.spaces.mask import Rectangle as Rectangle
    from assay.spaces.quantised import Quantised as Quantised
    from assay.spaces.relations import F as F
    from assay.spaces.relations import count as count
    from assay.spaces.relations import divide as divide
    from assay.spaces.relations import floor as floor
    from assay.spaces.relations import implies as implies
    from assay.spaces.relations import log as log
    from assay.spaces.relations import maximum as maximum
    from assay.spaces.relations import minimum as minimum
    from assay.spaces.relations import where as where
    from assay.spaces.schema import Schema as Schema
    from assay.spaces.table import TableSpace as TableSpace


__version__ = "0.1.0"

_HOME = {
    "assay.attacks.apgd": ("APGD",),
    "assay.attacks.base": ("Guess", "Restarts", "Then", "Worst"),
    "assay.attacks.bfs": ("BFS",),
    "assay.attacks.caa": ("CAA",),
    "assay.attacks.campaign": ("Campaign",),
    "assay.attacks.capgd": ("CAPGD",),
    "assay.attacks.confident": ("Confident",),
    "assay.attacks.cpgd": ("CPGD",),
    "assay.attacks.cw": ("CW",),
    "assay.attacks.doa": ("DOA",),
    "assay.attacks.escalation": ("Escalation",),
    "assay.attacks.eyeglasses": ("Eyeglasses",),
    "assay.attacks.fab": ("FAB",),
    "assay.attacks.gmsa": ("FPA", "GMSA", "Transfer"),
    "assay.attacks.graft": ("Graft",),
    "assay.attacks.lowprofool": ("LowProFool",),
    "assay.attacks.moeva": ("MOEVA",),
    "assay.attacks.orders": ("Product", "by_chance", "by_md", "by_prior"),
    "assay.attacks.pgd": ("FGSM", "PGD"),
    "assay.attacks.square": ("Square",),
    "assay.attacks.standard": ("standard",),
    "assay.data": ("Dataset",),
    "assay.errors": ("AssayError", "Unsupported"),
    "assay.evaluate": ("evaluate",),
    "assay.games.nature": ("Nature",),
    "assay.games.static": ("Static",),
    "assay.games.transductive": ("Transductive",),
    "assay.ladder": ("ladder",),
    "assay.goals": ("Quota", "group", "least_likely", "random_target", "targeted", "untargeted"),
    "assay.losses": ("ce", "dlr", "lse", "margin", "md", "mdmax", "mdmul", "odds"),
    "assay.model": ("wrap",),
    "assay.noise.copula": ("Copula",),
    "assay.noise.independent": ("Independent",),
    "assay.noise.marginal": (
        "Confusion",
        "Marginal",
        "exponential",
        "lognormal",
        "normal",
        "still",
        "uniform",
    ),
    "assay.noise.normal": ("Normal",),
    "assay.problem": ("Budget",),
    "assay.report.report": ("Report",),
    "assay.spaces.eyeglasses": ("eyeglasses",),
    "assay.run.run": ("Run",),
    "assay.spaces.lp": ("L0", "L1", "L2", "Linf"),
    "assay.spaces.mask": ("Patch", "Rectangle"),
    "assay.spaces.quantised": ("Quantised",),
    "assay.spaces.relations": (
        "F",
        "count",
        "divide",
        "floor",
        "implies",
        "log",
        "maximum",
        "minimum",
        "where",
    ),
    "assay.spaces.schema": ("Feature", "Schema"),
    "assay.spaces.table": ("TableSpace",),
}
_MODULES = ("architectures", "datasets", "defenses", "noise", "report", "testing", "training")
_WHERE = {name: home for home, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"assay.{name}")
    if name not in _WHERE:
        from assay.errors import nearest

        raise AttributeError(f"assay has no '{name}'{nearest(name, __dir__())}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_WHERE, *_MODULES, "__version__"])


class _Package(ModuleType):
    """Keeps `assay.evaluate` the verb: loading the sub-module of that name would rebind it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _WHERE):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
