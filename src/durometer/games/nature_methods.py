"""Which way to a probability under noise: trees read, labels sampled, or sampled where they change.

`Nature.method` names it; a model that is no tree is always sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Bools, Floats
from durometer.model.classifier import Classifier
from durometer.probability import methods as exact
from durometer.probability.certified.bounds import Draws
from durometer.probability.importance import importance as sampled_where_labels_change
from durometer.probability.sampling import generator, monte_carlo
from durometer.trees.readers import reader

if TYPE_CHECKING:
    from durometer.games.nature import Nature


def by_method(
    ready: Nature, x: Floats, allowed: Bools, ids: Any = None, seed: int = 0
) -> exact.Probability:
    """P(label in allowed[i]) for each record, of a game whose trees have been read."""
    ids = list(range(len(x)) if ids is None else ids)
    ensemble = ready._ensemble
    if ready.method == "importance":
        model = _Counting(ready.predict)
        low, high, queries = np.empty(len(x)), np.empty(len(x)), np.zeros(len(x), np.int64)
        for i in range(len(x)):
            before, one = model.rows, slice(i, i + 1)
            low[one], high[one] = sampled_where_labels_change(
                model, ready.noise, x[one], allowed[one], ids[one],
                seed=seed, draws=ready.draws, confidence=ready.confidence,
            )  # fmt: skip
            queries[i] = model.rows - before
        return exact.Probability(
            low, high, "importance", queries=0 if ready.reads_trees else queries
        )
    if ensemble is None or ready.method == "monte carlo":
        counts = monte_carlo(
            ready.predict,
            ready.noise,
            x,
            ready._classes(x),
            ids,
            seed=seed,
            width=max(ready.tolerance, 1e-9),
            most=ready.draws,
            confidence=ready.confidence,
            allowed=allowed,
            first=min(1000, ready.draws),
        )
        queries = 0 if ready.reads_trees else counts.draws
        return exact.Probability(*counts.interval(allowed), "sampled", queries=queries)
    ask = partial(
        exact.inside,
        ensemble,
        ready.noise,
        x,
        allowed,
        tolerance=ready.tolerance,
        budget=ready.budget,
        seed=seed,
    )
    if ready.method == "auto":
        return exact.with_estimate(
            ask(),
            ensemble,
            ready.noise,
            x,
            allowed,
            tolerance=ready.tolerance,
            budget=ready.budget,
            seed=seed,
        )
    if ready.method == "estimate":
        return ask(estimate=True)
    return ask(draws=Draws(ready.draws, ready.confidence, [generator(seed, i) for i in ids]))


class _Counting:
    """A model that counts the rows it is asked."""

    def __init__(self, predict: Callable[[Floats], NDArray[np.int64]]) -> None:
        self.predict, self.rows = predict, 0

    def __call__(self, x: Floats) -> NDArray[np.int64]:
        self.rows += len(x)
        return self.predict(x)


def certificate(ready: Nature, x: Floats, allowed: Bools, seed: int = 0) -> exact.Probability:
    """As `by_method`, but without the estimate that "auto" puts beside a wide certificate."""
    if ready._ensemble is None or ready.method != "auto":
        return by_method(ready, x, allowed, None, seed)
    return exact.inside(
        ready._ensemble, ready.noise, x, allowed, tolerance=ready.tolerance, budget=ready.budget,
        seed=seed,
    )  # fmt: skip


def of_classes(ready: Nature, x: Floats, seed: int) -> tuple[Floats, Floats]:
    """(low, high) of P(label = class) for every record and class, (n, classes)."""
    classes = ready._classes(x)
    if ready._ensemble is not None and ready.method in ("auto", "estimate"):
        low, high, _ = exact.distribution(
            ready._ensemble,
            ready.noise,
            x,
            tolerance=ready.tolerance,
            budget=ready.budget,
            seed=seed,
            estimate=ready.method == "estimate",
        )
        return low, high
    low, high = np.empty((len(x), classes)), np.empty((len(x), classes))
    for c in range(classes):
        one = np.eye(classes, dtype=bool)[None, c].repeat(len(x), 0)
        found = ready.probability(x, one, seed=seed)
        low[:, c], high[:, c] = found.low, found.high
    return low, high


def verdicts(found: exact.Probability) -> NDArray[np.str_]:
    """More likely to stay than not: known ("proven", only by a certificate), known not to
    ("broken"), or undecided ("open")."""
    stays = "proven" if found.kind in ("exact", "certified") else ""
    return np.where(found.high < 0.5, "broken", np.where(found.low >= 0.5, stays, "open"))


def tree_source(model: Any) -> Any:
    """The model itself, or what was wrapped if that is trees."""
    return (
        model.source
        if isinstance(model, Classifier) and reader(model.source) is not None
        else model
    )
