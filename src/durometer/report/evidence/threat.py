"""The threat in the terms of NIST AI 100-2 E2025 (section 2.1): goal, capability, knowledge, stage.

Derived from the axes of the run and from what the records say was used, never typed in: a run that
counted backward passes had a white-box attacker, whatever anybody calls it.

What a reader would get wrong: measurement noise has no attacker and no place in that taxonomy, and
an adaptive defender is attacked at the deployment stage although it learns there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durometer.report.report import Report

TAXONOMY = "NIST AI 100-2 E2025"
_KNOWN = {"seed": "and the randomness of the defender", "start": "before it adapts"}


def threat(report: Report) -> dict[str, str]:
    """The four dimensions, and the threat as a sentence."""
    spec = report.spec
    said = {"taxonomy": TAXONOMY, "in words": spec.threat}
    if spec.game_type == "Nature":
        said["in words"] = f"Measurements are off by {spec.under or 'noise'}."
        said["noise"] = spec.text("noise")[:1000]
        none = "none: nobody attacks; measurement noise is outside the taxonomy"
        return said | {"goal": none, "capability": none, "knowledge": none, "stage": "deployment"}
    if spec.is_unattacked:
        none = "none: nobody attacked in this run"
        return said | {"goal": none, "capability": none, "knowledge": none, "stage": "deployment"}
    return said | {
        "goal": _goal(report),
        "capability": _capability(report),
        "knowledge": _knowledge(report),
        "stage": _stage(report),
    }


def _goal(report: Report) -> str:
    spec = report.spec
    if "Poison" in spec.attacks:
        return "integrity violation: poisoning of what a defender adapts on, harming others' rows"
    if spec.quota is not None:
        return "integrity violation: targeted evasion, several distinct impersonations at once"
    aim = "untargeted" if spec.is_untargeted else f"targeted, {spec.text('goal')[:200]}"
    return f"integrity violation: evasion, {aim}"


def _capability(report: Report) -> str:
    control = "testing data control"
    if report.spec.game_type == "Transductive":
        share = report.table["controlled"].mean() if len(report.table) else 1.0
        control += f" over {share:.0%} of each batch that the defender adapts on"
    limit = f"within {report.spec.text('space')[:300]}" if report.spec.space else ""
    queries = "query access" if report.table["forwards"].sum() > 0 else ""
    return "; ".join(part for part in (control, limit, queries) if part)


def _knowledge(report: Report) -> str:
    if report.spec.game_type == "Transductive":
        known = report.spec.information
        return f"white-box: model and defence known {_KNOWN.get(known, known)}"
    if report.table["backwards"].sum() > 0:
        return "white-box: gradients of the model"
    if report.two_sided:
        return "white-box: the model as a whole, as proofs need it"
    return "black-box: answers to queries only"


def _stage(report: Report) -> str:
    if report.spec.game_type == "Transductive":
        return "deployment; the model learns there from the inputs it is sent"
    return "deployment"


def untested(report: Report) -> list[str]:
    """Threats about which the run says nothing."""
    spec = report.spec
    found = ["control of the training data (poisoning, backdoors)",
             "privacy attacks (membership, reconstruction, extraction of the model)"]  # fmt: skip
    if spec.game_type == "Nature":
        return ["an adversary who chooses the change", "noise other than that named above", *found]
    found.insert(0, f"changes outside {spec.text('space')[:120] or 'the space named above'}")
    if not spec.is_untargeted:
        found.insert(1, "other goals than the one named above")
    if report.table["backwards"].sum() == 0 and not report.two_sided:
        found.insert(0, "an attacker who knows the model (white-box)")
    if spec.game_type == "Static":
        found.append("random failures and drift of the data (see Nature)")
    return found
