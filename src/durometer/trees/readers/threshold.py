"""Threshold wrappers around trees: the same trees, with the threshold as their cut.

A forest's probability is a sum divided by the number of trees, so `p >= t` is `sum >= s` for one
float s, found exactly. A boosted model's is the sigmoid of its sum, so the cut is the log odds of
t, up to what the library's sigmoid rounds. That doubt is said to every proof by two constant trees,
+B and -B: they change no sum, and widen the doubt of each by more than the sigmoid's.

What a reader would get wrong: forests have two outputs and a threshold wrapper one. The score of
the positive class alone decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from durometer.core.errors import Unsupported
from durometer.model.rules import log_odds
from durometer.model.thresholds import Threshold
from durometer.trees.ensemble import Ensemble

UNITS = 16.0  # in the last place of a probability: what a library's sigmoid may be off by


def thresholded(trees: Ensemble, rule: Threshold) -> Ensemble:
    """The trees of the estimator inside, deciding as the wrapper does."""
    source = f"{trees.source} behind a threshold"
    if trees.n_classes != 2:
        raise Unsupported(f"{source}: {trees.n_classes} classes; a threshold is about two")
    if rule.method == "decision_function":
        if trees.outputs != 1:
            raise Unsupported(f"{source}: its decision function is not a sum of trees")
        cut = np.nextafter(rule.value, -np.inf) if rule.positive == 1 else -rule.value
        return replace(trees, cut=float(cut), source=source, library=None)
    if not 0 < rule.value < 1:
        raise Unsupported(f"{source}: a threshold of {rule.value} on a probability decides nothing")
    if trees.outputs == 2:
        least = least_sum(rule.value, trees.n_trees)
        sign, cut = (1.0, np.nextafter(least, -np.inf)) if rule.positive == 1 else (-1.0, -least)
        at = [rule.positive]
        return replace(trees, value=np.ascontiguousarray(sign * trees.value[:, at]),
                       base=sign * trees.base[at], cut=float(cut), source=source,
                       library=None)  # fmt: skip
    share = rule.value if rule.positive == 1 else 1 - rule.value
    odds = float(log_odds(np.array(share)))
    return replace(doubted(trees, UNITS / (share * (1 - share))), cut=odds, source=source,
                   library=None)  # fmt: skip


def least_sum(threshold: float, trees: int) -> float:
    """The smallest float whose quotient by the number of trees is at least the threshold."""
    found = threshold * trees
    while found / trees >= threshold:
        found = np.nextafter(found, -np.inf)
    while found / trees < threshold:
        found = np.nextafter(found, np.inf)
    return float(found)


def doubted(trees: Ensemble, units: float) -> Ensemble:
    """The same sums with `units` in the last place more of doubt (see the head of this file)."""
    # no short binary number: sums must not be taken for exact
    large = np.full(trees.outputs, units * 4 / 3 + 1 / 3)
    node = len(trees.feature)

    def grown(held: np.ndarray, *more: object) -> np.ndarray:
        return np.concatenate([held, np.asarray(more, dtype=held.dtype)])

    return replace(
        trees, feature=grown(trees.feature, -1, -1), threshold=grown(trees.threshold, 0, 0),
        left=grown(trees.left, -1, -1), right=grown(trees.right, -1, -1),
        missing_left=grown(trees.missing_left, False, False),
        value=grown(trees.value, large, -large), roots=grown(trees.roots, node, node + 1),
    )  # fmt: skip
