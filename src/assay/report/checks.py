"""Pitfall flags: what makes an evaluation untrustworthy, said in a sentence next to its figures.

Each flag has an id; `docs/checks.md` has a paragraph on each. Flags never change a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.records import Records

if TYPE_CHECKING:
    from assay.report.report import Report


@dataclass(frozen=True)
class Flag:
    """One thing to look at: `level` is "warning" or "note"."""

    id: str
    text: str
    level: str = "warning"


IDS = (
    "vanishing-gradients",
    "probabilities",
    "search-beats-gradient",
    "not-monotone",
    "training-mode",
    "not-deterministic",
    "batch-dependent",
    "invalid-clean",
    "not-finite",
    "below-chance",
    "interrupted",
)


def of_model(facts: dict[str, Any]) -> list[Flag]:
    """Flags from a look at the model on a few rows."""
    flags = []
    if facts.get("training"):
        flags.append(Flag("training-mode", "the model came in training mode; it was evaluated in "
                          "eval mode and put back", "note"))  # fmt: skip
    if facts.get("probabilities"):
        flags.append(Flag("probabilities", "the outputs look like probabilities where logits were "
                          "meant: gradients may vanish; use ay.wrap(model, outputs='probabilities')"))  # fmt: skip
    difference = facts.get("repeat_difference", 0.0)
    if difference > 1e-6:
        flags.append(Flag("not-deterministic", f"the model answers differently on repeat (by "
                          f"{difference:.2g} of the largest logit): use APGD(eot=) and read the "
                          "figures as one draw"))  # fmt: skip
    elif facts.get("batch_difference", 0.0) > 1e-3:
        flags.append(Flag("batch-dependent", "a row's answer depends on the other rows of its batch: "
                          "a fixed-model evaluation does not fit; see the transductive game"))  # fmt: skip
    return flags


def of_run(records: Records, facts: dict[str, Any]) -> list[Flag]:
    """Flags from what happened."""
    flags, c = [], records.columns
    gradients, flat = facts.get("gradients", 0), facts.get("flat", 0)
    if gradients and flat > 0.1 * gradients:
        flags.append(Flag("vanishing-gradients", f"{flat} of {gradients} gradients were exactly 0: "
                          "gradient attacks are blind there; try loss='margin' or a search attack"))  # fmt: skip
    if facts.get("nonfinite"):
        flags.append(Flag("not-finite", f"the model gave NaN or infinite outputs on "
                          f"{facts['nonfinite']} attacked inputs; they were not counted as successes"))  # fmt: skip
    winners = set(c["winner"][c["success"]].tolist())
    searches = sorted(w for w in winners if w.split("-")[0] in ("Square", "random"))
    if searches and gradients:
        rows = int(np.isin(c["winner"], searches).sum())
        flags.append(Flag("search-beats-gradient", f"{rows} rows fell to {', '.join(searches)} after "
                          "gradient attacks had failed on them: gradients may be masked"))  # fmt: skip
    invalid = int((c["skipped"] == "invalid").sum())
    if invalid:
        flags.append(Flag("invalid-clean", f"{invalid} of {len(records)} rows break their own space "
                          "before any attack; they were left out"))  # fmt: skip
    classes = facts.get("classes", 0)
    accuracy = float((c["clean"] == c["y"]).mean())
    if classes and len(records) >= 30 and accuracy < 0.8 / classes:
        flags.append(Flag("below-chance", f"clean accuracy {accuracy:.3f} is below chance for "
                          f"{classes} classes: are the labels in the model's order?"))  # fmt: skip
    if facts.get("interrupted"):
        flags.append(Flag("interrupted", f"stopped by hand after {len(records)} of "
                          f"{facts['interrupted']} rows"))  # fmt: skip
    return flags


def monotone(reports: Sequence[Report]) -> list[Flag]:
    """Robust accuracy must not rise with the budget: reports in order of growing eps."""
    values = [r.metric("robust") for r in reports]
    rises = [k for k in range(1, len(values)) if values[k].value > values[k - 1].value + 1e-12]
    if not rises:
        return []
    k = rises[0]
    return [Flag("not-monotone", f"robust accuracy rises from {values[k - 1].value:.3f} to "
                 f"{values[k].value:.3f} as the budget grows ({reports[k - 1].spec['space']} to "
                 f"{reports[k].spec['space']}): the attack is too weak there")]  # fmt: skip
