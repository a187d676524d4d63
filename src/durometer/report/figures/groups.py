"""Figures of group-based robustness, next to the usual ones.

Lin et al. (NDSS 2024): Rob, the chance that the attacker does *not* get what it wants, says little
by itself, because a model that never says "stop" has a perfect one. It is shown next to benign
accuracy, accuracy on the classes that the attacker wants (T), and the robustness under other goals
(`evaluate(..., also=(Untargeted(), RandomTarget()))`).

What a reader would get wrong: in a quota's records a row is a *pair*, so a share of rows is not a
share of inputs; accuracies here count every input once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
from numpy.typing import NDArray

from durometer.attacks.campaign import bands, replay
from durometer.core.spec import QuotaRule
from durometer.goals.coalition_probability import Pairs, chances, disjoint
from durometer.report.figures import harm
from durometer.report.figures.transductive import share_of
from durometer.report.stats import Estimate, Z, bootstrap, clopper_pearson, wilson

if TYPE_CHECKING:
    import pandas as pd

    from durometer.report.report import Report

Figures = dict[str, tuple[str, Estimate]]
DRAWS = 200  # bands whose attempts are counted


def figures(report: Report) -> Figures:
    """What a group goal, a quota or `also` adds to a report: name -> (title, estimate)."""
    found: Figures = {}
    table = report.table
    if report.spec.quota is not None:
        rule = report.spec.quota
        table = table[(table["target"] < 0) | (table["target"] == rule.targets[0])]
        found["clean"] = ("clean accuracy", _share(table["clean"] == table["y"]))
        found |= _quota(report, rule)
    elif report.spec.aims is not None:
        found["clean"] = ("clean accuracy", _share(table["clean"] == table["y"]))
        played = table[table["skipped"] == ""]
        found["robust"] = ("group-based robustness", _share(~played["success"]))
    if report.spec.aims is not None:
        wanted = table[table["y"].isin(report.spec.aims)]
        title = "clean accuracy on the targeted classes"
        found["clean_on_targets"] = (title, share_of(wanted, wanted["clean"] == wanted["y"]))
    if isinstance(report.spec.goal, dict) and report.spec.goal.get("cost") is not None:
        found |= harm.figures(report)
    for name, other in sorted(report.also.items()):
        found[f"robust_{name}"] = (
            f"robustness, {other.spec.text('goal')}",
            other.metric("robust"),
        )
    return found


def robustness(pairs: Pairs, rule: QuotaRule, seed: int = 0) -> Estimate:
    """The share of all bands that do not fill the quota; n is the number of inputs.

    Its interval is Korn and Graubard's (1998) for clustered shares: the exact binomial one of an
    effective number of bands. The variance is that of the inputs' own shares (Hoeffding's
    projection), with Student's quantile for the few inputs it is known from. There are at least as
    many effective bands as can be formed without sharing an input, whose variance is never smaller
    (Hoeffding 1963), and no more than inputs.
    """
    found = 1 - chances(pairs, rule, each_input=True, seed=seed)
    value, n = float(found[0]), len(pairs.ids)
    fewest = disjoint(pairs, rule)
    size = max(fewest, min(n, _effective(value, found[1:], pairs, rule)))
    low, high = clopper_pearson(value * size, size)
    return Estimate(value, low, high, n)


def _effective(value: float, each: NDArray[np.float64], pairs: Pairs, rule: QuotaRule) -> float:
    """How many independent bands would vary as much as the share over all bands does."""
    variance = weighted = 0.0
    for s in set(rule.sources):
        mine = each[pairs.source == s]
        if len(mine) > 1:
            part = float(mine.var(ddof=1)) / len(mine)
            variance += part
            weighted += part * part / (len(mine) - 1)
    if variance < 1e-12:
        return 0.0  # no spread at all: nothing is known but that
    student = float(scipy.special.stdtrit(variance**2 / weighted, 0.975))  # Satterthwaite's degrees
    return value * (1 - value) / variance * (Z / student) ** 2


def _share(hits: pd.Series[bool] | NDArray[np.bool_]) -> Estimate:
    return wilson(int(hits.sum()), len(hits))


def _quota(report: Report, rule: QuotaRule) -> Figures:
    pairs = Pairs.of(report.records.columns, len(set(rule.targets)))
    k = rule.k
    text = f"{k} of {len(rule.targets)} targets, {'with' if rule.reuse else 'no'} reuse"
    if rule.least:
        text += f", {rule.least} of them managers"
    if rule.filled:
        text = rule.wish
    title = f"group-based robustness ({text})"
    if not len(pairs.ids):  # the first chunks of a run that was stopped
        return {"robust": (title, wilson(0, 0))}
    seed = report.spec.seed
    found: Figures = {
        "robust": (title, robustness(pairs, rule, seed)),
        "reachable": ("pairs (input, target) within reach", _share(pairs.hits.reshape(-1))),
    }
    for name, title, counts in (
        ("attempts", "by the campaign's order", attempts(pairs, rule, seed)),
        ("attempts_random", "in random order", attempts(pairs, rule, seed, shuffled=True)),
    ):
        if counts is not None:
            until = rule.wish if rule.filled else str(k)
            title = f"attempts until {until} of a band that can, {title}"
            found[name] = (title, bootstrap(counts[np.isfinite(counts)]))
    return found


def attempts(
    pairs: Pairs, rule: QuotaRule, seed: int, shuffled: bool = False
) -> NDArray[np.float64] | None:
    """The attempts that each of `DRAWS` bands needs, infinite where its quota is out of reach.

    In the order of the campaign's scores (None where the run has none), or shuffled: then every
    band has an order of its own, or all of them would share the luck of one.
    """
    if not shuffled and np.isnan(pairs.scores).any():
        return None
    orders = np.random.default_rng([seed, 1])
    ends = [
        replay(pairs, rule, band, orders.random(pairs.hits.shape) if shuffled else pairs.scores)
        for band in bands(pairs, rule, DRAWS, seed)
    ]
    return np.array([end.attempts if end.filled else np.inf for end in ends])
