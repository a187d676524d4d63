"""What is known of the rows, counted: proven, open, broken, and wrong before any attack.

What a reader would get wrong: where nobody tried to prove anything, "not broken" is no more than
that. The counts say so instead of calling those rows safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from durometer.report import wording
from durometer.report.figures.noise import SURE

if TYPE_CHECKING:
    from durometer.report.report import Report

Counts = dict[str, tuple[str, int]]  # kind -> what it is called, rows


def verdicts(report: Report) -> Counts:
    """Every row that was played, once."""
    return under_noise(report) if report.spec.game_type == "Nature" else attacked(report)


def attacked(report: Report) -> Counts:
    """Rows by verdict; those that needed no attack apart from the others."""
    rows = _rows(report)
    said = report.counts("verdict", lambda t: t["skipped"] == "")
    early_ones = report.counts(
        "verdict", lambda t: (t["skipped"] == "") & t["success"] & (t["winner"] == "clean")
    )
    free = sum(early_ones.values())
    stays = f"{rows} not broken, where no proof was tried"
    if report.two_sided:
        stays = f"{rows} open: neither proven nor broken"
    elif report.spec.is_unattacked:
        stays = f"{rows} answered correctly" if report.spec.is_untargeted else f"{rows} that hold"
    early = "wrong" if report.spec.is_untargeted else "lost"
    found = {
        "proven": (f"{rows} proven", said.get("proven", 0)),
        "open": (stays, said.get("open", 0)),
        "broken": (f"{rows} broken", said.get("broken", 0) - early_ones.get("broken", 0)),
        "wrong": (f"{rows} {early} before any attack", free),
    }
    needed = {"open", "broken"} | ({"proven"} if report.two_sided else set())
    return {k: v for k, v in found.items() if v[1] or k in needed}


def counts(report: Report) -> wording.Verdicts:
    """The rows of an attacked run for sentences."""
    found = attacked(report)
    return wording.Verdicts(
        **{k: found[k][1] if k in found else 0 for k in ("broken", "proven", "open", "wrong")}
    )


def stability(report: Report) -> wording.Stability:
    """The records of a run under noise for sentences."""
    t = report.table[report.table["skipped"] == ""]
    low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
    known = np.isfinite(low) & np.isfinite(high)
    stable = known & (low >= SURE)
    right = (t["clean"] == t["y"]).to_numpy(bool)
    return wording.Stability(int(known.sum()), int(stable.sum()), int((stable & right).sum()), SURE)


def _rows(report: Report) -> str:
    if report.spec.quota is not None:
        return "pairs of attacker and victim"
    runs = "run" in report.table and report.table["run"].nunique() > 1
    return "answers" if runs else "rows"


def under_noise(report: Report) -> Counts:
    """Records that are surely, perhaps and not stable under noise."""
    t = report.table[report.table["skipped"] == ""]
    low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
    known = np.isfinite(low) & np.isfinite(high)
    safe, unsafe = known & (low >= SURE), known & (high < SURE)
    stays = "keep their answer" if report.spec.is_untargeted else "do no such harm"
    return {
        "proven": (f"records that {stays} with probability {SURE} or more", int(safe.sum())),
        "open": ("records undecided", int((known & ~safe & ~unsafe).sum())),
        "broken": ("records less certain than that", int(unsafe.sum())),
    }
