"""By which class of method a figure was found, in the words of ISO/IEC TR 24029-1, and what it
promises: *formal* (holds for every change allowed), *statistical* (holds in the mean over rows like
these, with an interval), *empirical* (what was found by trying).

What a reader would get wrong: the interval of every figure is statistical, whatever its method. A
formal figure is certain for the rows it was proven on, and an estimate for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durometer.report.report import Report

FORMAL, STATISTICAL, EMPIRICAL = "formal", "statistical", "empirical"
_PROVEN = ("certified", "exact", "leaves", "enumerated")  # kinds of bounds that are certain
_PROMISE = {
    "clean": (STATISTICAL, "the share of right answers without any change, on rows like these"),
    "clean_played": (STATISTICAL, "the same, of the rows that were played"),
    "proven": (FORMAL, "no change that is allowed reaches the goal on these rows"),
    "robust": (
        EMPIRICAL,
        "an upper bound: nothing that was tried reached the goal on these rows",
    ),
    "broken": (EMPIRICAL, "a change that is allowed and reaches the goal is kept for each row"),
    "open": (EMPIRICAL, "neither proven nor broken: nothing is promised of these rows"),
    "success": (EMPIRICAL, "a lower bound of what an attacker can reach, of the rows attacked"),
    "valid": (EMPIRICAL, "the share of handed-in inputs that the threat allows"),
}


def method(report: Report, name: str) -> tuple[str, str]:
    """The class and the promise of a figure of this report."""
    table = report.table
    if table["probability_low"].notna().any() and name not in ("clean", "clean_played"):
        kinds = {str(k).split("+")[0] for k in table["winner"] if k}
        if kinds and kinds <= set(_PROVEN):
            return FORMAL, "each row's probability lies between bounds that are proven"
        return STATISTICAL, "each row's probability lies in an interval, from draws or in part so"
    if name in _PROMISE:
        return _PROMISE[name]
    return EMPIRICAL, "what was counted or measured in this run"
