"""Why: what the first model was weak by, what the last leans on, which relations protect it.

*Weak by*: how many of the first model's counterexamples change a feature, and how cheap the median
change is (as a share of the feature's range). *Leans on*: what held-out accuracy falls by when a
feature's values are shuffled between rows, before and after. *Protects*: of the proven rows, how
many can be broken once a relation is struck out of the schema, decided exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from durometer.core.streams import derive
from durometer.data.dataset import Dataset
from durometer.goals.goal import Goal
from durometer.kernels.arrays import Floats
from durometer.model.classifier import wrap
from durometer.model.frames import align_columns
from durometer.spaces.region import Space
from durometer.tables.schema import Schema
from durometer.tables.space import TableSpace
from durometer.training.hardening.counterexamples import counterexamples

_ROWS = 100  # proven rows that each relation is struck out for


@dataclass(frozen=True)
class Explanation:
    """Each part by name, largest first.

    >>> print(Explanation({"age": (0.5, 0.02)}, {"age": 0.1}, {"pay": 0.2}, {}))
    weak by: age (in 50 % of the counterexamples, a median change of 2.0 % of its range)
    leant on: age 0.100; now on: pay 0.200
    """

    weak: dict[str, tuple[float, float]]  # share of counterexamples, median change
    before: dict[str, float]  # accuracy lost when shuffled
    after: dict[str, float]
    protects: dict[str, float]  # relation -> share of proven rows broken without it

    def __str__(self) -> str:
        weak = ", ".join(
            f"{name} (in {share:.0%} of the counterexamples, a median change of {size:.1%} of its "
            "range)"
            for name, (share, size) in list(self.weak.items())[:5]
        ).replace("%", " %")
        lines = [f"weak by: {weak or 'nothing: no counterexample was found'}"]
        before, after = (
            ", ".join(f"{n} {v:.3f}" for n, v in list(part.items())[:5]) or "nothing alone"
            for part in (self.before, self.after)
        )
        lines.append(f"leant on: {before}; now on: {after}")
        held = [(r, s) for r, s in self.protects.items() if s > 0]
        if held:
            lines.append("protected by: " + ", ".join(f"{r} ({s:.2f})" for r, s in held[:5]))
        return "\n".join(lines)


def weak_by(change: Floats, data: Dataset) -> dict[str, tuple[float, float]]:
    """Of counterexamples' changes (n, d): how often a feature takes part, and how much it moves."""
    if not len(change) or change.ndim != 2:  # single pixels explain nothing
        return {}
    x = data.x.double().numpy()
    width = np.nanmax(x, 0) - np.nanmin(x, 0)
    if data.schema is not None:
        low, high = (b.numpy() for b in data.schema.bounds(data.x.double()))
        span = np.nanmax(np.where(np.isfinite(high - low), high - low, np.nan), 0, initial=0.0)
        width = np.where(span > 0, span, width)
    found = {}
    for f in np.argsort(-(change != 0).mean(0), kind="stable"):
        moved = change[:, f] != 0
        if not moved.any():
            break
        size = np.nanmedian(np.abs(change[moved, f])) / (width[f] or 1.0)
        found[name_of(data, int(f))] = (float(moved.mean()), float(size))
    return found


def leans_on(model: Any, data: Dataset, seed: int) -> dict[str, float]:
    """Accuracy lost when a feature is shuffled; what costs nothing is left out."""
    if data.x.ndim != 2:
        return {}
    classifier = align_columns(wrap(model), data)
    x, y = data.x.clone(), data.y

    def accuracy(rows: torch.Tensor) -> float:
        with classifier.ready(), torch.no_grad():
            return float((classifier.logits(rows).argmax(1) == y).double().mean())

    clean, lost = accuracy(x), {}
    for f in range(x.shape[1]):
        column = x[:, f].clone()
        if bool((column == column[0]).all()):
            continue
        draw = torch.Generator().manual_seed(derive(seed, "shuffle", f))
        x[:, f] = column[torch.randperm(len(x), generator=draw)]
        lost[name_of(data, f)] = clean - accuracy(x)
        x[:, f] = column
    return {n: v for n, v in sorted(lost.items(), key=lambda kv: -kv[1]) if v > 0}


def protected_by(model: Any, proven: Dataset, space: Space, goal: Goal) -> dict[str, float]:
    """For each relation of a table: the share of these proven rows that break without it."""
    if not isinstance(space, TableSpace) or not space.schema.relations or not len(proven):
        return {}
    part = proven if len(proven) <= _ROWS else proven.sample(_ROWS)
    schema, found = space.schema, {}
    for r in schema.relations:
        rest = Schema(schema.features, [q for q in schema.relations if q is not r])
        known = counterexamples(model, part, _with(space, rest), goal, 0.2)
        found[str(r)] = float(known.broken.mean())
    return dict(sorted(found.items(), key=lambda kv: -kv[1]))


def _with(space: TableSpace, schema: Schema) -> TableSpace:
    from dataclasses import replace

    return replace(space, schema=schema)


def name_of(data: Dataset, f: int) -> str:
    """A column's name, or its place."""
    return data.columns.names[f] if data.columns is not None else str(f)
