"""assay: how robust is this classifier under the threat it really faces?

    import assay as ay
    report = ay.evaluate(net, data, space=ay.Linf(8 / 255), attack=ay.standard(ay.Linf(8 / 255)))

Names are loaded when first used, so that `import assay` costs milliseconds, not torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay import datasets, report, testing
    from assay.attacks.apgd import APGD
    from assay.attacks.base import Guess, Restarts, Then, Worst
    from assay.attacks.cw import CW
    from assay.attacks.fab import FAB
    from assay.attacks.pgd import FGSM, PGD
    from assay.attacks.square import Square
    from assay.attacks.standard import standard
    from assay.data import Dataset
    from assay.errors import AssayError, Unsupported
    from assay.evaluate import evaluate
    from assay.games.static import Static
    from assay.goals import group, least_likely, targeted, untargeted
    from assay.losses import ce, dlr, margin, md, mdmax, mdmul, odds
    from assay.model import wrap
    from assay.problem import Budget
    from assay.report.report import Report
    from assay.spaces.lp import L0, L1, L2, Linf

__version__ = "0.1.0"

_HOME = {
    "assay.attacks.apgd": ("APGD",),
    "assay.attacks.base": ("Guess", "Restarts", "Then", "Worst"),
    "assay.attacks.cw": ("CW",),
    "assay.attacks.fab": ("FAB",),
    "assay.attacks.pgd": ("FGSM", "PGD"),
    "assay.attacks.square": ("Square",),
    "assay.attacks.standard": ("standard",),
    "assay.data": ("Dataset",),
    "assay.errors": ("AssayError", "Unsupported"),
    "assay.evaluate": ("evaluate",),
    "assay.games.static": ("Static",),
    "assay.goals": ("group", "least_likely", "targeted", "untargeted"),
    "assay.losses": ("ce", "dlr", "margin", "md", "mdmax", "mdmul", "odds"),
    "assay.model": ("wrap",),
    "assay.problem": ("Budget",),
    "assay.report.report": ("Report",),
    "assay.spaces.lp": ("L0", "L1", "L2", "Linf"),
}
_MODULES = ("datasets", "report", "testing")
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = [*_WHERE, *_MODULES, "__version__"]  # noqa: PLE0604 - built from the table above


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"assay.{name}")
    if name not in _WHERE:
        from assay.errors import nearest

        raise AttributeError(f"assay has no '{name}'{nearest(name, __all__)}")
    value = getattr(import_module(_WHERE[name]), name)
    # The name may also be that of a sub-module (assay.evaluate), which the import has just bound.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
