"""The answer in one sentence a manager understands, and the threat it is about in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durometer.report import wording
from durometer.report.checks import incomplete
from durometer.report.stats import Estimate
from durometer.report.verdicts import counts, stability

if TYPE_CHECKING:
    from durometer.report.report import Report


def counted(e: Estimate, what: str = "") -> str:
    """A rate as a count of the rows it is over, with its interval.

    >>> counted(Estimate(0.9333, 0.787, 0.982, 30), "rows")
    '28 of 30 rows (93 %, between 79 and 98)'
    """
    low, value, high = (f"{100 * v:.0f}" for v in (e.low, e.value, e.high))
    spread = f", between {low} and {high}" if low != high else ""
    return f"{e.value * e.n:,.0f} of {e.n:,}{' ' if what else ''}{what} ({value} %{spread})"


def verdict(report: Report) -> str:
    """The answer in one sentence; of a run that did not end, that it did not, before it."""
    partial = incomplete(report.flags)
    return f"NOT FINISHED ({partial}). So far: {_answer(report)}" if partial else _answer(report)


def _answer(report: Report) -> str:
    spec, robust, clean = report.spec, report.metric("robust"), report.metric("clean_played")
    who, inside = spec.model_name(first=True), spec.model_name()
    game = spec.game_type
    if not robust.n:
        return f"{who}: no row could be attacked."
    if game == "Nature":
        sure = counted(report.metric("sure"), "records")
        return wording.noise(
            stability(report), inside, f"{robust.value:.3f}", sure, spec.is_untargeted
        )
    if spec.quota is not None:
        return (
            f"{who} withstands {counted(robust, 'bands of attackers')} that want "
            f"{spec.quota.k} false identities."
        )
    if game == "Transductive" and spec.is_unattacked:
        return (
            f"{who} answers {counted(clean, 'inputs')} correctly after adapting; nobody attacked."
        )
    if game == "Transductive":
        return (
            f"{who} answers {counted(clean, 'inputs')} correctly after adapting to a clean batch, "
            f"and {counted(robust)} when the attacker may change the batch first."
        )
    known, tried = counts(report), report.two_sided
    if spec.is_untargeted:
        lower = counted(report.metric("proven")) if tried else ""
        return wording.robustness(known, who, counted(robust), lower, tried)
    won = Estimate(1 - robust.value, 1 - robust.high, 1 - robust.low, robust.n)
    return wording.harm(known, inside, counted(won, "cases"), tried)


def threat(report: Report) -> str:
    """What the attacker could do, in words, as far as the spec tells."""
    spec = report.spec
    if spec.game_type == "Nature":
        noise = spec.under or "noise"
        parts = [f"Nobody attacks: measurements are off by {noise}."]
        if spec.space:
            parts = [f"Somebody may shift the input before it is measured with {noise}."]
    elif spec.is_unattacked:
        parts = ["Nobody attacks: the rows are played as they were given."]
    else:
        parts = [str(spec.threat or f"The attacker moves in {spec.text('space')}.")]
    if spec.attacks:
        parts.append(f"Attack: {', '.join(spec.attacks)}.")
    if spec.budget:
        parts.append(f"Its budget: {spec.text('budget')}.")
    parts.append(f"Data: {spec.data}, {spec.rows} rows, seed {spec.seed}.")
    if spec.model_name() == "the model" and spec.model:
        parts.append(f"Model: {spec.model}; du.wrap(model, name=...) gives it a name.")
    return " ".join(parts)
