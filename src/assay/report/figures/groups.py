"""Figures of group-based robustness, next to the usual ones.

Lin et al. (NDSS 2024): Rob, the chance that the attacker does *not* get what it wants, says little
by itself, because a model that never says "stop" has a perfect one. It is shown next to benign
accuracy, accuracy on the classes that the attacker wants (T), and the robustness under other goals
(`evaluate(..., also=(Untargeted(), RandomTarget()))`).

What a reader would get wrong: in a quota's records a row is a *pair*, so a share of rows is not a
share of inputs; accuracies here count every input once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assay.attacks.campaign import bands, replay, scored
from assay.goals.bands import Pairs, Rule, chances, disjoint
from assay.report.figures.transductive import share_of
from assay.report.spec import in_text
from assay.report.stats import Estimate, bootstrap, wilson

if TYPE_CHECKING:
    from assay.report.report import Report

Figures = dict[str, tuple[str, Estimate]]
DRAWS = 200  # of the bootstrap over inputs, and bands whose attempts are counted


def figures(report: Report) -> Figures:
    """What a group goal, a quota or `also` adds to a report: name -> (title, estimate)."""
    found: Figures = {}
    table: Any = report.table
    if "quota" in report.spec:
        rule = report.spec["quota"]
        table = table[(table["target"] < 0) | (table["target"] == rule["targets"][0])]
        found["clean"] = ("clean accuracy", _share(table["clean"] == table["y"]))
        found |= _quota(report)
    elif "aims" in report.spec:
        found["clean"] = ("clean accuracy", _share(table["clean"] == table["y"]))
        played = table[table["skipped"] == ""]
        found["robust"] = ("group-based robustness", _share(~played["success"]))
    if "aims" in report.spec:
        wanted = table[table["y"].isin(report.spec["aims"])]
        title = "clean accuracy on the targeted classes"
        found["clean_on_targets"] = (title, share_of(wanted, wanted["clean"] == wanted["y"]))
    for name, other in sorted(report.also.items()):
        found[f"robust_{name}"] = (
            f"robustness, {in_text(other.spec, 'goal')}",
            other.metric("robust"),
        )
    return found


def robustness(pairs: Pairs, rule: Rule, seed: int = 0) -> Estimate:
    """The share of all bands that do not fill the quota; n is the number of inputs."""
    failure = 1 - chances(pairs, rule, DRAWS, seed)
    value, n = float(failure[0]), len(pairs.ids)
    low, high = (float(q) for q in np.quantile(failure[1:], [0.025, 0.975]))
    if low == high:
        few = disjoint(pairs, rule)
        wide = wilson(round(value * few), few)
        low, high = min(value, wide.low), max(value, wide.high)
    return Estimate(value, low, high, n)


def _share(hits: Any) -> Estimate:
    return wilson(int(hits.sum()), len(hits))


def _quota(report: Report) -> Figures:
    rule = report.spec["quota"]
    pairs = Pairs.of(report.records.columns, len(set(rule["targets"])))
    k = rule["k"]
    text = f"{k} of {len(rule['targets'])} targets, {'with' if rule['reuse'] else 'no'} reuse"
    if rule["least"]:
        text += f", {rule['least']} of them managers"
    if rule.get("filled"):
        text = rule["wish"]
    title = f"group-based robustness ({text})"
    if not len(pairs.ids):  # the first chunks of a run that was stopped
        return {"robust": (title, wilson(0, 0))}
    found: Figures = {
        "robust": (title, robustness(pairs, rule, int(report.spec.get("seed", 0)))),
        "reachable": ("pairs (input, target) within reach", _share(pairs.hits.reshape(-1))),
    }
    for name, title, scores in (
        ("attempts", "by the campaign's order", scored(pairs)),
        ("attempts_random", "in random order", scored(pairs, seed=0)),
    ):
        if not np.isnan(scores).any():
            drawn = bands(pairs, rule, DRAWS)
            ends = [replay(pairs, rule, band, scores) for band in drawn]
            counts = np.array([end.attempts for end in ends if end.filled], dtype=float)
            until = rule["wish"] if rule.get("filled") else str(k)
            found[name] = (f"attempts until {until} of a band that can, {title}", bootstrap(counts))
    return found
