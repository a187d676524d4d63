"""The answer in one sentence a manager understands, and the threat it is about in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from assay.report.checks import incomplete
from assay.report.stats import Estimate

if TYPE_CHECKING:
    from assay.report.report import Report


def of_hundred(e: Estimate) -> str:
    """A rate as people say it, with its interval.

    >>> of_hundred(Estimate(0.32, 0.211, 0.449, 60))
    '32 of 100 (between 21 and 45)'
    """
    low, value, high = (f"{100 * v:.0f}" for v in (e.low, e.value, e.high))
    spread = f" (between {low} and {high})" if low != high else ""
    return f"{value} of 100{spread}"


def verdict(report: Report) -> str:
    """The answer in one sentence; of a run that did not end, that it did not, before it."""
    partial = incomplete(report.flags)
    return f"NOT FINISHED ({partial}). So far: {_answer(report)}" if partial else _answer(report)


def _answer(report: Report) -> str:
    spec, robust, clean = report.spec, report.metric("robust"), report.metric("clean")
    who = str(spec.get("model", "The model"))
    game = str(spec.get("game", ""))
    if not robust.n:
        return f"{who}: no row could be attacked."
    if game == "Nature":
        sure, plain = report.metric("sure"), str(spec.get("goal", "Untargeted"))
        does = "keeps its answer" if plain.startswith("Untargeted") else "does no such harm"
        return (
            f"Under the stated noise {who} {does} with probability {robust.value:.3f} on average; "
            f"{of_hundred(sure)} records are safe (probability 0.99 or more)."
        )
    if "quota" in spec:
        return (
            f"{who} withstands {of_hundred(robust)} bands of attackers that want "
            f"{spec['quota']['k']} false identities."
        )
    if game.startswith("Transductive") and spec.get("attack") == "":
        return (
            f"{who} answers {of_hundred(clean)} inputs correctly after adapting; nobody attacked."
        )
    if game.startswith("Transductive"):
        return (
            f"{who} answers {of_hundred(clean)} inputs correctly after adapting to a clean batch, "
            f"and {of_hundred(robust)} when the attacker may change the batch first."
        )
    if str(spec.get("goal", "")).startswith("Untargeted") and report.two_sided:
        return (
            f"{who} classifies {100 * clean.value:.0f} of 100 inputs correctly; when an attacker "
            f"may change them, at least {of_hundred(report.metric('proven'))} are proven to stay "
            f"correct, and at most {of_hundred(robust)} do."
        )
    if str(spec.get("goal", "")).startswith("Untargeted"):
        return (
            f"{who} classifies {100 * clean.value:.0f} of 100 inputs correctly, and "
            f"{of_hundred(robust)} when an attacker may change them."
        )
    won = Estimate(1 - robust.value, 1 - robust.high, 1 - robust.low, robust.n)
    return f"An attacker gets what it wants from {who} in {of_hundred(won)} cases."


def threat(report: Report) -> str:
    """What the attacker could do, in words, as far as the spec tells."""
    spec = report.spec
    if spec.get("game") == "Nature":
        parts = [f"Nobody attacks: measurements are off by {spec.get('under') or 'noise'}."]
    elif spec.get("attack") == "":
        parts = ["Nobody attacks: the rows are played as they were given."]
    else:
        said = spec.get("threat") or ""
        parts = [said if "may change" in said else f"The attacker moves in {spec.get('space')}."]
        if said and "may change" not in said:
            parts.append(said)
    names = list(dict.fromkeys(re.findall(r"\b([A-Za-z]\w*)\(", str(spec.get("attack", "")))))
    if names:
        parts.append(f"Attack: {', '.join(names)}.")
    if spec.get("budget"):
        parts.append(f"Its budget: {spec['budget']}.")
    parts.append(f"Data: {spec.get('data')}, {spec.get('rows')} rows, seed {spec.get('seed')}.")
    return " ".join(parts)
