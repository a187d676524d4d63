"""Pitfall flags: what makes an evaluation untrustworthy, said in a sentence next to its figures.

Each flag has an id; `docs/reference/warnings.md` has a paragraph on each. Flags change no figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from durometer.core.facts import Facts
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.goals.quota import AS
from durometer.report.stats import Estimate, at_most, wilson

if TYPE_CHECKING:
    from durometer.report.report import Report


@dataclass(frozen=True)
class Flag:
    """A warning or note of a report.

    Args:
        id: Its name, e.g. "interrupted"; docs/reference/warnings.md explains each.
        text: What to look at, with the figures.
        level: "warning" or "note".
    """

    id: str
    text: str
    level: str = "warning"


GAP = 0.1  # of the rows: more that is neither proven nor broken is worth a warning
VACUOUS = 0.5  # of the proofs: more that rest on what cannot change is worth a warning
IMPROVING = 0.1  # of the open rows
SATURATED = 0.1  # of the rows looked at
MATCHED = 10  # rows per class, where the order of classes is looked at
CHANCE = 1e-3  # guessing gets as few right with less than this probability
MOVED = 1e-6  # a change of a correlation that is more than rounding
DRAWN = (
    "sampled",
    "sequential",
    "importance",
)  # intervals of plain draws: no budget, only their number
NARROWER = {  # what makes an interval of this kind narrower
    "certified": "give Nature more budget= or use method='combined'",
    "certified+sampled": "give Nature more draws= or more budget=",
    "numerical": "give Nature a larger tolerance=, for several trees also more budget=",
    **dict.fromkeys(DRAWN, "give Nature more draws="),
}
PARTIAL = ("interrupted", "broke-down", "unfinished")  # the figures are of some of the rows
IDS = (
    "vanishing-gradients",
    "misleading-gradients",
    "probabilities",
    "search-beats-gradient",
    "not-monotone",
    "training-mode",
    "not-deterministic",
    "batch-dependent",
    "invalid-clean",
    "not-finite",
    "copy-differs",
    "below-chance",
    "interrupted",
    "broke-down",
    "unfinished",
    "mixed-versions",
    "order-dependent",
    "company-dependent",
    "selection-bias",
    "transfer-beats-gmsa",
    "rests-on-randomness",
    "put-back",
    "one-move",
    "narrow-enough",
    "decided",
    "bounds-wide",
    "noise-moved",
    "run-failed",
    "sources-missing",
    "no-attack",
    "other-score",
    "other-scale",
    "other-order",
    "wide-gap",
    "vacuous-robustness",
    "still-improving",
    "no-proof",
    "labels-only",
    "saturated",
    "half-precision",
    "sample",
    "left-out-candidates",
    "contradiction",
)


def incomplete(flags: Iterable[Flag]) -> str:
    """Why a report is on some of its rows only; nothing where it is whole."""
    return next((f.text for f in flags if f.id in PARTIAL), "")


def of_report(records: Records, facts: Facts, spec: Spec) -> tuple[Flag, ...]:
    """All flags of an evaluation: from what was seen before it, and from what happened."""
    return (
        *of_model(facts),
        *of_defender(facts),
        *of_run(records, facts),
        *of_quota(records, spec),
    )


def of_model(facts: Facts) -> Iterator[Flag]:
    """Flags from a look at the model on a few rows."""
    if facts.training:
        text = "the model came in training mode; it was evaluated in eval mode and put back"
        yield Flag("training-mode", text, "note")
    if facts.probabilities:
        text = "the outputs look like probabilities where logits were meant: gradients may vanish; "
        yield Flag("probabilities", text + "use du.wrap(model, answers='probabilities')")
    if facts.half:
        text = f"the model computes in {facts.half}: logits have two or three digits, ties are "
        text += "common and small gradients are 0; evaluate model.float()"
        yield Flag("half-precision", text + ", and this one only if it is what is deployed")
    if facts.left_out:
        text = f"the space leaves out {'; '.join(facts.left_out)}: no attack tries them, and "
        yield Flag("left-out-candidates", text + "no proof is about them", "note")
    if facts.other_scale:
        now, then = facts.other_scale
        text = f"clean accuracy is {now:.3f}, and {then:.3f} when the inputs are standardised: the "
        yield Flag("other-scale", text + "model seems to expect inputs on another scale")
    difference = facts.repeat_difference
    if difference > 1e-6:
        text = f"the model answers differently on repeat (by {difference:.2g} of the largest logit)"
        yield Flag("not-deterministic", text + ": use APGD(eot=) and read the figures as one draw")
    elif facts.batch_difference > 1e-3:
        text = "a row's answer depends on the other rows of its batch: a fixed model does not"
        game = "; ask it one row at a time, or play du.Transductive(du.defenses.Adapting(model))"
        yield Flag("batch-dependent", text + game)


def of_defender(facts: Facts) -> Iterator[Flag]:
    """Flags from what a test-time defence is up against, and from one batch in three ways."""
    if facts.unattacked:
        text = "nobody attacked: the figures are the defender's on the rows as they were given"
        yield Flag("no-attack", text + ", not its robustness", "note")
    if facts.one_move:
        text = "the defender is random and the referee let it move once: the figures are one draw; "
        yield Flag("one-move", text + "use Transductive(runs=3) or more", "note")
    turned = facts.order_difference
    if turned > 0:
        text = f"{turned:.0%} of the answers on a batch change when the same rows come in another"
        yield Flag("order-dependent", text + " order: an attacker may choose it", "note")
    company = facts.company_difference
    if company > 0:
        text = f"{company:.0%} of the answers change when half of the batch is taken away: other"
        yield Flag(
            "company-dependent", text + " users' rows decide (play controlled=, scored=)", "note"
        )


def of_run(records: Records, facts: Facts) -> Iterator[Flag]:
    """Flags from what happened."""
    c = records.columns
    gradients, flat = facts.gradients, facts.flat
    if flat > 0.1 * gradients:
        text = f"{flat} of {gradients} gradients were exactly 0: gradient attacks are blind there"
        yield Flag("vanishing-gradients", text + "; try loss='margin' or a search attack")
    if facts.misled:
        misled, looked = facts.misled, facts.looked
        text = f"gradients mislead on {misled} of the {looked} rows that gradient attacks left "
        text += f"({misled / looked:.0%}): the margin moves more than they say, or they are 0. "
        text += "They got smoothed gradients and a longer search, which proves nothing about those "
        yield Flag("misleading-gradients", text + "that stand: robust accuracy is an upper bound")
    if facts.put_back:
        text = f"the attack handed in {facts.put_back} rows that are not its own or lie outside "
        yield Flag("put-back", text + "the space; clean rows were put in their place")
    if facts.nonfinite:
        text = f"the model gave NaN or infinite outputs on {facts.nonfinite} attacked inputs"
        yield Flag("not-finite", text + "; none of them was counted as a success")
    if facts.apart:
        text = f"at {facts.apart} candidates the network answers otherwise than its faster copy, "
        text += "which attacks asked: its own answer counted, but the attack may have been misled"
        yield Flag("copy-differs", text)
    if facts.searched and gradients:
        text = f"{facts.searched} rows fell to searches that need no gradient "
        yield Flag("search-beats-gradient", text + "after gradient attacks: these may be masked")
    invalid = int((c["skipped"] == "invalid").sum())
    if invalid:
        text = f"{invalid} of {len(records)} rows break their own space before any attack"
        text += "; they were left out: schema.validate(x) names the rules they break"
        yield Flag("invalid-clean", text)
    rejects = bool(np.isfinite(c["doubt"]).any())  # not answering is no wrong order of classes
    if facts.classes and not rejects:
        yield from _of_chance(c, facts.classes)
    yield from _of_score(c, facts.score)
    known = np.isfinite(c["simulated"]) & (c["skipped"] == "")
    if known.any():
        gain = c["simulated"][known] - c["success"][known]
        error = gain.std() / max(1, len(gain)) ** 0.5
        if gain.mean() > max(0.05, 2 * error):
            text = (
                f"the attacker rehearsed a success of {c['simulated'][known].mean():.3f} and got "
            )
            text += f"{c['success'][known].mean():.3f}: it chose a candidate that was lucky once; "
            yield Flag("selection-bias", text + "use GMSA(simulations=3) or more")
    yield from _of_proofs(c)
    yield from _of_labels(c, facts)
    yield from _of_saturation(c, facts)
    yield from _of_noise(records, facts)
    yield from _of_extent(records, facts)


def _of_extent(records: Records, facts: Facts) -> Iterator[Flag]:
    """Which of the rows the figures are of, and who made them."""
    n = (
        len(records) if facts.all_rows is None else facts.all_rows
    )  # a run in parts holds some of them
    if n > len(records):
        text = f"rates and means are of all {n:,} rows; the table, drawings and whatever is counted"
        yield Flag("sample", f"{text} by name are of {len(records):,} of them, by lot", "note")
    if facts.narrow:
        text = f"stopped after {len(records)} of {facts.narrow} rows, drawn at random: the"
        yield Flag("narrow-enough", text + " interval was as narrow as asked for", "note")
    if facts.decided:
        text = f"stopped after {len(records)} of {facts.decided} rows, drawn at random: the"
        yield Flag("decided", text + " gate was decided", "note")
    if facts.interrupted:
        text = f"stopped by hand after {n} of {facts.interrupted} rows"
        yield Flag("interrupted", text)
    elif facts.broke_down:
        rows, error = facts.broke_down
        text = f"the run broke down after {n} of {rows} rows ({error})"
        yield Flag("broke-down", text + ": mend the cause and resume")
    elif facts.unfinished:
        finished, chunks = facts.unfinished
        text = f"not finished: {finished} of {chunks} chunks, {n} rows so far"
        yield Flag("unfinished", text + "; the figures are of these")
    if facts.versions:
        said = "; ".join(", ".join(f"{k} {v}" for k, v in x.items())
                         for x in facts.versions)  # fmt: skip
        yield Flag("mixed-versions", f"the rows were made by different versions: {said}", "note")


def _of_proofs(c: Mapping[str, Any]) -> Iterator[Flag]:
    """Flags of the two sides: how much is unknown, and what the proofs rest on."""
    wrong = np.flatnonzero(c["overturned"] != "")
    if len(wrong):
        rows = ", ".join(str(i) for i in c["id"][wrong[:5]])
        text = f"the auditor broke {len(wrong)} rows that had been called proven (first ids: "
        text += f"{rows}) by {c['overturned'][wrong[0]]}: all proofs of this run are withdrawn. "
        yield Flag("contradiction", text + "This is a bug: please report it with the model")
    played = c["skipped"] == ""
    proven, left = c["verdict"] == "proven", (c["verdict"] == "open") & played
    n = max(1, int(played.sum()))
    if proven.any() and left.sum() > GAP * n:
        text = f"{int(left.sum())} of {n} rows are neither proven nor broken: robust accuracy lies "
        text += f"between {proven.sum() / n:.3f} and {(proven | left).sum() / n:.3f}, and nothing "
        text += "here says where"
        if left_alone := int((c["unproven"][left] != "").sum()):
            first = c["unproven"][left & (c["unproven"] != "")][0]
            text += f"; no further proof was tried on {left_alone} of them, and `unproven` says why"
            text += f" (the first: {first})"
        yield Flag("wide-gap", text)
    vacuous = int(c["vacuous"].sum())
    if vacuous > VACUOUS * max(1, int(proven.sum())):
        text = f"{vacuous} of {int(proven.sum())} proofs hold at any size of the region: these "
        text += "answers hang on features that the attacker cannot change; look at clean accuracy "
        yield Flag("vacuous-robustness", text + "on every class before the figure is quoted")
    why = [str(w) for w in dict.fromkeys(c["unproven"][left].tolist()) if w]
    if why and not proven.any():
        first = (
            why[0] if len(why) == 1 else f"{why[0]} (row {c['id'][left][0]}; others: `unproven`)"
        )
        text = f"nothing could be proven: {first}. So `at least` says nothing here, and robust "
        yield Flag("no-proof", text + "accuracy is what this attack did not break", "note")
    nearer = int(c["improving"].sum())
    if nearer > IMPROVING * max(1, int(left.sum())):
        text = f"{nearer} of {int(left.sum())} open rows still came nearer to the goal when the "
        text += "search's budget ended: robust accuracy would fall with more"
        yield Flag(
            "still-improving", text + " (Graft(evaluations=), MOEVA(generations=), APGD(steps=))"
        )


def _of_labels(c: Mapping[str, Any], facts: Facts) -> Iterator[Flag]:
    """A flag where rows stand that were searched by labels alone."""
    left = (c["verdict"] == "open") & (c["skipped"] == "")
    if facts.answers == "labels" and left.any():
        asked = int(c["forwards"][left].max())
        text = f"labels only: {asked:,} questions a row at most; where the truth was known, such "
        text += "searches left up to 40 points more rows standing. Robust accuracy here is an "
        yield Flag("labels-only", text + "upper bound; give scores or the model itself if you can")


def _of_saturation(c: Mapping[str, Any], facts: Facts) -> Iterator[Flag]:
    """A flag where rows stand whose scores cannot show a search where to go."""
    left = (c["verdict"] == "open") & (c["skipped"] == "")
    share = facts.saturated
    if share > SATURATED and left.any():
        text = f"the probabilities of {share:.0%} of the rows looked at are exactly 0 and 1: they "
        text += "show a search no way, so robust accuracy is unusable as it stands; give the "
        yield Flag("saturated", text + "scores before the softmax")


def _of_score(c: Mapping[str, Any], score: float | None) -> Iterator[Flag]:
    """A flag where the accuracy the owner measured lies outside what these rows allow."""
    if score is None:
        return
    found = wilson(int((c["clean"] == c["y"]).sum()), len(c["y"]))
    if not found.low - 0.01 <= score <= found.high + 0.01:
        text = f"clean accuracy here is {found}, but its owner says {score:.3f}: are these the"
        yield Flag("other-score", text + " same data, asked in the same way?")


def _of_chance(c: Mapping[str, Any], classes: int) -> Iterator[Flag]:
    """A flag where guessing would hardly ever be as wrong: each input counts once, in pairs too."""
    pairs = zip(c["id"], c["target"], strict=True)
    names = [str(i).rpartition(AS)[0] or str(i) if t >= 0 else str(i) for i, t in pairs]
    once = np.unique(names, return_index=True)[1]
    if len(np.unique(c["y"][once])) < 2:  # one class, chosen: a model may be bad at it
        return
    n, hits = len(once), int((c["clean"][once] == c["y"][once]).sum())
    if at_most(hits, n, 1 / classes) < CHANCE:
        text = f"clean accuracy {hits / n:.3f} of {n} rows is below chance for {classes} classes"
        yield Flag("below-chance", text + ": are the labels in the model's order?")
    elif classes > 2 and n >= MATCHED * classes:
        now, best = hits / n, _best_order(c["y"][once], c["clean"][once], classes)
        if best - now > 0.25:
            text = f"clean accuracy is {now:.3f}, and {best:.3f} with the model's classes in "
            yield Flag("other-order", text + "another order: are the labels in the model's order?")


def _best_order(y: Any, clean: Any, classes: int) -> float:
    """The accuracy, were the model's classes to stand for those they fit best, one each."""
    from scipy.optimize import linear_sum_assignment

    known = (y >= 0) & (clean >= 0) & (y < classes) & (clean < classes)
    seen = np.zeros((classes, classes))
    np.add.at(seen, (y[known], clean[known]), 1)
    return float(seen[linear_sum_assignment(-seen)].sum() / max(len(y), 1))


