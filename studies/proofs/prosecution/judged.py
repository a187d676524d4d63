"""What one case gives: rows proven, how many of these fall, and how often the case was refused."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from prosecution.package import du

REFUSALS = (du.Unsupported, du.Unsupported.__mro__[1])  # and what it derives from, in any version
WITHDRAWN = "contradict"  # part of the name of a flag that withdraws proofs


@dataclass
class Count:
    """Of one construct, over all its cases."""

    wrong: int = 0
    proven: int = 0
    rows: int = 0
    points: int = 0
    refused: int = 0
    cases: int = 0
    disputed: int = 0
    said: str = ""  # why it was refused the last time
    gaps: int = 0  # proven rows with a missing cell
    fallen: str = ""  # seeds of the cases with a wrong proof

    def add(self, other: Count) -> None:
        for name in ("wrong", "proven", "rows", "points", "refused", "cases", "disputed", "gaps"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.said = other.said or self.said
        self.fallen = " ".join(filter(None, (self.fallen, other.fallen)))


def verdicts(model: Any, data: Any, **asked: Any) -> tuple[np.ndarray, str]:
    """(n,) bool: called proven; and why none can be."""
    quiet = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stderr(quiet):
        warnings.simplefilter("ignore")
        try:
            report = du.evaluate(model, data, progress=False, **asked)
        except REFUSALS as error:
            return np.zeros(len(data), bool), str(error) or type(error).__name__
        except Exception as error:
            if du.__name__ == "durometer":
                raise
            return np.zeros(len(data), bool), f"crashed: {error}"  # an older package
    withdrawn = [f for f in report.flags if WITHDRAWN in str(getattr(f, "id", f)).lower()]
    if withdrawn:  # the package's own auditor found what a proof overlooked
        raise AssertionError(f"a proof was withdrawn: {withdrawn[0]}")
    return (report.table["verdict"] == "proven").to_numpy(), ""
