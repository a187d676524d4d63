"""What is known of the rows, counted (proven, open, broken, and wrong before any attack), and as
a headline: the answer in one sentence, and the threat it is about in words.

What a reader would get wrong: where nobody tried to prove anything, "not broken" is no more than
that. The counts say so instead of calling those rows safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from durometer.report import wording
from durometer.report.checks import incomplete
from durometer.report.figures.noise import SURE
from durometer.report.stats import Estimate

if TYPE_CHECKING:
    from durometer.report.report import Report

CERTAIN = frozenset({"certified", "exact", "leaves", "enumerated"})  # bounds without draws
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


def audit(report: Report) -> wording.Audit:
    """What was tried against the proofs; of a run in parts, against those of the sample."""
    c = report.records.columns
    wrong = c["overturned"] != ""
    withdrawn = bool(wrong.any()) & (c["audited"] > 0)
    called = (c["verdict"] == "proven") | wrong | withdrawn
    tried = called & (c["audited"] > 0)
    points = int(c["audited"][tried].sum())
    return wording.Audit(int(called.sum()), int(tried.sum()), points, int(wrong.sum()))


def stability(report: Report) -> wording.Stability:
    """The records of a run under noise for sentences."""
    t = report.table[report.table["skipped"] == ""]
    low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
    known = np.isfinite(low) & np.isfinite(high)
    stable = known & (low >= SURE)
    right = (t["clean"] == t["y"]).to_numpy(bool)
    kinds = {part for kind in t["winner"] for part in str(kind).split("+")}
    return wording.Stability(
        rows=int(known.sum()),
        stable=int(stable.sum()),
        stable_right=int((stable & right).sum()),
        share=SURE,
        certified=bool(kinds) and kinds <= CERTAIN,
    )


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


def share_text(e: Estimate, what: str = "") -> str:
    """A rate as a count of the rows it is over, with its interval.

    >>> share_text(Estimate(0.9333, 0.787, 0.982, 30), "rows")
    '28 of 30 rows (93 %, between 79 and 98)'
    """
    low, high = (f"{100 * v:.0f}" for v in (e.low, e.high))
    low = "99" if low == "100" and e.low < 1 else low
    high = "1" if high == "0" and e.high > 0 else high
    spread = f", between {low} and {high}" if low != high else ""
    value = wording.whole_percent(e.value)
    return f"{e.value * e.n:,.0f} of {e.n:,}{' ' if what else ''}{what} ({value} %{spread})"


def headline(report: Report) -> str:
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
        sure = share_text(report.metric("sure"), "records")
        return wording.noise(
            stability(report), inside, f"{robust.value:.3f}", sure, spec.is_untargeted
        )
    if spec.quota is not None:
        held = share_text(robust, "bands of attackers")
        return wording.coalitions(inside, held, spec.quota.k)
    if game == "Transductive" and spec.is_unattacked:
        return wording.unattacked(who, share_text(clean, "inputs"))
    if game == "Transductive":
        return wording.moving(who, share_text(clean, "inputs"), share_text(robust))
    known, tried = counts(report), report.two_sided
    if spec.is_untargeted:
        lower = share_text(report.metric("proven")) if tried else ""
        return wording.robustness(known, who, share_text(robust), lower, tried)
    won = Estimate(1 - robust.value, 1 - robust.high, 1 - robust.low, robust.n)
    return wording.harm(known, inside, share_text(won, "cases"), tried)


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