def _of_noise(records: Records, facts: Facts) -> Iterator[Flag]:
    """Flags of a game without an adversary."""
    moved = facts.moved
    if moved > MOVED:
        text = "no noise has the rank correlations that were given: the nearest possible ones took "
        text += f"their place, which moved an entry of the correlation matrix by {moved:.2g}"
        yield Flag("noise-moved", text + "; the figures are about that other noise")
    if facts.tolerance is None:
        return
    c = records.columns
    width = c["probability_high"] - c["probability_low"]
    wide = width > 1.01 * facts.tolerance
    for kind in sorted(set(c["winner"][wide])):
        if kind in DRAWN and not facts.tolerance_given:
            continue  # nobody asked draws for the width that is usual for bounds
        mine = wide & (c["winner"] == kind)
        text = f"{int(mine.sum())} of {len(records)} records: {kind} intervals wider than "
        text += f"{facts.tolerance:g} (widest {np.nanmax(width[mine]):.2g}); "
        yield Flag("bounds-wide", text + NARROWER.get(kind, "give Nature more budget="), "note")


def of_quota(records: Records, spec: Spec) -> Iterator[Flag]:
    """A flag where a band is smaller than the quota says: nobody of a source is in the data."""
    if spec.quota is None:
        return
    sources = spec.quota.sources
    missing = [c for c in sources if c not in set(records.columns["y"].tolist())]
    if missing:
        text = f"{len(missing)} of the quota's {len(sources)} sources have no row in the data ("
        text += ", ".join(str(spec.class_name(c)) for c in missing)
        yield Flag("sources-missing", text + "): bands are without them, so robustness is too high")


def of_ladder(robust: Mapping[str, Estimate], strongest: str) -> Iterator[Flag]:
    """Flags from the rungs of a ladder, by name."""
    best, transfer = robust[strongest], robust.get("transfer")
    if transfer is not None and transfer.value < best.value:
        text = f"the transfer attack ({transfer.value:.3f}) beats {strongest} ({best.value:.3f}): "
        yield Flag("transfer-beats-gmsa", text + "the inner attack is too weak, give it more steps")
    public = robust.get("public randomness")
    if public is not None and public.high < best.low:
        text = f"robust accuracy falls from {best.value:.3f} to {public.value:.3f} when the "
        text += "defender's random numbers are known: they must stay secret"
        yield Flag("rests-on-randomness", text, "note")


def monotone(reports: Sequence[Report]) -> Iterator[Flag]:
    """Robust accuracy must not rise with the budget: reports in order of growing eps."""
    for before, after in pairwise(reports):
        low, high = before.metric("robust").value, after.metric("robust").value
        if high > low:
            text = f"robust accuracy rises from {low:.3f} to {high:.3f} as the budget grows, from "
            text += f"{before.spec.text('space')} to {after.spec.text('space')}: "
            text += "the attack is too weak"
            yield Flag("not-monotone", text)
